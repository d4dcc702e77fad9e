"""`gradscore filter`: write the rows of a dataset that its score table says to keep."""

from typing import Annotated

import typer

from gradscore.cli.exit_codes import DONE
from gradscore.cli.options import offer_sections
from gradscore.config import RunConfig

OFFER = offer_sections("filter", "emit", required=("table", "output"), positional="table")
EXAMPLE = "Example: gradscore filter scores.parquet --top-k 0.3 --output kept.jsonl"


def run(
    config: RunConfig,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Write the rows that a finished score table ranks best, in the format of the dataset."""
    # Imported here since they load numpy and pandas, which --help must not wait for.
    from gradscore import pipeline
    from gradscore.cli.progress import open_reporter

    with open_reporter(quiet=quiet) as reporter:
        outcome = pipeline.filter_dataset(config, reporter)
        for line in outcome.messages:
            reporter.message(line)
    share = outcome.n_kept / outcome.n_rows if outcome.n_rows else 0.0
    print(f"{outcome.output}: kept {outcome.n_kept} of {outcome.n_rows} rows ({share:.1%})")
    for reason, count in outcome.reason_counts.items():
        print(f"  {count:>8} {reason}")
    print(f"  manifest: {outcome.manifest}")
    print(f"  dropped rows with their reasons: {outcome.dropped}")
    return DONE
