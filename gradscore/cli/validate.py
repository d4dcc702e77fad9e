"""`gradscore validate`: plant faults in a copy of your rows, and see which scores find them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gradscore.cli.exit_codes import DONE, ROWS_FAILED
from gradscore.cli.options import field_names, offer_sections
from gradscore.cli.score import has_failed_rows
from gradscore.config import RunConfig

if TYPE_CHECKING:
    from rich.table import Table

    from gradscore.validate.auroc import Estimate
    from gradscore.validate.conclude import Conclusion
    from gradscore.validate.evaluate import ColumnResult

OFFER = offer_sections(
    "validate",
    data=tuple(name for name in field_names("data") if name != "shard"),
    model=tuple(field_names("model")),
    gradients=tuple(field_names("gradients")),
    scores=tuple(field_names("scores")),
    table=tuple(name for name in field_names("table") if name != "output"),
    filter=("top_k",),
    required=("dataset", "model", "output"),
)
EXAMPLE = "Example: gradscore validate --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset data.jsonl --output validation"
KINDS_PER_TABLE = 5
"""Kinds of fault side by side, `all` included: with the names of columns they fit into 80 characters."""
COLUMNS_SHOWN = 12
"""Best columns on the screen; beside them stand the baselines and the control. The file has all."""


def run(
    config: RunConfig,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Plant known faults in a copy of a sample of your rows (300 unless --sample says otherwise), score it, and show which columns find them."""
    # Imported here since they load torch, scipy and rich's drawing, which --help must not wait for.
    from rich.console import Console

    from gradscore import pipeline
    from gradscore.cli.progress import open_reporter

    with open_reporter(quiet=quiet) as reporter:
        outcome = pipeline.validate_dataset(config, reporter)
        judgement = outcome.conclusion.judgement
        if judgement is not None and judgement.quality.verdict == "finds faults":
            reporter.message(
                f"Next: gradscore score ... --quality {outcome.folder}/quality.json, then gradscore filter ... --by auto"
            )
    console = Console(highlight=False)
    for table in tables(outcome.conclusion):
        console.print(table)
    console.print()
    for line in outcome.conclusion.lines:
        console.print(line, markup=False)
    files = (
        "validation.json",
        "auroc.png",
        "rows.jsonl",
        "scores.parquet",
        *(["quality.json"] if judgement is not None else []),
    )
    console.print(f"{outcome.folder}: {', '.join(files)}", markup=False, soft_wrap=True)
    return ROWS_FAILED if has_failed_rows(outcome.status_counts) else DONE


def tables(conclusion: "Conclusion") -> list["Table"]:
    """Return AUROC by column and kind of fault, a few kinds to a table, and what the cut would do."""
    evaluation = conclusion.evaluation
    shown = _shown(conclusion)
    names = [_label(column) for column in shown]
    kinds = list(evaluation.counts)
    title: str | None = "AUROC of 'faulty rows score worse', interval under it; 0.5: chance"
    found = []
    for at in range(0, len(kinds), KINDS_PER_TABLE):
        block = kinds[at : at + KINDS_PER_TABLE]
        headings = [f"{kind.replace('_', ' ')}\n({evaluation.counts[kind]})" for kind in block]
        cells = [[_cell(column.auroc[kind]) for kind in block] for column in shown]
        found.append(_table(title, headings, names, cells))
        title = None
    return [*found, _cut_table(shown, names, evaluation.top_k)]


def _shown(conclusion: "Conclusion") -> "list[ColumnResult]":
    """Return quality, the best columns and the baselines, and the random control."""
    from gradscore.validate.evaluate import BASELINES  # see above

    evaluation, judgement = conclusion.evaluation, conclusion.judgement
    filled = [column for column in evaluation.columns if column.verdict != "has no values"]
    chosen = [c for at, c in enumerate(filled) if at < COLUMNS_SHOWN or c.name in BASELINES]
    return [*([judgement.quality] if judgement else []), *chosen, evaluation.control]


def _cut_table(shown: "Sequence[ColumnResult]", names: Sequence[str], top_k: str) -> "Table":
    cells = [
        ["", "", ""]
        if c.cut is None
        else [str(c.cut.n_dropped), f"{c.cut.precision:.0%}", f"{c.cut.recall['all']:.0%}"]
        for c in shown
    ]
    title = f"If the best {top_k} by each column were kept (--top-k)"
    return _table(title, ["rows dropped", "of them faulty", "of the faulty dropped"], names, cells)


def _table(
    title: str | None, headings: Sequence[str], names: Sequence[str], cells: Sequence[Sequence[str]]
) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("column", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, values in zip(names, cells, strict=True):
        table.add_row(name, *values)
    return table


def _label(column: "ColumnResult") -> str:
    if column.is_direction_chosen:
        return f"{column.name}\n({column.better}, chosen)"
    return column.name


def _cell(estimate: "Estimate | None") -> str:
    if estimate is None:
        return "-"
    low, high = (f"{bound:.2f}".removeprefix("0") for bound in (estimate.low, estimate.high))
    return f"{estimate.value:.2f}\n{low}-{high}"
