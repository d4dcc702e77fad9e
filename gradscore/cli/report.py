"""`gradscore report`: what a score table says, as one page, as pictures, or as a profile to compare with."""

from typing import Annotated

import typer

from gradscore.cli.exit_codes import DONE
from gradscore.cli.options import offer_sections
from gradscore.config import RunConfig
from gradscore.errors import ConfigError

OFFER = offer_sections("filter", required=("table",), positional="table")
EXAMPLE = "Example: gradscore report scores.parquet --top-k 0.3 --output report.html"


def run(
    config: RunConfig,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", metavar="TEXT", help="Page to write, one .html file that needs nothing else."
        ),
    ] = None,
    kept: Annotated[
        str | None,
        typer.Option(
            "--kept",
            metavar="TEXT",
            help="Manifest of a filter run: show its cut, instead of the options above.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", metavar="TEXT", help="Source dataset, if it is no longer where the table says."
        ),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", metavar="en|zh", help="Language of the page.")] = "en",
    png: Annotated[
        str | None, typer.Option("--png", metavar="TEXT", help="Folder for the pictures, one .png file each.")
    ] = None,
    save_profile: Annotated[
        str | None,
        typer.Option(
            "--save-profile",
            metavar="TEXT",
            help="File for the profile, a reference for `gradscore compare`.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Show what a finished score table says and where a cut would lie, on one self-contained page."""
    if lang not in ("en", "zh"):
        raise ConfigError(f"--lang cannot be {lang!r}; it takes en or zh.")
    # Imported here since they load numpy and pandas, which --help must not wait for.
    from gradscore.cli.progress import open_reporter
    from gradscore.report.make import ReportOptions, make_report

    options = ReportOptions(
        output=output,
        kept=kept,
        dataset=dataset,
        language="zh" if lang == "zh" else "en",
        png=png,
        profile=save_profile,
        overwrite=overwrite,
    )
    with open_reporter(quiet=quiet) as reporter:
        outcome = make_report(config.filter, options, reporter)
        for warning in outcome.warnings:
            reporter.message(warning)
    undecided = (
        "" if outcome.n_undecided is None else f"; {outcome.n_undecided} too near to the cut to be decided"
    )
    print(f"{config.filter.table}: {outcome.n_kept} of {outcome.n_rows} rows kept{undecided}")
    for symptom in outcome.found:
        print(f"  found: {symptom}")
    for path in outcome.written:
        print(f"  wrote: {path}")
    return DONE
