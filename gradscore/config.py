"""All settings: one small frozen dataclass per stage, one sentence per field, checks at birth.

The sections are the stages. The command line's options are these fields, generated from them,
so the two cannot drift; precedence is command line over YAML file over default. `None` means "chosen for
you"; what was chosen is stored with the run.

The file is long because it is mostly data: every option with its sentence, in one place.
"""

import dataclasses
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gradscore.errors import ConfigError
from gradscore.measures import parse_measures

LAST_LAYERS = r"last:(?:(?P<count>[1-9]\d*)|(?P<percent>\d+(?:\.\d+)?)%)"
"""What `--lora-layers` takes besides a regular expression on module names."""


def option(default: Any, help: str) -> Any:
    """Return a dataclass field whose sentence is shown by `--help`."""
    return field(default=default, metadata={"help": help})


def require(mistakes: list[str], condition: bool, message: str) -> None:
    """Append `message` to `mistakes` unless `condition` holds."""
    if not condition:
        mistakes.append(message)


def require_finite(mistakes: list[str], section: Any) -> None:
    """Append a mistake for every float field of a section that is NaN or infinite."""
    for field_ in dataclasses.fields(section):
        value = getattr(section, field_.name)
        is_finite = not isinstance(value, float) or math.isfinite(value)
        require(
            mistakes, is_finite, f"--{field_.name.replace('_', '-')} must be a finite number, not {value}."
        )


def raise_if_any(mistakes: list[str]) -> None:
    """Raise one ConfigError that lists all mistakes, if there are any."""
    if mistakes:
        raise ConfigError.of(mistakes)


@dataclass(frozen=True)
class DataConfig:
    """Which rows are read, how they become text, and which tokens are targets."""

    dataset: str | None = option(
        None, "Local file (JSONL, JSON, Parquet, CSV, TSV, also .gz), save_to_disk folder, or Hub name."
    )
    split: str = option("train", "Split of a Hub dataset or of a saved DatasetDict.")
    subset: str | None = option(None, "Configuration name of a Hub dataset.")
    data_files: str | None = option(
        None, "Files inside a Hub dataset or folder, comma-separated, globs allowed."
    )
    schema: Literal[
        "auto", "alpaca", "sharegpt", "messages", "prompt_completion", "question_answer", "preference", "text"
    ] = option("auto", "How columns become a conversation; auto recognises it from the column names.")
    columns: str | None = option(None, "Column names of a schema's roles, as role=column,role=column.")
    category_field: str | None = option(
        None, "Column that names each row's category; a dotted path reaches inside."
    )
    limit: int | None = option(None, "Read only the first N rows.")
    sample: int | None = option(None, "Draw N rows at random, with --seed.")
    shard: str | None = option(
        None, "Score only part I of N, as I/N with I from 0; rows are dealt by row index."
    )
    seed: int = option(
        0, "Seeds the row sample, the warm-up order, new adapters, dropout draws and projections."
    )
    side: Literal["chosen", "rejected", "both"] = option(
        "chosen", "Which answer of a preference pair is scored; filter ranks pairs by the chosen one."
    )
    turns: Literal["all", "last"] = option("all", "Which assistant turns are targets.")
    chat_template: str | None = option(
        None, "File with a Jinja chat template that replaces the tokenizer's own."
    )
    max_length: int | None = option(
        None, "Longest row in tokens; by default the model's own limit, at most 2048."
    )
    truncate: Literal["right", "left", "drop"] = option(
        "right", "What a longer row loses: its end (right), its beginning (left), or it is not scored (drop)."
    )
    skip_bad_rows: bool = option(False, "Record a row that cannot be read with a status instead of stopping.")

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        require_finite(mistakes, self)
        for name in ("limit", "sample"):
            value = getattr(self, name)
            require(
                mistakes,
                value is None or value > 0,
                f"--{name} must be a positive number of rows, not {value}.",
            )
        require(
            mistakes,
            self.max_length is None or self.max_length >= 2,
            f"--max-length must be at least 2 tokens, not {self.max_length}.",
        )
        require(
            mistakes,
            -(2**63) <= self.seed < 2**64,
            f"--seed must fit into 64 bits, and {self.seed} does not.",
        )
        if self.shard is not None:
            parts = self.shard.split("/")
            fits = len(parts) == 2 and all(p.isdigit() for p in parts) and int(parts[0]) < int(parts[1])
            require(mistakes, fits, f"--shard takes I/N with 0 <= I < N, such as 0/4, not {self.shard!r}.")
        raise_if_any(mistakes)


def _lora_layers_mistakes(words: str | None) -> list[str]:
    """Return what is wrong with `--lora-layers`: it takes last:N, last:P% or a regular expression."""
    last = None if words is None else re.fullmatch(LAST_LAYERS, words)
    if words is None or (last is not None and float(last["percent"] or 100) <= 100):
        return []
    if words.startswith("last:"):
        return [f"--lora-layers takes last:8 or last:25%, not {words!r}."]
    try:
        re.compile(words)
    except re.error as error:
        return [f"--lora-layers {words!r} is neither last:N nor a regular expression ({error})."]
    return []


@dataclass(frozen=True)
class ModelConfig:
    """Which model is asked, through which adapter, and under which views."""

    model: str | None = option(
        None, "Path or Hub name of a transformers causal language model, or a .gguf file."
    )
    revision: str | None = option(None, "Branch, tag or commit of a Hub model.")
    trust_remote_code: bool = option(False, "Run code that comes with the model.")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = option(
        "auto", "Compute type of the model: auto is bfloat16 on CUDA and float32 elsewhere."
    )
    device: str = option("auto", "auto, cpu, cuda, cuda:1, mps; auto takes a GPU if there is one.")
    attn: Literal["auto", "eager", "sdpa"] = option(
        "auto", "Attention implementation; auto takes what the engine can differentiate."
    )
    adapter: str | None = option(None, "Existing PEFT adapter (folder or Hub name) to start from.")
    lora_rank: int = option(8, "Rank of a new LoRA adapter.")
    lora_alpha: float = option(16.0, "Scale of a new LoRA adapter; its output is multiplied by alpha / rank.")
    lora_targets: str = option(
        "all-linear",
        "Modules a new adapter is put on: all-linear, attention, ffn, or names, comma-separated.",
    )
    lora_layers: str | None = option(
        None,
        "Layers a new adapter is put on: last:8, last:25%, or a regular expression on module names; by default all. "
        "What lies below the first of them is then run once for all views.",
    )
    cache_trunk: bool = option(
        False,
        "Keep what the layers below the adapter make of each row on disk, tokens x hidden size numbers, so that warm-up and views run them once.",
    )
    view_source: Literal["warmup", "checkpoints", "dropout", "single"] = option(
        "warmup",
        "Where the views of each row come from: a short LoRA warm-up, given checkpoints, dropout draws, or one view only.",
    )
    views: int = option(4, "Views per member: snapshots kept by the warm-up, or dropout draws.")
    members: int = option(1, "Warm-up runs with the same start and another data order.")
    cross_fit: bool = option(
        False,
        "Deal the rows to as many folds as there are members, and let each member leave one fold out of its training: "
        "every row is then also seen by a member that never trained on it.",
    )
    include_base: bool = option(False, "Add the model as it was before any warm-up as view 0.")
    checkpoints: str | None = option(
        None, "Adapters or checkpoints, oldest first, comma-separated; or one Trainer output folder."
    )
    warmup_steps: int | None = option(
        None,
        "Optimiser steps before the first snapshot; by default all snapshots lie evenly over one pass over the rows, 40 to 500 steps.",
    )
    update_interval: int | None = option(
        None, "Optimiser steps between snapshots; by default as many as before the first."
    )
    warmup_batch_size: int = option(8, "Rows per optimiser step of the warm-up.")
    learning_rate: float = option(
        2e-4,
        "Peak learning rate of the warm-up (AdamW, linear rise over a tenth of the steps, then constant).",
    )
    dropout: float = option(0.1, "Dropout rate of the dropout views.")

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        require_finite(mistakes, self)
        for name in ("lora_rank", "views", "members", "warmup_batch_size"):
            require(
                mistakes,
                getattr(self, name) >= 1,
                f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}.",
            )
        mistakes += _lora_layers_mistakes(self.lora_layers)
        for name in ("warmup_steps", "update_interval"):
            value = getattr(self, name)
            require(
                mistakes,
                value is None or value >= 1,
                f"--{name.replace('_', '-')} must be at least 1, not {value}.",
            )
        require(
            mistakes,
            not self.cross_fit or (self.members >= 2 and self.view_source == "warmup"),
            "--cross-fit needs --view-source warmup and two --members or more, each of which leaves one fold out.",
        )
        require(mistakes, self.lora_alpha != 0, "--lora-alpha must not be 0: the adapter would do nothing.")
        require(
            mistakes, self.learning_rate > 0, f"--learning-rate must be positive, not {self.learning_rate}."
        )
        require(mistakes, 0 < self.dropout < 1, f"--dropout must lie between 0 and 1, not {self.dropout}.")
        require(
            mistakes,
            (self.view_source == "checkpoints") == (self.checkpoints is not None),
            "--view-source checkpoints and --checkpoints PATH belong together; one of them is missing.",
        )
        raise_if_any(mistakes)


@dataclass(frozen=True)
class GradientConfig:
    """Whose gradient is taken, by which engine, and how it is changed before it is scored."""

    parameters: str = option(
        "lora",
        "Counted parameters: lora, all, linear, attention, ffn, ffn-in, last-layer, or a regular expression on names.",
    )
    engine: Literal["auto", "hooks", "vmap", "loop"] = option(
        "auto", "hooks is fast, vmap exact on what functorch accepts, loop exact on everything; auto picks."
    )
    reduction: Literal["mean", "sum"] = option(
        "mean", "A row's loss: mean or sum over its target tokens; it changes how scores depend on length."
    )
    clip: float | None = option(None, "Scale each gradient down to at most this L2 norm.")
    layer_normalise: bool = option(
        False, "Divide each parameter's gradient by its root-mean-square norm over calibration rows."
    )
    calibration_rows: int = option(64, "Rows that layer normalisation is calibrated on.")
    stride: int = option(
        1,
        "Count every K-th coordinate only (shifted by one from row to row of a matrix), scaled so that norms stay comparable.",
    )
    projection: int | None = option(
        None,
        "Side of the random projection kept per weight matrix; 0 keeps exact gradients; by default 0 for LoRA and 16 for full weights.",
    )
    norms: Literal["exact", "projected"] = option(
        "exact", "Whether gradient norms are exact or read from the projection, which is cheaper."
    )
    max_batch_tokens: int | None = option(
        None, "Tokens per batch, padding included; by default 1024 on a CPU and 8192 on a GPU."
    )
    check: bool = option(
        True,
        "Before the run look at targets, first and last tokens of the rows, and compare the engine with plain autograd on a few of them; stop if something is wrong.",
    )

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        require_finite(mistakes, self)
        require(
            mistakes,
            self.clip is None or self.clip >= 1e-12,
            f"--clip must be at least 1e-12, not {self.clip}.",
        )
        require(mistakes, self.stride >= 1, f"--stride must be at least 1, not {self.stride}.")
        require(
            mistakes,
            self.calibration_rows >= 1,
            f"--calibration-rows must be at least 1, not {self.calibration_rows}.",
        )
        require(
            mistakes,
            self.projection is None or self.projection >= 0,
            f"--projection must be 0 or more, not {self.projection}.",
        )
        require(
            mistakes,
            self.max_batch_tokens is None or self.max_batch_tokens >= 1,
            f"--max-batch-tokens must be at least 1, not {self.max_batch_tokens}.",
        )
        raise_if_any(mistakes)


@dataclass(frozen=True)
class ScoreConfig:
    """How the gradients of one row under several views become its scores."""

    momentum: float = option(
        0.9, "Weight ratio of a view to the next newer one in the moving average; 1 weighs all views alike."
    )
    epsilon: float = option(
        1e-12, "Added in quadrature to the noise in GSNR's denominator, in units of the gradient norm."
    )
    sketch: int = option(
        0, "Length of the sketch of each row's mean gradient stored in the table; 0 stores none."
    )
    measures: str = option(
        "default",
        "Optional columns: default, quality (what it is made of), all, or names from docs/scores.md, comma-separated; empty for none.",
    )
    quality: str | None = option(
        None,
        "Model that `validate` wrote (quality.json); adds quality, quality_low and quality_high to the table.",
    )
    gsnr_paper: Literal["variance", "std", "drop"] = option(
        "variance",
        "What gsnr_paper divides the drop of the gradient norm by: variance or standard deviation between members, or nothing.",
    )
    reference: str | None = option(
        None,
        "Small dataset of trusted rows, in any schema, for the measures influence and influence_category.",
    )
    reference_adam: bool = option(
        False,
        "Precondition each row's gradient as Adam does, by mean squares over the reference, before it is compared.",
    )

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        require_finite(mistakes, self)
        try:
            uses_reference = any(name.startswith("influence") for name in parse_measures(self.measures))
        except ConfigError as error:
            mistakes += error.mistakes
        else:
            require(
                mistakes,
                uses_reference or (self.reference is None and not self.reference_adam),
                "--reference and --reference-adam serve the measures influence and influence_category, and neither was "
                "asked for. Add one: --measures default,influence.",
            )
        require(
            mistakes,
            self.reference is not None or not self.reference_adam,
            "--reference-adam needs trusted rows. Pass --reference with a dataset.",
        )
        require(
            mistakes, 1e-3 <= self.momentum <= 1, f"--momentum must lie in [0.001, 1], not {self.momentum}."
        )
        require(mistakes, 0 < self.epsilon <= 1, f"--epsilon must lie in (0, 1], not {self.epsilon}.")
        require(mistakes, self.sketch >= 0, f"--sketch must be 0 or more, not {self.sketch}.")
        raise_if_any(mistakes)


@dataclass(frozen=True)
class TableConfig:
    """Where the score table goes and how it is written while the run goes on."""

    output: str | None = option(None, "Score table to write: a .parquet file, or a folder of parts.")
    overwrite: bool = option(False, "Replace a finished table, or results of another configuration.")
    resume: bool = option(True, "Continue an interrupted run of the same configuration where it stopped.")
    part_seconds: float = option(30.0, "Finished rows are written to disk at least this often, in seconds.")

    def __post_init__(self) -> None:
        raise_if_any(
            []
            if self.part_seconds >= 0
            else [f"--part-seconds must not be negative, not {self.part_seconds}."]
        )


@dataclass(frozen=True)
class FilterConfig:
    """Which rows of a finished table are kept."""

    table: str | None = option(None, "Score table: a .parquet file or a folder of parts.")
    by: str = option(
        "gsnr",
        "Numeric column that rows are ranked by; auto is the one that a validation found best (score --quality).",
    )
    ascending: bool = option(False, "Prefer low values of the ranking column.")
    top_k: str | None = option(
        None, "Keep this share (0.3 or 30%) or this many rows (300); 0.3 when no other cut is given."
    )
    min_gsnr: float | None = option(None, "Drop rows whose gsnr lies under this value.")
    protect_gsnr: float | None = option(None, "Keep rows whose gsnr is at least this, even past the cut.")
    minimum: str | None = option(None, "Drop rows under a value, as column=value,column=value.")
    maximum: str | None = option(None, "Drop rows over a value, as column=value,column=value.")
    normalize: str = option(
        "none",
        "Per category before ranking: none, rank, zscore, or quantile:Q (divide by the category's Q-quantile).",
    )
    category_field: str | None = option(
        None, "Column of the dataset that names the category; by default the table's own category column."
    )
    nulls: Literal["drop", "keep"] = option(
        "drop", "What happens to rows that have no value in the ranking column."
    )


@dataclass(frozen=True)
class EmitConfig:
    """Where the kept rows go."""

    output: str | None = option(
        None, "Kept rows: .jsonl, .json, .parquet, .csv or .tsv, also .gz of the text formats."
    )
    dataset: str | None = option(None, "Source dataset, if it is no longer where the table says.")
    overwrite: bool = option(False, "Replace files that exist.")


@dataclass(frozen=True)
class ValidateConfig:
    """Which faults are planted in a copy of the rows, and where the result goes."""

    output: str | None = option(
        None, "Folder for the rows with their faults, their scores, verdicts, a picture and quality.json."
    )
    contamination: float = option(0.2, "Share of the sample's rows that get a fault.")
    kinds: str | None = option(None, "Kinds of fault to plant, comma-separated; by default all.")

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        require_finite(mistakes, self)
        fits = 0 < self.contamination <= 0.5
        require(mistakes, fits, f"--contamination must lie in (0, 0.5], not {self.contamination}.")
        raise_if_any(mistakes)


@dataclass(frozen=True)
class RunConfig:
    """The whole configuration, one section per stage."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    gradients: GradientConfig = field(default_factory=GradientConfig)
    scores: ScoreConfig = field(default_factory=ScoreConfig)
    table: TableConfig = field(default_factory=TableConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    emit: EmitConfig = field(default_factory=EmitConfig)
    validate: ValidateConfig = field(default_factory=ValidateConfig)


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "model": ModelConfig,
    "gradients": GradientConfig,
    "scores": ScoreConfig,
    "table": TableConfig,
    "filter": FilterConfig,
    "emit": EmitConfig,
    "validate": ValidateConfig,
}


def to_mapping(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Return the configuration as plain nested dicts, section by section."""
    return dataclasses.asdict(config)


def from_mapping(mapping: dict[str, Any], origin: str = "configuration") -> RunConfig:
    """Return the configuration that nested dicts describe; absent fields keep their default.

    Raises:
        ConfigError: a section or field is unknown or a value is of the wrong kind; all are listed.
    """
    mistakes: list[str] = []
    sections: dict[str, Any] = {}
    for name, values in mapping.items():
        if name not in SECTIONS:
            mistakes.append(f"{origin}: section {name!r} is unknown; sections are: {', '.join(SECTIONS)}.")
        elif not isinstance(values, dict):
            mistakes.append(f"{origin}: section {name!r} must hold fields, but it is {values!r}.")
        else:
            problems = [f"{origin}: {problem}" for problem in section_mistakes(name, values)]
            mistakes.extend(problems)
            if not problems:
                try:
                    sections[name] = SECTIONS[name](**_texts(name, values))
                except ConfigError as error:
                    mistakes.extend(f"{origin}: {mistake}" for mistake in error.mistakes)
    raise_if_any(mistakes)
    return RunConfig(**sections)


def section_mistakes(section: str, values: dict[str, Any]) -> list[str]:
    """Return what is wrong with the names and types of one section's values."""
    hints = get_type_hints(SECTIONS[section])
    mistakes = []
    for key, value in values.items():
        if key not in hints:
            mistakes.append(f"{section}.{key} is unknown; {section} has: {', '.join(hints)}.")
        elif not _fits(value, hints[key]) and not (type(value) in (int, float) and _fits("", hints[key])):
            mistakes.append(f"{section}.{key} cannot be {value!r}; it takes {_describe(hints[key])}.")
    return mistakes


def _texts(section: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with numbers as text in fields that take text, such as `top_k: 0.3` in YAML."""
    hints = get_type_hints(SECTIONS[section])
    return {
        key: str(value) if type(value) in (int, float) and _fits("", hints[key]) else value
        for key, value in values.items()
    }


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_args(hint):
        return any(_fits(value, part) for part in get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    if get_args(hint):
        return " or ".join(_describe(part) for part in get_args(hint))
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(
        hint, "nothing (null)"
    )


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Return the nested dicts of a YAML configuration file.

    Raises:
        ConfigError: the file is missing, is not YAML, or does not hold sections.
    """
    import yaml  # only commands that are given a file need it

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"The configuration file {path} cannot be read: {error.strerror}. Check the path."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration file {path} is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"The configuration file {path} must hold sections ({', '.join(SECTIONS)}); it holds {type(content).__name__}."
        )
    return content
