"""The entry point: one place where errors become a message and an exit code (`exit_codes`)."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

import gradscore
from gradscore.cli import compare, demo, doctor, filter, preview, report, score, validate
from gradscore.cli.exit_codes import DONE, INTERRUPTED, OUR_BUG, TERMINATED, USER_MISTAKE
from gradscore.cli.options import command_with
from gradscore.errors import GradscoreError

COMMANDS = {
    "doctor": doctor,
    "score": score,
    "filter": filter,
    "report": report,
    "compare": compare,
    "validate": validate,
    "preview": preview,
    "demo": demo,
}

# typer ships click inside itself in newer releases and used the separate package before; the base of
# its usage errors is found from a class that both export.
UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; it unwinds exactly as Ctrl-C does, so that state is kept in the same way."""


def build_app() -> typer.Typer:
    """Return the command line with all its commands."""
    app = typer.Typer(
        name="gradscore",
        add_completion=False,
        rich_markup_mode=None,
        epilog="Example: gradscore demo --fast",
    )
    app.callback()(_describe)
    for name, module in COMMANDS.items():
        app.command(name, epilog=module.EXAMPLE)(command_with(module.OFFER, module.run))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gradscore {gradscore.__version__}")
        raise typer.Exit


def _describe(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Score every sample of an instruction-tuning dataset by its gradient, and keep the best."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _calm_libraries(quiet="--quiet" in words or not sys.stderr.isatty())
    try:
        with _sigterm_as_interrupt():
            code = _run_command(words)
            sys.stdout.flush()
        return code
    except GradscoreError as error:
        print(f"gradscore: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as interruption:
        print(
            "Interrupted. What was finished is kept; run the same command again to go on from there.",
            file=sys.stderr,
        )
        return TERMINATED if isinstance(interruption, Terminated) else INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left, as `head` does; Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception:
        traceback.print_exc()
        print(
            f"This is a bug in gradscore {gradscore.__version__}. Please report it with the lines above and the command.",
            file=sys.stderr,
        )
        return OUR_BUG


def _run_command(arguments: list[str]) -> int:
    command = typer.main.get_command(build_app())
    try:
        with command.make_context("gradscore", arguments or ["--help"]) as context:
            return command.invoke(context) or DONE
    except typer.Exit as leave:
        return leave.exit_code
    except UsageError as error:
        words = ["gradscore", *[word for word in arguments[:1] if word in COMMANDS], "--help"]
        print(f"gradscore: {error.format_message()} See `{' '.join(words)}`.", file=sys.stderr)
        return USER_MISTAKE


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the program; Python allows this in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _calm_libraries(*, quiet: bool) -> None:
    """Keep the libraries' own chatter off the screen; the user's settings win."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if quiet:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
