"""One pass over the chosen rows: what they are as tokens, and which are copies.

Every row is read, for its key; of a large dataset only a random sample is tokenised, since a million rows take a
tokenizer many minutes and their shares are known from 20,000 to half a per cent.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscore.config import DataConfig
from gradscore.data.encode import Encoder
from gradscore.data.preview import COUNTED, RowPreview, count_row, show
from gradscore.data.read import RowSource, read_rows
from gradscore.data.schemas import Schema
from gradscore.data.select import choose
from gradscore.doctor.finding import Finding, verdict_of_share
from gradscore.records import NO_TARGET_TOKENS, OK, TOO_LONG, EncodedRow

TOKENISED_AT_MOST = 20_000
KEPT_AT_MOST = 512
"""Tokenised rows that are held for the checks after this one."""
SHOWN = 2


@dataclass(frozen=True)
class RowPass:
    """What one pass over the chosen rows found."""

    n_rows: int
    """Chosen rows; all were read."""
    n_copies: int
    """Rows whose content an earlier row has, by key."""
    n_tokenised: int
    """Rows among them that were tokenised."""
    counts: Mapping[str, int]
    """How the tokenised rows fared, as in `data.preview`; each side of a preference pair counts."""
    first_problem: str | None
    """Status of the first row that could not be used."""
    lengths: NDArray[np.int64]
    """Tokens of each usable tokenised row."""
    kept: tuple[EncodedRow, ...]
    """Some usable rows, drawn at random."""
    shown: tuple[RowPreview, ...]
    read_seconds: float
    """Reading all chosen rows."""
    tokenise_seconds: float
    """Tokenising those that were."""

    @property
    def n_usable(self) -> int:
        """Rows of the whole choice that can be scored, about, where only a sample was tokenised."""
        return round(len(self.lengths) * self.n_rows / max(1, self.n_tokenised))


def pass_over_rows(
    source: RowSource, config: DataConfig, encoder: Encoder, tokenised_at_most: int = TOKENISED_AT_MOST
) -> RowPass:
    """Return what one pass over the chosen rows finds; at most so many of them, at random, are tokenised."""
    choice = choose(source.record.n_rows, config)
    n_chosen = sum(choice.has(i) for i in range(choice.last + 1))
    draw = random.Random(config.seed)
    tokenised = sorted(draw.sample(range(n_chosen), min(n_chosen, tokenised_at_most)))
    kept_places = set(draw.sample(tokenised, min(len(tokenised), KEPT_AT_MOST)))
    wanted = set(tokenised)
    keys = np.zeros(n_chosen, dtype=np.uint64)
    counts = dict.fromkeys(COUNTED, 0)
    lengths: list[int] = []
    kept: list[EncodedRow] = []
    shown: list[RowPreview] = []
    problem = None
    seconds = 0.0
    started = time.monotonic()
    for place, row in enumerate(read_rows(source, config)):
        keys[place] = int(
            row.row_key[:16], 16
        )  # 64 bits: a chance of 3e-8 for one false copy in a million rows
        if place not in wanted:
            continue
        began = time.monotonic()
        for encoded in encoder.encode(row):
            count_row(counts, encoded)
            if len(shown) < SHOWN and encoded.status == OK:
                shown.append(show(encoded, encoder.tokenizer))
            if encoded.status == OK:
                lengths.append(encoded.n_tokens)
                kept += [encoded] if place in kept_places else []
            elif problem is None and encoded.status not in (NO_TARGET_TOKENS, TOO_LONG):
                problem = f"row {row.row_index}: {encoded.status}"
        seconds += time.monotonic() - began
    return RowPass(
        n_rows=n_chosen,
        n_copies=n_chosen - len(np.unique(keys)),
        n_tokenised=len(tokenised),
        counts=counts,
        first_problem=problem,
        lengths=np.asarray(lengths, dtype=np.int64),
        kept=tuple(kept),
        shown=tuple(shown),
        read_seconds=time.monotonic() - started - seconds,
        tokenise_seconds=seconds,
    )


def schema_line(schema: Schema, present: Sequence[str], template: str) -> Finding:
    """Return how the dataset's columns, of which these are present, and the template were understood."""
    used = {role: column for role, column in schema.columns.items() if column.split(".")[0] in present}
    columns = ", ".join(f"{role}={column}" for role, column in used.items())
    return Finding("schema", "pass", f"{schema.name} ({columns}); {template}")


def row_findings(found: RowPass, encoder: Encoder) -> tuple[Finding, ...]:
    """Return the lines about rows; the one about prompts only where rows should have some."""
    return (
        usable_check(found),
        target_check(found.counts),
        *prompt_findings(found.counts, encoder),
        length_check(found.counts),
        copies_check(found),
    )


def usable_check(found: RowPass) -> Finding:
    """Return whether rows could be read and rendered."""
    n, n_invalid = found.counts["rows"], found.counts["invalid"]
    sampled = (
        "" if found.n_tokenised == found.n_rows else f", {found.n_tokenised:,} of them tokenised, at random"
    )
    text = f"{found.n_rows:,} chosen{sampled}"
    if not n_invalid:
        return Finding("rows", "pass", f"{text}; none that cannot be read or rendered")
    return Finding(
        "rows",
        verdict_of_share(n_invalid / n),
        f"{text}; {of_rows(n_invalid, n)} cannot be used ({found.first_problem})",
        "Look at them with `gradscore preview`; they get no score, and their status says why.",
    )


def target_check(counts: Mapping[str, int]) -> Finding:
    """Return whether rows have a token that enters the loss."""
    n, without = counts["rows"], counts[NO_TARGET_TOKENS]
    if not without:
        return Finding(
            "targets", "pass", f"every row has a target token, {_mean_targets(counts):.0f} on average"
        )
    empty = counts["empty"]
    return Finding(
        "targets",
        verdict_of_share(without / n),
        f"{of_rows(without, n)} have no target token: in {empty} the answer is empty, in {without - empty} it is cut away",
        "They get no score. Check --columns and --schema where answers are empty, --max-length and --truncate where "
        "they are cut away.",
    )


def prompt_findings(counts: Mapping[str, int], encoder: Encoder) -> tuple[Finding, ...]:
    """Return the line about prompts, or none where rows have no prompts to lose."""
    return (prompt_check(counts),) if encoder.has_prompts else ()


def prompt_check(counts: Mapping[str, int]) -> Finding:
    """Return whether answers still have something that they answer."""
    n, without = counts[OK], counts["promptless"]
    if not without:
        return Finding("prompts", "pass", "every answer has a prompt before it")
    return Finding(
        "prompts",
        "warn",
        f"in {of_rows(without, n)} nothing is left before the answer: the whole prompt is cut away, or was never there",
        "They are scored as answers to nothing. Raise --max-length if the model allows it, or leave long rows out with "
        "--truncate drop.",
    )


def length_check(counts: Mapping[str, int]) -> Finding:
    """Return whether rows fit into `--max-length`."""
    n, cut, left_out = counts["rows"], counts["truncated"], counts[TOO_LONG]
    if not cut + left_out:
        return Finding("length", "pass", "no row is longer than --max-length")
    return Finding(
        "length",
        "warn",
        f"{of_rows(cut + left_out, n)} are {'cut to' if cut else 'left out for'} --max-length",
        "Raise --max-length if the model allows it: a row that was cut is scored without its end (without its beginning with "
        "--truncate left), and a row left out has no score.",
    )


def copies_check(found: RowPass) -> Finding:
    """Return whether rows repeat others."""
    if not found.n_copies:
        return Finding("copies", "pass", "no two rows have the same content")
    return Finding(
        "copies",
        verdict_of_share(found.n_copies / found.n_rows),
        f"{of_rows(found.n_copies, found.n_rows)} repeat an earlier row exactly",
        "Copies get equal scores, so that filter keeps or drops them together; remove them before, unless wanted.",
    )


def of_rows(part: int, whole: int) -> str:
    """Return a count with its share, such as `3 of 300 rows (1.0 %)`."""
    return f"{part:,} of {whole:,} rows ({part / max(1, whole):.1%})".replace("%)", " %)")


def _mean_targets(counts: Mapping[str, int]) -> float:
    return counts["target_tokens"] / max(1, counts[OK])
