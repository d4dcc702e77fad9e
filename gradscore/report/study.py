"""Everything that the page says, as numbers: read from a finished table and, for the texts, from its dataset."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from gradscore.config import FilterConfig
from gradscore.emit.manifest import table_hash
from gradscore.emit.source import read_categories, reopen_source
from gradscore.errors import DatasetError, TableError
from gradscore.filter.decide import decide, decided_rows
from gradscore.filter.reasons import Decisions
from gradscore.records import Reporter
from gradscore.report.columns import LENGTH, ScoreColumn, score_columns
from gradscore.report.confounds import Correlation, Overlap, overlap, share_between_categories, spearman
from gradscore.report.cut import Cut, find_cut
from gradscore.report.examples import Example, choose_examples, make_examples, read_texts
from gradscore.report.profile import Profile, profile_of
from gradscore.report.readings import Reading, readings_of
from gradscore.table.read import ScoreTable, read_table

CHEAP = (LENGTH, "loss", "grad_norm")
"""Columns that cost no more than a look at the row, or one pass."""


@dataclass(frozen=True)
class Study:
    """A table looked at under one choice of rows."""

    table: ScoreTable
    """The rows that stand for rows of the dataset (the chosen side of pairs), without list columns."""
    config: FilterConfig
    decisions: Decisions
    cut: Cut
    columns: tuple[ScoreColumn, ...]
    profile: Profile
    correlations: Mapping[str, Correlation]
    """Of the ranking score with each other score and with length, the strongest first."""
    category_share: float | None
    overlaps: tuple[Overlap, ...]
    readings: tuple[Reading, ...]
    examples: tuple[Example, ...]
    text_problem: str | None
    """Why texts are missing; None where they are there."""


def study(
    path: str, config: FilterConfig, *, dataset: str | None, n_examples: int, reporter: Reporter
) -> Study:
    """Return everything there is to say about a finished table under a choice of rows.

    Args:
        path: of the table.
        config: which rows are kept.
        dataset: where the dataset is now, if not where the table says.
        n_examples: rows to show of the best and as many of the worst.
        reporter: told what is being done.

    Raises:
        GradscoreError: the table or an option of the filter cannot be used. A dataset that is gone is no error: the
            page says so.
    """
    whole = read_table(path, lists=False)
    categories = None
    if config.category_field:
        categories = read_categories(reopen_source(whole, dataset), whole, config.category_field)
    decisions = decide(whole, config, categories)
    table = replace(whole, arrow=whole.arrow.filter(pa.array(decided_rows(whole))))
    cut = find_cut(table, decisions, config)
    columns = tuple(score_columns(table))
    reporter.message("Reading a sample of sketches and layer norms")
    profile = profile_of(whole)
    correlations = _correlations(table, decisions, columns)
    category_share = share_between_categories(decisions.value, decisions.category)
    rho = {
        name: correlations[column].rho
        for name, column in (("length", LENGTH), ("loss", "loss"))
        if column in correlations
    }
    reporter.message("Reading the texts of the rows that are shown")
    chosen = choose_examples(decisions, cut, n_examples)
    texts, problem = _texts(table, decisions, chosen, dataset)
    errors = [cut.error_column] if cut.error_column else []
    shown = dict.fromkeys([LENGTH, config.by, *errors, *(column.name for column in columns)])
    return Study(
        table=table,
        config=config,
        decisions=decisions,
        cut=cut,
        columns=columns,
        profile=profile,
        correlations=correlations,
        category_share=category_share,
        overlaps=_overlaps(table, decisions, config.by),
        readings=tuple(readings_of(profile, rho, category_share)),
        examples=tuple(make_examples(table, decisions, cut, chosen, texts, shown)),
        text_problem=problem,
    )


def filter_of_manifest(path: Path, table: Path) -> FilterConfig:
    """Return the choice of rows that a filter run recorded in its manifest.

    Raises:
        TableError: it cannot be read, is no manifest, or was made from another table.
    """
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        settings, made_from = manifest["config"]["filter"], manifest["table"]["sha256"]
        config = FilterConfig(**settings)
    except OSError as error:
        raise TableError(f"The manifest {path} cannot be read: {error.strerror}. Check --kept.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} is not the manifest of a filter run ({error!r}). Give the .manifest.json beside the kept rows."
        ) from error
    if made_from != table_hash(table):
        raise TableError(
            f"{path} was made from another score table ({manifest['table']['path']}), or {table} has changed since. "
            "Give the table that was filtered, or leave --kept out and give the options of the filter."
        )
    return replace(config, table=str(table))


def _correlations(
    table: ScoreTable, decisions: Decisions, columns: Sequence[ScoreColumn]
) -> dict[str, Correlation]:
    names = [LENGTH, *(column.name for column in columns if not column.is_detail)]
    found = {name: spearman(decisions.value, table.numbers(name)) for name in names if name != decisions.by}
    known = {name: value for name, value in found.items() if value is not None}
    return dict(sorted(known.items(), key=lambda item: -abs(item[1].rho)))


def _overlaps(table: ScoreTable, decisions: Decisions, by: str) -> tuple[Overlap, ...]:
    ranked = decisions.rank > 0
    kept = decisions.keep & ranked
    found = [
        overlap(kept[ranked], table.numbers(name)[ranked], name, is_highest=is_highest)
        for name in CHEAP
        if name != by
        for is_highest in (True, False)
    ]
    return tuple(sorted((each for each in found if each is not None), key=lambda each: -each.share))


def _texts(
    table: ScoreTable, decisions: Decisions, chosen: Mapping[int, str], dataset: str | None
) -> tuple[dict[int, tuple[tuple[str, str], ...]], str | None]:
    keys = {int(decisions.row_index[place]): str(decisions.row_key[place]) for place in chosen}
    try:
        texts, changed = read_texts(reopen_source(table, dataset), keys)
    except DatasetError as error:
        return {}, str(error)
    if changed:
        return texts, (
            f"{len(changed)} of the rows shown are no longer as they were when they were scored (row "
            f"{', '.join(map(str, changed[:5]))}); their texts are left out."
        )
    return texts, None
