"""The optional columns of the score table: what each measure says, where it comes from, and what it costs.

Pure data, without torch: configuration checks names against it, the table describes its columns from it, and the
sweep reads from it which passes are needed. Formulas and warnings are in docs/scores.md. Costs are counted in passes
over a row: a view of the sweep is one forward and one backward pass.

The file is long because it is a list: every measure with its sentences, in one place.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gradscore.errors import ConfigError

PassName = Literal["views", "tokens", "base", "alone", "contrast", "sketch", "reference"]


@dataclass(frozen=True, slots=True)
class Pass:
    """Work on each row that several measures share."""

    forwards: int
    backwards: int
    what: str
    is_per_member: bool = False
    """Whether each member of an ensemble makes the pass."""


PASSES: dict[PassName, Pass] = {
    "views": Pass(0, 0, "from the views' own passes"),
    "tokens": Pass(0, 0, "from the newest view's own pass"),
    "base": Pass(1, 0, "the model without its adapter"),
    "alone": Pass(1, 0, "the same, on the answer without its instruction"),
    "contrast": Pass(1, 1, "the newest view, on the answer without its instruction", is_per_member=True),
    "sketch": Pass(0, 0, "from the sketches, when the table is joined"),
    "reference": Pass(
        0, 0, "from the views' own passes, after one more pass of each view over the reference"
    ),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One optional column."""

    name: str
    meaning: str
    unit: str
    """Unit of a value, empty where there is none."""
    direction: str
    """What a high value says."""
    range: str
    """Values that can occur, and when there is none."""
    passes: tuple[PassName, ...]
    source: str
    """Where the measure is taken from."""
    better: Literal["high", "low", ""] = ""
    """Which values should speak for a sound row; empty where the measure does not claim to say. `validate` tests it."""
    is_default: bool = False


_HARD = "high: the model finds the answer hard"
_NATS = "nats per target token"

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure(
            "consistency",
            "cosine between the gradients of successive views, mean over pairs",
            "cosine",
            "high: the row pulls in one direction while the model is trained",
            "-1 to 1; null with fewer than two views or where a gradient is zero",
            ("views",),
            "ours; cosine between successive steps as in gradient profiles",
            better="high",
            is_default=True,
        ),
        Measure(
            "gsnr_paper",
            "relative drop of the gradient norm from the oldest to the newest view, over the spread between members "
            "(--gsnr-paper); our reading of the paper",
            "ratio",
            "high: the row is learned, and the members agree on how far",
            "below, at or above 0; null with fewer than two views, and with one member unless --gsnr-paper drop",
            ("views",),
            "arXiv:2601.13697, our reading",
            better="high",
        ),
        Measure(
            "effective_rank",
            "effective rank of the gradients of A and B under the newest view, mean over adapter matrices",
            "directions",
            "high: the row moves the adapter in many directions at once",
            "1 to the adapter's rank; null where the gradient is zero",
            ("views",),
            "Roy & Vetterli 2007 (EUSIPCO)",
            better="high",
        ),
        Measure(
            "loss_out",
            "loss under the newest view of the member that was never trained on the row (--cross-fit)",
            "as loss",
            _HARD,
            ">= 0; null without --cross-fit",
            ("views",),
            "out-of-sample predictions, arXiv:1911.00068",
            better="low",
        ),
        Measure(
            "loss_drop_out",
            "base_loss minus the loss under the newest view of the member that was never trained on the row",
            _NATS,
            "high: the row follows from the other rows",
            "any number; null without --cross-fit",
            ("base",),
            "ours",
            better="high",
        ),
        Measure(
            "memorised",
            "loss_out minus the mean loss under the newest view of the members that were trained on the row",
            "as loss",
            "high: the row has to be seen to be learned",
            "any number; null without --cross-fit",
            ("views",),
            "memorisation, arXiv:2008.03703, by loss",
            better="low",
        ),
        Measure(
            "grad_norm_out",
            "gradient norm under the newest view of the member that was never trained on the row",
            "norm",
            "high: the row would still move a model that learned from the others",
            ">= 0; null without --cross-fit",
            ("views",),
            "ours",
            better="low",
        ),
        Measure(
            "norm_drop_out",
            "1 - gradient norm under the newest over that under the oldest view, of the member that was never trained on the row",
            "share",
            "high: training on other rows answers this one",
            "at most 1; null without --cross-fit",
            ("views",),
            "ours, after the drop in arXiv:2601.13697",
            better="high",
        ),
        Measure(
            "gsnr_out",
            "gsnr over the views of the member that was never trained on the row",
            "ratio",
            "high: what would be learned from the row stays the same while the others are learned",
            ">= 0; null without --cross-fit or with fewer than two views",
            ("views",),
            "ours",
        ),
        Measure(
            "fold_cosine",
            "cosine between the gradient under the member that was never trained on the row and that under those that were, "
            "each under its newest view",
            "cosine",
            "high: training on the row itself did not change what it asks for",
            "-1 to 1; null without --cross-fit or where a gradient is zero",
            ("views",),
            "ours",
            better="low",
        ),
        Measure(
            "base_loss",
            "loss under the model without its adapter",
            _NATS,
            _HARD,
            ">= 0",
            ("base",),
            "the usual baseline",
            better="low",
            is_default=True,
        ),
        Measure(
            "loss_drop",
            "base_loss minus the loss under the newest view",
            _NATS,
            "high: the model learned the row",
            "any number",
            ("base",),
            "ours",
            better="high",
            is_default=True,
        ),
        Measure(
            "perplexity",
            "exp of the mean loss per target token under the model without its adapter",
            "tokens",
            _HARD,
            ">= 1; null past the largest number",
            ("base",),
            "the usual baseline",
            better="low",
        ),
        Measure(
            "el2n",
            "L2 distance between the predicted distribution and the target token, mean over target tokens",
            "distance",
            _HARD,
            "0 to 1.42",
            ("base",),
            "EL2N, arXiv:2107.07075, by token",
            better="low",
        ),
        Measure(
            "entropy",
            "entropy of the predicted distribution, mean over target tokens",
            _NATS,
            "high: the model is unsure what comes next",
            ">= 0",
            ("base",),
            "Shannon",
            better="low",
        ),
        Measure(
            "peak_excess",
            "largest excess of a target token's loss over the entropy of the prediction for it",
            "nats",
            "high: somewhere the answer goes on in a way that the model, sure of another one, did not expect",
            "any number",
            ("base",),
            "ours; after Min-K%++, arXiv:2404.02936",
            better="low",
        ),
        Measure(
            "number_excess",
            "peak_excess over tokens with a digit alone",
            "nats",
            "high: the answer holds a number where the model was sure of another one",
            "any number; null where no target token has a digit",
            ("base",),
            "ours; after Min-K%++, arXiv:2404.02936",
            better="low",
        ),
        Measure(
            "stop_loss",
            "loss of the stop token that ends the last answer",
            "nats",
            "high: the answer ends where the model expects more, as a truncated one does",
            ">= 0; null where the row was truncated or does not end in a stop token",
            ("base",),
            "ours",
            better="low",
        ),
        Measure(
            "ifd",
            "loss of the answer with its instruction over its loss without, under the model without its adapter",
            "ratio",
            "high: the instruction does not help to predict the answer; above 1 it stands in the way",
            ">= 0; null for plain text and where there is no instruction to leave out",
            ("base", "alone"),
            "Cherry LLM, arXiv:2308.12032",
            better="low",
        ),
        Measure(
            "loss_alone",
            "loss of the answer without its instruction, under the model without its adapter",
            _NATS,
            "high: the answer is unusual text",
            ">= 0; null for plain text and where there is no instruction to leave out",
            ("alone",),
            "the denominator of ifd",
            better="low",
        ),
        Measure(
            "contrast_norm",
            "gradient norm of the row minus that of the same answer without its instruction, under the newest view",
            "norm",
            "high: the instruction makes the answer a bigger surprise than it is alone",
            "any number; null for plain text and where there is no instruction to leave out",
            ("contrast",),
            "ours",
            better="low",
        ),
        Measure(
            "contrast_cosine",
            "cosine between the gradients of the row and of the same answer without its instruction, newest view",
            "cosine",
            "high: the row would teach the same without its instruction",
            "-1 to 1; null for plain text and where there is no instruction to leave out",
            ("contrast",),
            "ours",
            better="low",
        ),
        Measure(
            "gsnr_token",
            "gsnr over the target tokens of the row instead of views, under the newest view; mostly length",
            "ratio",
            "high: the tokens of the answer agree on where the row pulls, or there are few of them",
            ">= 0; null with fewer than two target tokens",
            ("tokens",),
            "ours, from the rank-one structure in arXiv:1510.01799",
        ),
        Measure(
            "gsnr_token_unbiased",
            "gsnr_token with the noise's own share taken out of the mean; 0 for pure noise of any length",
            "ratio",
            "high: the tokens of the answer agree on where the row pulls",
            ">= 0; null with fewer than two target tokens",
            ("tokens",),
            "ours, from the rank-one structure in arXiv:1510.01799",
            better="high",
        ),
        Measure(
            "alignment",
            "cosine of the row's mean gradient with that of all other rows, from sketches (--sketch, else 2048 numbers)",
            "cosine",
            "high: the row pulls where the data as a whole pulls",
            "-1 to 1, with standard error 1/sqrt(sketch); null with a single row",
            ("sketch",),
            "ours; direction filters of gradient profiles",
            better="high",
        ),
        Measure(
            "alignment_category",
            "cosine of the row's mean gradient with that of all other rows of its category, from sketches",
            "cosine",
            "high: the row pulls where its category pulls",
            "-1 to 1, with standard error 1/sqrt(sketch); null without a category and for the only row of one",
            ("sketch",),
            "ours; direction filters of gradient profiles",
            better="high",
        ),
        Measure(
            "influence",
            "cosine of the row's gradient with the mean gradient of the trusted rows (--reference), mean over views",
            "cosine",
            "high: training on the row lowers the loss of the trusted rows",
            "-1 to 1; null without --reference or where the gradient is zero",
            ("reference",),
            "after LESS, arXiv:2402.04333",
            better="high",
        ),
        Measure(
            "influence_category",
            "influence by the trusted rows of the row's own category; by all of them where the reference has none of it",
            "cosine",
            "high: training on the row lowers the loss of the trusted rows of its category",
            "-1 to 1; null without --reference and --category-field or where the gradient is zero",
            ("reference",),
            "after LESS, arXiv:2402.04333",
            better="high",
        ),
    )
}  # fmt: skip

OF_FOLDS = (
    "loss_out",
    "loss_drop_out",
    "memorised",
    "grad_norm_out",
    "norm_drop_out",
    "gsnr_out",
    "fold_cosine",
)
"""Measures that compare members of a cross-fitted warm-up."""

OF_QUALITY = ("base_loss", "ifd", "peak_excess", "number_excess", "stop_loss")
"""What `quality` is made of. Forward passes give all of it; why these: docs/log.md."""

WORDS = ("default", "quality", "all")

DEFAULT_SKETCH = 2048
"""Length of the sketch where a measure needs one and none was asked for: 4 KiB a row, cosines to 0.02."""


def parse_measures(words: str) -> tuple[str, ...]:
    """Return the names that `--measures` asks for, in the order of the registry, each once.

    Args:
        words: names, comma-separated; `default`, `quality` (what it is made of) and `all` stand for several, nothing
            for none.

    Raises:
        ConfigError: a name is unknown; all unknown ones are listed.
    """
    asked = {word.strip() for word in words.split(",") if word.strip()}
    unknown = sorted(asked - {*MEASURES, *WORDS})
    if unknown:
        raise ConfigError(
            f"--measures: {', '.join(unknown)} is unknown. Measures are: {', '.join(MEASURES)}; "
            f"or {', or '.join(WORDS)}, comma-separated."
        )
    groups = {
        "default": {name for name, measure in MEASURES.items() if measure.is_default},
        "quality": set(OF_QUALITY),
        "all": set(MEASURES),
    }
    wanted = asked.union(*(groups[word] for word in asked.intersection(WORDS)))
    return tuple(name for name in MEASURES if name in wanted)


def passes_of(names: Iterable[str]) -> tuple[PassName, ...]:
    """Return the passes that these measures need, each once."""
    needed = {place for name in names for place in MEASURES[name].passes}
    return tuple(place for place in PASSES if place in needed)


def sketch_length(asked: int, names: Iterable[str]) -> int:
    """Return the length of the sketch of each row: as asked for, or what its measures need; 0 for none."""
    return asked or (DEFAULT_SKETCH if "sketch" in passes_of(names) else 0)


def describe_cost(names: Iterable[str], n_views: int, n_members: int = 1) -> str:
    """Return one line on what these measures cost on each row, beside the passes of the views.

    Args:
        names: of the measures.
        n_views: of each member.
        n_members: of the ensemble.
    """
    names = tuple(names)
    if not names:
        return "Measures: none beside the columns that every table has"
    extra = [PASSES[place] for place in passes_of(names) if PASSES[place].forwards]
    all_views = n_views * n_members
    if not extra:
        return f"Measures: {', '.join(names)}, from the passes of the {all_views} views alone"
    times = [n_members if work.is_per_member else 1 for work in extra]
    total = sum(n * (work.forwards + work.backwards) for n, work in zip(times, extra, strict=True))
    parts = "; ".join(_passes(work, n) for n, work in zip(times, extra, strict=True))
    share = total / (2 * all_views)
    return f"Measures: {', '.join(names)}. They add to each row {parts}: about {share:.0%} of the {all_views} views' work"


def _passes(work: Pass, times: int) -> str:
    backward = f" and {times * work.backwards} backward" if work.backwards else ""
    plural = "es" if times * work.forwards > 1 or work.backwards else ""
    return f"{times * work.forwards} forward{backward} pass{plural} ({work.what})"
