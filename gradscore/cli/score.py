"""`gradscore score`: score every row of a dataset and write the table."""

from typing import Annotated

import typer

from gradscore.cli.exit_codes import DONE, ROWS_FAILED
from gradscore.cli.options import offer_sections
from gradscore.config import RunConfig

OFFER = offer_sections(
    "data", "model", "gradients", "scores", "table", required=("dataset", "model", "output")
)
EXAMPLE = "Example: gradscore score --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset data.jsonl --output scores.parquet"


def run(
    config: RunConfig,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Score every row of a dataset by its gradient and write a Parquet table."""
    # Imported here since they load torch and numpy, which --help must not wait for.
    from gradscore import pipeline
    from gradscore.cli.progress import open_reporter

    with open_reporter(quiet=quiet) as reporter:
        outcome = pipeline.score_dataset(config, reporter)
        by = "" if "gsnr_quartiles" in outcome.summary else "--by loss --ascending "  # one view gives no gsnr
        reporter.message(f"Next: gradscore filter {outcome.table} {by}--top-k 0.3 --output kept.jsonl")
    print(
        f"{outcome.table}: {outcome.n_rows} rows in {outcome.seconds:.0f} s, {outcome.rows_per_second:.2f} rows/s"
    )
    print("  status: " + ", ".join(f"{count} {status}" for status, count in outcome.status_counts.items()))
    for name, value in outcome.summary.items():
        shown = f"{value:.4g}" if isinstance(value, float) else value
        print(f"  {name.replace('_', ' ')}: {shown}")
    return ROWS_FAILED if has_failed_rows(outcome.status_counts) else DONE


def has_failed_rows(status_counts: dict[str, int]) -> bool:
    """Return whether a row was unreadable or gave non-finite numbers.

    A row without target tokens or past the length limit is left out by the user's own settings and
    does not count as failed.
    """
    from gradscore.records import INVALID_PREFIX, NON_FINITE  # numpy, see above

    return any(
        count > 0 and (status == NON_FINITE or status.startswith(INVALID_PREFIX.strip().rstrip(":")))
        for status, count in status_counts.items()
    )
