"""Tests cli/main.py: each end of a run has its exit code, and only our bugs show a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gradscore
from gradscore.cli.main import COMMANDS, main
from gradscore.errors import DatasetError
from tests.cli.conftest import FakePipeline

SCORE = ["score", "--dataset", "d.jsonl", "--model", "m", "--output", "s.parquet"]
# A process whose pipeline does what BODY says, for what cannot be tried inside the test process.
PROGRAM = """
import os, signal, sys, time, types
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
import gradscore
from gradscore.cli.main import main
module = types.ModuleType("gradscore.pipeline")
{body}
module.score_dataset = score_dataset
module.preview_json = preview_json
sys.modules["gradscore.pipeline"] = gradscore.pipeline = module
sys.exit(main(sys.argv[1:]))
"""
BODY = """
def score_dataset(config, reporter):
    print("started", flush=True)
    time.sleep(60)
def preview_json(config, reporter):
    for n in range(100000):
        yield {"row_index": n}
"""


def start(*arguments: str) -> "subprocess.Popen[str]":
    code = PROGRAM.format(body=BODY)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )


def test_done_is_0(pipeline: FakePipeline) -> None:
    assert main(SCORE) == 0


def test_the_users_mistake_is_2_and_one_message(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.error = DatasetError("d.jsonl does not exist. This folder has: a.jsonl. Check the path.")
    assert main(SCORE) == 2
    captured = capsys.readouterr()
    assert captured.err == "gradscore: d.jsonl does not exist. This folder has: a.jsonl. Check the path.\n"
    assert captured.out == ""


def test_our_bug_is_1_with_a_traceback_and_a_request(
    pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.error = ZeroDivisionError("the cause")
    assert main(SCORE) == 1
    message = capsys.readouterr().err
    assert "Traceback" in message
    assert "ZeroDivisionError: the cause" in message
    assert "bug in gradscore" in message


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["scor"], "No such command 'scor'"),
        ([*SCORE, "--bogus"], "No such option: --bogus"),
        ([*SCORE, "--limit"], "--limit"),
        ([*SCORE, "stray"], "stray"),
        (["--bogus"], "--bogus"),
    ],
)
def test_a_wrong_word_is_2_and_points_to_help(
    arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("gradscore: ")
    assert part in message
    assert "--help`." in message


def test_ctrl_c_inside_the_run_is_130(pipeline: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.error = KeyboardInterrupt()
    assert main(SCORE) == 130
    assert "What was finished is kept" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_program_with_a_message_and_no_traceback(number: int, code: int) -> None:
    process = start(*SCORE)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert "What was finished is kept" in errors
    assert "Traceback" not in errors


def test_main_leaves_the_signal_handler_as_it_was(pipeline: FakePipeline) -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(SCORE)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_reader_that_leaves_is_no_error() -> None:
    process = start("preview", "--dataset", "d.jsonl", "--model", "m", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == '{"row_index": 0}\n'
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert f"Example: gradscore {command}" in page
    assert "Traceback" not in page


def test_without_words_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    page = capsys.readouterr().out
    assert all(command in page for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gradscore {gradscore.__version__}\n"


def test_the_installed_command_is_this_main() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("gradscore")), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"gradscore {gradscore.__version__}\n"
