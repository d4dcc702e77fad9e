"""`gradscore doctor`: whether a scoring run can be trusted and what it will cost, on one screen, before it starts."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gradscore.cli.exit_codes import DONE
from gradscore.cli.options import offer_sections
from gradscore.config import RunConfig
from gradscore.errors import CheckFailedError, GradscoreError

if TYPE_CHECKING:
    from rich.console import Console

    from gradscore.data.preview import RowPreview
    from gradscore.doctor.finding import Diagnosis, Finding

OFFER = offer_sections("data", "model", "gradients", "scores", "table", required=("dataset", "model"))
EXAMPLE = "Example: gradscore doctor --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset data.jsonl"
STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}
CHARACTERS_SHOWN = 600
"""Of each row; the middle of a longer one is left out."""


def run(
    config: RunConfig,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole diagnosis as one JSON object.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Check rows, tokens and gradients, and estimate time, memory and disk, before a scoring run; takes its options."""
    # Imported here since they load torch and rich's drawing, which --help must not wait for.
    from dataclasses import asdict

    from gradscore import pipeline
    from gradscore.cli.progress import open_reporter
    from gradscore.doctor.finding import Diagnosis, Finding

    with open_reporter(quiet=quiet) as reporter:
        try:
            diagnosis = pipeline.doctor_dataset(config, reporter)
        except GradscoreError as error:
            if as_json:  # a script reads one object from stdout, whatever is wrong
                stopped = Diagnosis((Finding("opening", "fail", str(error)),), (), {})
                print(json.dumps(asdict(stopped), ensure_ascii=False, indent=1))
            raise
        if as_json:
            print(json.dumps(asdict(diagnosis), ensure_ascii=False, indent=1))
        else:
            _print_screen(diagnosis)
    if diagnosis.failures:
        failed = ", ".join(finding.name for finding in diagnosis.failures)
        raise CheckFailedError(f"Of the checks above these failed: {failed}. Each says what to do.")
    return DONE


def _print_screen(diagnosis: "Diagnosis") -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    _print_rows(console, diagnosis.shown)
    _print_findings(console, diagnosis.findings)


def _print_rows(console: "Console", rows: "Sequence[RowPreview]") -> None:
    from gradscore.cli.preview import has_colour, heading_of, marked_text

    for row in rows:
        console.rule(heading_of(row), align="left")
        console.print(marked_text(shortened(row.pieces), with_colour=has_colour(console)))


def _print_findings(console: "Console", findings: "Sequence[Finding]") -> None:
    from rich.table import Table
    from rich.text import Text

    from gradscore.cli.preview import CONTROL_PICTURES

    console.rule("diagnosis", align="left")
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        advice = f"\n→ {finding.advice}" if finding.advice else ""
        text = (finding.finding + advice).translate(CONTROL_PICTURES)  # it may quote a row
        table.add_row(Text(finding.verdict, style=STYLES[finding.verdict]), Text(finding.name), Text(text))
    console.print(table)


def shortened(pieces: Sequence[tuple[str, bool]], at_most: int = CHARACTERS_SHOWN) -> list[tuple[str, bool]]:
    """Return the pieces of a row with the middle of each long one left out, about `at_most` characters in all."""
    each = max(20, at_most // max(1, len(pieces)) // 2)
    return [
        (text if len(text) <= 2 * each else f"{text[:each]} … {text[-each:]}", is_target)
        for text, is_target in pieces
    ]
