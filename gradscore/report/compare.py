"""A table beside another table, or beside a profile of trusted data: what agrees, what moved, what left its range."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from gradscore.emit.source import reopen_source
from gradscore.errors import ConfigError, DatasetError, StorageError
from gradscore.filter.decide import decided_rows
from gradscore.report.agreement import Agreement, Mover, compare_tables, movers, places_of
from gradscore.report.examples import read_texts
from gradscore.report.profile import MEASURES, Departure, Profile, departures, load_profile, profile_of
from gradscore.report.words import Words
from gradscore.table.read import ScoreTable, read_table

N_MOVERS = 25
AGREEMENTS = ((0.8, "nearly the same rows"), (0.4, "partly the same rows"), (-1.0, "mostly different rows"))
"""From which share of what chance leaves open two choices are called how (Cohen's kappa of two choices of one size)."""
POINTS = 2_000


@dataclass(frozen=True)
class CompareOptions:
    """What a comparison is asked for."""

    left: str
    right: str
    """A table, or a profile (.json)."""
    by: str = "gsnr"
    """Column whose rows that moved are shown."""
    top_k: float = 0.3
    """Share of the rows that counts as the top."""
    output: str | None = None
    """A .html page or a .png picture."""
    overwrite: bool = False


@dataclass(frozen=True)
class TableComparison:
    """Two tables compared, with the rows that moved most by one column."""

    left: ScoreTable
    right: ScoreTable
    agreement: Agreement
    by: str
    movers: tuple[Mover, ...]


@dataclass(frozen=True)
class ProfileComparison:
    """A table's profile beside a reference."""

    profile: Profile
    reference: Profile
    departures: tuple[Departure, ...]
    n_compared: int
    """Measures that both have."""


def compare(options: CompareOptions) -> TableComparison | ProfileComparison:
    """Return the comparison of a table with another one, or with a profile; and write the picture if one is asked for.

    Raises:
        ConfigError: the share or the output cannot be used.
        TableError: a table or profile cannot be read, or the two cannot be compared.
        StorageError: the output exists or cannot be written.
    """
    _check(options)
    if Path(options.right).suffix == ".json":
        found: TableComparison | ProfileComparison = _with_profile(options)
    else:
        found = _with_table(options)
    if options.output is not None and isinstance(found, TableComparison):
        from gradscore.report.compare_page import write_comparison

        write_comparison(found, Path(options.output).expanduser(), texts_of(found))
    return found


def verdict(comparison: TableComparison) -> str:
    """Return in one sentence whether both tables would keep the same rows by the column that was asked for."""
    column = next(c for c in comparison.agreement.columns if c.name == comparison.by)
    chance = column.by_chance[0]
    beyond = (column.shared - chance) / (1 - chance) if chance < 1 else 1.0
    how = next(words for least, words in AGREEMENTS if beyond >= least)
    return (
        f"By {column.name} both keep {how}: {column.shared:.0%} of the top {column.k} are shared, {chance:.0%} would be by "
        "chance."
    )


def sentences(comparison: ProfileComparison) -> list[str]:
    """Return one sentence for each measure that left the range: what, by how much, and what the range is."""
    words = Words("en")
    measures = {measure.name: measure for measure in MEASURES}
    found = []
    for each in comparison.departures:
        low, high = each.allowed
        if measures[each.name].is_fault_share:
            how = f"{each.value:.1%}, in the reference {each.reference:.1%} (healthy up to {high:.1%})"
        elif measures[each.name].factor is None:
            how = f"{each.value:.3g}, {each.value - each.reference:+.2f} from the reference (healthy from {low:.2f} to {high:.2f})"
        else:
            ratio = each.value / each.reference
            much = f"{ratio:.3g} times" if ratio >= 1 else f"1/{1 / ratio:.3g} of"
            how = f"{each.value:.4g}, {much} the reference (healthy from {low:.4g} to {high:.4g})"
        found.append(f"{words(f'measure.{each.name}')}: {how}")
    return found


def texts_of(comparison: TableComparison) -> dict[int, tuple[tuple[str, str], ...]]:
    """Return the texts of the rows that moved, as far as the first table's dataset still has them."""
    row_keys = dict(
        zip(
            comparison.left.arrow["row_index"].to_pylist(),
            comparison.left.texts("row_key").tolist(),
            strict=True,
        )
    )
    keys = {mover.row_index: str(row_keys[mover.row_index]) for mover in comparison.movers}
    try:
        return read_texts(reopen_source(comparison.left), keys)[0]
    except DatasetError:
        return {}  # the page then says that the text is not available


def sampled_places(comparison: TableComparison) -> list[dict[str, float]]:
    """Return up to 2,000 rows with their place in both tables, from 0 (lowest) to 1 (highest)."""
    matched = comparison.agreement.matched
    x = comparison.left.numbers(comparison.by)[matched.left]
    y = comparison.right.numbers(comparison.by)[matched.right]
    rows = comparison.left.arrow["row_index"].to_numpy()[matched.left]
    valid = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    places = [places_of(side[valid]) for side in (x, y)]
    chosen = np.arange(len(valid))
    if len(chosen) > POINTS:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, POINTS, replace=False))
    return [
        {
            "row": int(rows[valid[i]]),
            "left": round(float(places[0][i]), 4),
            "right": round(float(places[1][i]), 4),
            "left_value": float(f"{x[valid[i]]:.5g}"),
            "right_value": float(f"{y[valid[i]]:.5g}"),
        }
        for i in chosen
    ]


def _with_profile(options: CompareOptions) -> ProfileComparison:
    reference = load_profile(Path(options.right).expanduser())
    profile = profile_of(read_table(options.left, lists=False))
    both = [
        name
        for name, value in profile.values.items()
        if value is not None and reference.values.get(name) is not None
    ]
    return ProfileComparison(profile, reference, tuple(departures(profile, reference)), len(both))


def _with_table(options: CompareOptions) -> TableComparison:
    left, right = (_chosen(read_table(path, lists=False)) for path in (options.left, options.right))
    agreement = compare_tables(left, right, share=options.top_k)
    names = [column.name for column in agreement.columns]
    # A table of one view has no gsnr; its rows are then shown by the first column that both have.
    by = options.by if options.by in names else names[0]
    return TableComparison(
        left, right, agreement, by, tuple(movers(left, right, agreement.matched, by, N_MOVERS))
    )


def _chosen(table: ScoreTable) -> ScoreTable:
    """Return the rows that stand for rows of the dataset: the chosen side of pairs, and all others."""
    return replace(table, arrow=table.arrow.filter(pa.array(decided_rows(table))))


def _check(options: CompareOptions) -> None:
    mistakes = []
    if not 0 < options.top_k <= 1:
        mistakes.append(f"--top-k {options.top_k:g} must be a share in (0, 1].")
    if options.output is not None and Path(options.output).suffix.lower() not in (".html", ".png"):
        mistakes.append(f"--output {options.output} must end in .html or .png.")
    if options.output is not None and Path(options.right).suffix == ".json":
        mistakes.append("--output needs two tables: a profile has no rows to draw. Leave --output out.")
    if mistakes:
        raise ConfigError.of(mistakes)
    if options.output is not None and Path(options.output).expanduser().exists() and not options.overwrite:
        raise StorageError(
            f"{options.output} is already there. Pass --overwrite to replace it, or give another name."
        )
