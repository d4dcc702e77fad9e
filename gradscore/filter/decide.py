"""Every row of a score table gets a decision and a reason.

The order is: status, missing values, hard thresholds, normalisation, ranking, top-k, protection. The share
of `--top-k 0.3` is taken of all rows that have a ranking value, before thresholds: "the best 30 % of my
dataset" stays the same number of rows when a threshold is added, and thresholds only ever take rows
away. Protection (`--protect-gsnr`) adds rows that were past the cut; it does not lift a threshold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradscore.config import FilterConfig
from gradscore.errors import ConfigError, TableError
from gradscore.filter.advice import QUALITY
from gradscore.filter.noise import order_noise
from gradscore.filter.reasons import Code, Decisions
from gradscore.filter.rules import Labels, Numbers, order_best_first, parse_normalize, parse_top_k
from gradscore.filter.thresholds import Threshold, thresholds_of
from gradscore.records import INVALID_PREFIX, OK
from gradscore.table.read import ScoreTable

DEFAULT_TOP_K = "0.3"


@dataclass(slots=True)
class _Draft:
    """The decision of every row while it is being made, and what there is to say about it."""

    codes: NDArray[np.int8]
    rank: NDArray[np.int64]
    score: Numbers
    messages: list[str]
    warnings: list[str]


def decide(
    table: ScoreTable, config: FilterConfig, categories: Sequence[str | None] | None = None
) -> Decisions:
    """Return the decision and reason of every row of the table; for preference pairs, of the chosen side.

    Args:
        table: the score table; list columns are not needed.
        config: which rows to keep.
        categories: one per table row, in place of the table's own category column.

    Raises:
        ConfigError: an option is wrong; all mistakes are listed.
        TableError: the table holds preference pairs but no chosen side.
    """
    thresholds = _checked(table, config)
    rows = decided_rows(table)
    n_rejected = len(rows) - int(rows.sum())
    arrow = table.arrow.filter(pa.array(rows))
    table = ScoreTable(table.path, arrow, table.schema, table.metadata)
    labels = table.texts("category")
    if categories is not None:
        labels = np.array(list(categories), dtype=object)[rows]
    n = len(table)
    values = table.numbers(config.by)
    draft = _Draft(np.zeros(n, np.int8), np.zeros(n, np.int64), np.full(n, np.nan), [], [])

    if n_rejected:
        draft.messages.append(
            f"Preference pairs are ranked by their chosen answer; {n_rejected} rejected answers are left aside."
        )
    has_value = _drop_unscored(table, config, values, draft)
    k = _how_many(config, int(has_value.sum()), bool(thresholds), draft)
    survives = has_value & (draft.codes == Code.UNDECIDED)
    violated = _drop_by_threshold(table, config, thresholds, survives, draft)
    survives &= draft.codes == Code.UNDECIDED
    _rank(table, config, values, labels, survives, draft)
    _cut(table, config, k, survives, draft)
    draft.warnings.extend(_noise_warnings(table, config))
    if k is not None and config.by in ("gsnr", "gsnr_unbiased"):
        noise = order_noise(table)
        draft.warnings.extend([noise.warning] if noise and noise.warning else [])
    if n and not any(Code(code).is_kept for code in np.unique(draft.codes)):
        draft.warnings.append("Warning: no row is kept. Look at the reasons, and use a weaker cut.")
    return Decisions(
        row_index=table.arrow["row_index"].to_numpy(),
        row_key=table.texts("row_key"),
        status=table.texts("status"),
        category=labels,
        by=config.by,
        value=values,
        gsnr=table.numbers("gsnr"),
        code=draft.codes,
        rank=draft.rank,
        score=draft.score,
        n_ranked=int(survives.sum()),
        top_k=config.top_k or DEFAULT_TOP_K,
        thresholds=tuple(thresholds),
        threshold_index=violated,
        threshold_values=tuple(table.numbers(threshold.column) for threshold in thresholds),
        protect_gsnr=config.protect_gsnr,
        messages=tuple(draft.messages),
        warnings=tuple(draft.warnings),
    )


def _checked(table: ScoreTable, config: FilterConfig) -> list[Threshold]:
    """Return the thresholds after checking every option that does not depend on counts."""
    mistakes: list[str] = []
    if config.by not in table.numeric_columns:
        kind = "is not numeric" if config.by in table.schema.names else "is not in the table"
        remedy = " Score with --quality FILE.json to have it, a model that `gradscore validate` writes."
        mistakes.append(
            f"--by {config.by}: this column {kind}. Numeric columns are: {', '.join(table.numeric_columns)}."
            f"{remedy if config.by == QUALITY else ''}"
        )
    thresholds = thresholds_of(config, table.numeric_columns, mistakes)
    checks: list[Callable[[], object]] = [lambda: parse_normalize(config.normalize)]
    if config.top_k is not None:
        text = config.top_k
        checks.append(lambda: parse_top_k(text, max(len(table), 1)))
    for check in checks:
        try:
            check()
        except ConfigError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError.of(mistakes)
    return thresholds


def decided_rows(table: ScoreTable) -> NDArray[np.bool_]:
    """Return True for rows that stand for a row of the dataset: the chosen side of pairs, and all others."""
    side = table.arrow["side"]
    rows = np.asarray(pc.fill_null(pc.equal(side, "chosen"), True).to_numpy(), dtype=bool)
    if len(rows) and not rows.any():
        raise TableError(
            f"{table.path} holds only the rejected side of preference pairs, and rows are chosen by the chosen side. "
            "Score again with --side chosen or --side both."
        )
    return rows


def _drop_unscored(
    table: ScoreTable, config: FilterConfig, values: Numbers, draft: _Draft
) -> NDArray[np.bool_]:
    """Decide the rows without a score, and return True for the others.

    With `--nulls keep` all of them are kept but those that could not be read, whatever the cut.
    """
    status = table.arrow["status"]
    is_ok = np.asarray(pc.equal(status, OK).to_numpy(), dtype=bool)
    is_invalid = np.asarray(pc.starts_with(status, INVALID_PREFIX).to_numpy(), dtype=bool)
    is_null = np.isnan(values)
    draft.codes[~is_ok] = Code.STATUS
    draft.codes[is_ok & is_null] = Code.NULL
    if config.nulls == "keep":
        kept = (~is_ok | is_null) & ~is_invalid
        draft.codes[kept] = Code.KEPT_NULL
        if kept.any():
            draft.messages.append(
                f"{int(kept.sum())} rows without a score are kept beside the others (--nulls keep)."
            )
    has_value: NDArray[np.bool_] = is_ok & ~is_null
    if len(table) and not has_value.any() and config.nulls == "drop":
        raise ConfigError(_no_value_message(table, config.by, int(is_ok.sum())))
    return has_value


def _no_value_message(table: ScoreTable, by: str, n_ok: int) -> str:
    if n_ok == 0:
        return (
            f"None of the {len(table)} rows in {table.path} has a score, so there is nothing to rank. "
            "Look at the column status for the reasons, or pass --nulls keep."
        )
    filled = [name for name in ("loss", "grad_norm", "gsnr") if not np.isnan(table.numbers(name)).all()]
    return (
        f"No row has a value in {by}, so there is nothing to rank (gsnr needs at least two views). "
        f"Rank --by one of: {', '.join(filled) or 'a column with values'}; or score with more views."
    )


def _how_many(config: FilterConfig, n_ranked: int, has_threshold: bool, draft: _Draft) -> int | None:
    """Return how many rows the top-k cut keeps, None when there is no such cut."""
    text = config.top_k
    if text is None and has_threshold:
        return None
    if text is None:
        text = DEFAULT_TOP_K
        draft.messages.append(
            f"No cut was given, so the best {DEFAULT_TOP_K} of the rows are kept (--top-k {DEFAULT_TOP_K})."
        )
    return parse_top_k(text, n_ranked) if n_ranked else 0


def _drop_by_threshold(
    table: ScoreTable,
    config: FilterConfig,
    thresholds: list[Threshold],
    survives: NDArray[np.bool_],
    draft: _Draft,
) -> NDArray[np.int8]:
    """Drop rows outside a threshold, and return the index of the first one that each row violates."""
    violated = np.full(len(table), -1, np.int8)
    for index, threshold in enumerate(thresholds):
        values = table.numbers(threshold.column)
        outside = threshold.is_outside(values)
        if config.nulls == "drop":
            outside |= np.isnan(values)
        fresh = outside & survives & (violated < 0)
        violated[fresh] = index
    draft.codes[violated >= 0] = Code.THRESHOLD
    return violated


def _rank(
    table: ScoreTable,
    config: FilterConfig,
    values: Numbers,
    labels: Labels,
    survives: NDArray[np.bool_],
    draft: _Draft,
) -> None:
    """Fill in ranking score and rank, from 1, of the rows that survived so far."""
    positions = np.flatnonzero(survives)
    if not len(positions):
        return
    normalized = parse_normalize(config.normalize)(values[positions], labels[positions])
    draft.score[positions] = normalized.values
    order = order_best_first(
        normalized.values,
        table.arrow["row_key"].take(pa.array(positions)),
        table.arrow["row_index"].to_numpy()[positions],
        ascending=config.ascending,
    )
    draft.rank[positions[order]] = np.arange(1, len(positions) + 1)
    if normalized.rescued:
        shown = ", ".join(normalized.rescued[:5]) + (", ..." if len(normalized.rescued) > 5 else "")
        draft.warnings.append(
            f"{len(normalized.rescued)} categories have one row or no positive quantile of {config.by} and are "
            f"divided by the quantile of all rows: {shown}."
        )
    if config.normalize != "none" and all(label is None for label in labels):
        draft.warnings.append(
            f"--normalize {config.normalize} has no categories to work on: all rows count as one. "
            "Name a column with --category-field."
        )


def _cut(
    table: ScoreTable, config: FilterConfig, k: int | None, survives: NDArray[np.bool_], draft: _Draft
) -> None:
    """Keep the best k survivors, all of them when k is None, and then the protected ones."""
    n_survivors = int(survives.sum())
    is_in = survives if k is None else survives & (draft.rank <= k)
    draft.codes[survives] = Code.PAST_TOP_K
    draft.codes[is_in] = Code.KEPT
    if k is not None and n_survivors < k:
        draft.messages.append(f"Thresholds left {n_survivors} rows, fewer than the {k} of --top-k.")
    if config.protect_gsnr is not None:
        protected = (draft.codes == Code.PAST_TOP_K) & (table.numbers("gsnr") >= config.protect_gsnr)
        draft.codes[protected] = Code.PROTECTED
        draft.messages.append(
            f"--protect-gsnr {config.protect_gsnr:g} keeps {int(protected.sum())} rows past the cut."
        )


def _noise_warnings(table: ScoreTable, config: FilterConfig) -> list[str]:
    """Return a warning for each gsnr option whose value pure noise would reach."""
    floor = table.metadata.get("noise_floor")
    warnings = []
    for option, value in (("--min-gsnr", config.min_gsnr), ("--protect-gsnr", config.protect_gsnr)):
        if value is None:
            continue
        if floor is None:
            warnings.append(
                f"The table records no noise floor, so nobody can say what {option} {value:g} means: "
                "gsnr of pure noise depends on the number of views."
            )
        elif value < floor:
            warnings.append(
                f"{option} {value:g} lies under the noise floor {floor:.3g}, which pure noise reads in this table; "
                "rows without any signal pass it. Use a higher value, or --by gsnr_unbiased."
            )
    return warnings
