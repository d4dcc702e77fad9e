"""Progress for a person (a bar) or for a log file (a line now and then), always on stderr.

Both are `records.Reporter`s by shape. Results go to stdout, so a pipe gets results only.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gradscore.records import Reporter, SilentReporter

SECONDS_BETWEEN_LINES = 30.0
SECONDS_WORTH_A_LINE = 1.0


class RateColumn(ProgressColumn):
    """Units per second of the running task."""

    def render(self, task: Task) -> Text:
        """Return the rate, such as `2.9 rows/s`, empty until it is known."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f} {task.fields['unit']}/s", style="dim")


class BarReporter:
    """A progress bar with rows per second and the time left, for a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            RateColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None

    def message(self, text: str) -> None:
        """Print one line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)

    def start(self, what: str, total: int | None, unit: str = "rows") -> None:
        """Open a bar over `total` units; a bar that is open is closed first."""
        self.finish()
        self._task = self._progress.add_task(what, total=total, unit=unit)
        self._progress.start()

    def advance(self, n: int = 1) -> None:
        """Move the open bar by `n` units."""
        if self._task is not None:
            self._progress.advance(self._task, n)

    def finish(self) -> None:
        """Close the open bar and leave its last state on the screen."""
        if self._task is not None:
            self._progress.stop()
            self._progress.remove_task(self._task)
            self._task = None


class LineReporter:
    """One plain line about every 30 seconds, for a log file."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._what: str | None = None
        self._total: int | None = None
        self._unit = "rows"
        self._done = 0
        self._done_at_last_line = -1
        self._started_seconds = 0.0
        self._last_line_seconds = 0.0

    def message(self, text: str) -> None:
        """Write one line."""
        self._write(text)

    def start(self, what: str, total: int | None, unit: str = "rows") -> None:
        """Begin to count towards `total` units; a count that is open is closed first."""
        self.finish()
        self._what, self._total, self._unit = what, total, unit
        self._done, self._done_at_last_line = 0, -1
        self._started_seconds = self._last_line_seconds = self._clock()

    def advance(self, n: int = 1) -> None:
        """Count `n` units, and write a line when the last one is old."""
        self._done += n
        if self._what is not None and self._clock() - self._last_line_seconds >= SECONDS_BETWEEN_LINES:
            self._last_line_seconds = self._clock()
            self._done_at_last_line = self._done
            self._write(self._line())

    def finish(self) -> None:
        """Write how much was done in how long, unless the last line has said so or it took no time."""
        took_time = self._clock() - self._started_seconds >= SECONDS_WORTH_A_LINE
        if self._what is not None and took_time and self._done > self._done_at_last_line:
            self._write(self._line())
        self._what = None

    def _line(self) -> str:
        seconds = self._clock() - self._started_seconds
        of_total = "" if self._total is None else f" of {self._total}"
        rate = self._done / seconds if seconds > 0 else 0.0
        left = ""
        if self._total is not None and 0 < self._done < self._total:
            left = f", about {(self._total - self._done) / rate:.0f} s left" if rate > 0 else ""
        return f"{self._what}: {self._done}{of_total} {self._unit} in {seconds:.0f} s, {rate:.1f} {self._unit}/s{left}"


@contextmanager
def open_reporter(*, quiet: bool) -> Iterator[Reporter]:
    """Yield the reporter that fits where stderr goes; a bar left open by an error is closed at the end."""
    reporter: Reporter
    console = Console(stderr=True)
    if quiet:
        reporter = SilentReporter()
    elif console.is_terminal:
        reporter = BarReporter(console)
    else:
        reporter = LineReporter(lambda text: print(text, file=sys.stderr, flush=True))
    try:
        yield reporter
    finally:
        reporter.finish()
