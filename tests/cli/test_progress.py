"""Tests cli/progress.py: a bar for a terminal, a line now and then for a log, nothing when quiet."""

import io

import pytest
from rich.console import Console

from gradscore.cli.progress import SECONDS_BETWEEN_LINES, BarReporter, LineReporter, open_reporter
from gradscore.records import SilentReporter


class Clock:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> list[str]:
    return []


def test_lines_come_at_most_every_interval_and_at_the_end(clock: Clock, lines: list[str]) -> None:
    reporter = LineReporter(lines.append, clock)
    reporter.start("scoring", 100)
    for _ in range(70):
        clock.seconds += 1
        reporter.advance()
    reporter.finish()
    assert SECONDS_BETWEEN_LINES == 30
    assert lines == [
        "scoring: 30 of 100 rows in 30 s, 1.0 rows/s, about 70 s left",
        "scoring: 60 of 100 rows in 60 s, 1.0 rows/s, about 40 s left",
        "scoring: 70 of 100 rows in 70 s, 1.0 rows/s, about 30 s left",
    ]


def test_the_end_is_not_said_twice(clock: Clock, lines: list[str]) -> None:
    reporter = LineReporter(lines.append, clock)
    reporter.start("scoring", 5)
    clock.seconds = 31
    reporter.advance(5)
    reporter.finish()
    assert lines == ["scoring: 5 of 5 rows in 31 s, 0.2 rows/s"]


def test_an_unknown_total_has_no_time_left(clock: Clock, lines: list[str]) -> None:
    reporter = LineReporter(lines.append, clock)
    reporter.start("reading", None, unit="files")
    clock.seconds = 4
    reporter.advance(8)
    reporter.finish()
    assert lines == ["reading: 8 files in 4 s, 2.0 files/s"]


def test_no_work_divides_nothing(clock: Clock, lines: list[str]) -> None:
    reporter = LineReporter(lines.append, clock)
    reporter.start("scoring", 0)
    clock.seconds = 2
    reporter.finish()
    reporter.finish()
    assert lines == ["scoring: 0 of 0 rows in 2 s, 0.0 rows/s"]


def test_what_takes_no_time_is_not_worth_a_line(clock: Clock, lines: list[str]) -> None:
    reporter = LineReporter(lines.append, clock)
    reporter.start("writing", 5)
    reporter.advance(5)
    reporter.finish()
    assert lines == []


def test_a_second_start_closes_the_first(clock: Clock, lines: list[str]) -> None:
    reporter = LineReporter(lines.append, clock)
    reporter.start("warm-up", 2, unit="steps")
    clock.seconds = 5
    reporter.start("scoring", 3)
    clock.seconds = 9
    reporter.finish()
    assert [line.split(":")[0] for line in lines] == ["warm-up", "scoring"]


def test_the_bar_shows_what_how_many_and_the_rate() -> None:
    screen = io.StringIO()
    reporter = BarReporter(Console(file=screen, force_terminal=True, width=120))
    reporter.advance()  # before any start: nothing to move
    reporter.start("scoring", 4)
    reporter.advance(4)
    reporter.message("a [line] above")
    reporter.finish()
    assert "scoring" in screen.getvalue()
    assert "4/4" in screen.getvalue()
    assert "a [line] above" in screen.getvalue()
    assert "\x1b[?25h" in screen.getvalue()  # the cursor is back


def test_quiet_says_nothing() -> None:
    with open_reporter(quiet=True) as reporter:
        assert isinstance(reporter, SilentReporter)


class Closing:
    """A reporter that knows whether it was finished."""

    is_finished = False

    def finish(self) -> None:
        self.is_finished = True


def test_an_error_closes_the_display(monkeypatch: pytest.MonkeyPatch) -> None:
    closing = Closing()
    monkeypatch.setattr("gradscore.cli.progress.LineReporter", lambda write: closing)

    def break_off() -> None:
        with open_reporter(quiet=False):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert closing.is_finished


def test_without_a_terminal_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def break_off() -> None:
        with open_reporter(quiet=False) as reporter:
            reporter.message("hello")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    captured = capsys.readouterr()
    assert captured.err == "hello\n"
    assert captured.out == ""
