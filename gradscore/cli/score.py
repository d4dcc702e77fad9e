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
        if outcome.warning is not None:
            reporter.message(outcome.warning)
        is_ranked = "gsnr_quartiles" in outcome.summary and outcome.warning is None
        otherwise = "" if is_ranked else "--by loss --ascending "
        by = otherwise if outcome.advised_by is None else "--by auto "
        reporter.message(f"Next: gradscore filter {outcome.table} {by}--top-k 0.3 --output kept.jsonl")
        if has_failed_rows(outcome.status_counts):
            reporter.message(
                f"Exit code {ROWS_FAILED}: some rows could not be scored; their status says why."
            )
    print(
        f"{outcome.table}: {outcome.n_rows} rows; {outcome.n_scored} of them scored now, in {outcome.seconds:.0f} s "
        f"({outcome.rows_per_second:.2f} rows/s in the scoring pass)"
    )
    print("  status: " + ", ".join(f"{count} {status}" for status, count in outcome.status_counts.items()))
    for name, value in outcome.summary.items():
        print(f"  {name.replace('_', ' ')}: {_shown(value)}")
    return ROWS_FAILED if has_failed_rows(outcome.status_counts) else DONE


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_shown(part) for part in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


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
