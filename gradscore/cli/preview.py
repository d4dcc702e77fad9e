"""`gradscore preview`: show rows as the model sees them, with the target tokens marked."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from gradscore.cli.exit_codes import DONE
from gradscore.cli.options import offer_sections
from gradscore.config import RunConfig

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from gradscore.data.preview import RowPreview

OFFER = offer_sections(
    "data", model=("model", "revision", "trust_remote_code"), required=("dataset", "model")
)
EXAMPLE = (
    "Example: gradscore preview --model HuggingFaceTB/SmolLM2-135M-Instruct --dataset data.jsonl --rows 3"
)
TARGET_STYLE = "bold green"
OPENING, CLOSING = "⟦", "⟧"
# Control characters of a row are shown as their pictures: they must not steer the terminal.
CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}


def run(
    config: RunConfig,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=0, help="Rows to show.")] = 3,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print row_index, row_key, input_ids and target_mask of every row, one object a line.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing on stderr but errors.")] = False,
) -> int:
    """Show rows as the model sees them, target tokens highlighted, and count what is cut or masked."""
    # Imported here since they load transformers and rich's drawing, which --help must not wait for.
    from rich.console import Console

    from gradscore import pipeline
    from gradscore.cli.progress import open_reporter

    with open_reporter(quiet=quiet) as reporter:
        if as_json:
            for record in pipeline.preview_json(config, reporter):
                print(json.dumps(record, ensure_ascii=False))
            return DONE
        preview = pipeline.preview_dataset(config, rows, reporter)
    console = Console(highlight=False, soft_wrap=True)
    for row in preview.rows:
        console.rule(heading_of(row), align="left")
        console.print(marked_text(row.pieces, with_colour=has_colour(console)))
    console.rule("all rows", align="left")
    for name, count in preview.counts.items():
        console.print(f"{count:>8} {name.replace('_', ' ')}", markup=False)
    return DONE


def heading_of(row: "RowPreview") -> str:
    """Return one line about a row: which it is, and how many of its tokens are targets."""
    side = "" if row.side is None else f" ({row.side})"
    cut = ", truncated" if row.truncated else ""
    return f"row {row.row_index}{side}: {row.status}, {row.n_tokens} tokens, {row.n_target_tokens} of them targets{cut}"


def has_colour(console: "Console") -> bool:
    """Return whether targets can be told by their colour."""
    return console.is_terminal and not console.no_color


def marked_text(pieces: Iterable[tuple[str, bool]], *, with_colour: bool) -> "Text":
    """Return the row's text with its targets in colour, or between ⟦ and ⟧ where there is none."""
    from rich.text import Text

    text = Text()
    for piece, is_target in pieces:
        shown = piece.translate(CONTROL_PICTURES)
        if is_target and not with_colour:
            shown = f"{OPENING}{shown}{CLOSING}"
        text.append(shown, style=TARGET_STYLE if is_target else "")
    return text
