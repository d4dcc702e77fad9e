"""Tests that no finished row is lost: after any end of a run, the same call goes on and gives the same table."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from gradscore.errors import StorageError
from tests.pipeline.counter import ROWS_PER_BATCH, Counter
from tests.pipeline.runs import WARMUP, Listener, read, score

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
import gradscore.table.parts as parts
from gradscore.cli.main import main
from gradscore.scores.sweep import Sweep
{body}
sys.exit(main(sys.argv[1:]))
"""
KILLED_WHILE_WRITING = """
written = []
write_table = parts.pq.write_table
def write_and_die(table, path, **options):
    write_table(table, path, **options)
    written.append(path)
    if len(written) == 3:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
parts.pq.write_table = write_and_die
"""
SLOW = """
score_batch = Sweep._score_batch
def score_slowly(self, rows):
    time.sleep(0.3)
    return score_batch(self, rows)
Sweep._score_batch = score_slowly
"""


def score_words(options: dict[str, Any]) -> list[str]:
    """Return the options as words of the command line, with the tiny warm-up."""
    return [
        word
        for name, value in {**WARMUP, **options}.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def start(body: str, options: dict[str, Any]) -> "subprocess.Popen[str]":
    """Start the real command line in a process of its own, with something in its way."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body), "score", *score_words(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a cable was pulled")])
def test_a_stopped_run_goes_on_and_scores_no_row_twice(
    error: BaseException,
    counter: Counter,
    model: Path,
    dataset: Path,
    tmp_path: Path,
    undisturbed: pd.DataFrame,
) -> None:
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    counter.batches_left, counter.error = 3, error
    with pytest.raises(type(error)):
        score(**options)
    first = list(counter.rows)
    assert 3 <= len(first) < 20
    assert not (tmp_path / "s.parquet").exists()
    counter.batches_left = None
    listener = Listener()
    outcome = score(listener, **options)
    assert sorted(counter.rows) == list(range(20))
    assert f"Resuming: {len(first)} rows are on disk already" in listener.said
    assert outcome.status_counts == {"ok": 20}
    assert not any("Warm-up of member" in line for line in listener.said)
    pd.testing.assert_frame_equal(read(tmp_path / "s.parquet"), undisturbed, rtol=1e-5)


def test_an_interrupt_in_the_warm_up_trains_that_member_again(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Listener):
        def advance(self, n: int = 1) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(Impatient(), model=model, dataset=dataset, output=tmp_path / "s.parquet")
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet")
    pd.testing.assert_frame_equal(read(tmp_path / "s.parquet"), expected)


def test_resuming_with_another_batch_size_is_the_same_run(
    interrupted: dict[str, Any], counter: Counter
) -> None:
    score(**{**interrupted, "max_batch_tokens": 4000})
    assert sorted(counter.rows) == list(range(20))


def test_without_resume_every_row_is_scored_again(interrupted: dict[str, Any], counter: Counter) -> None:
    counter.rows.clear()
    score(**interrupted, resume=False)
    assert sorted(counter.rows) == list(range(20))


def test_killed_while_writing_a_part_and_interrupted_by_ctrl_c(
    model: Path, dataset: Path, tmp_path: Path, counter: Counter, undisturbed: pd.DataFrame
) -> None:
    common = {"model": model, "dataset": dataset, "part_seconds": 0.0, **ROWS_PER_BATCH}
    killed = {**common, "output": tmp_path / "killed.parquet"}
    stopped = {**common, "output": tmp_path / "stopped.parquet"}
    killed_process = start(KILLED_WHILE_WRITING, killed)
    stopped_process = start(SLOW, stopped)

    wait_for(lambda: any((tmp_path / "stopped.run" / "parts").glob("part-*.parquet")), stopped_process)
    stopped_process.send_signal(signal.SIGINT)
    out, err = stopped_process.communicate(timeout=60)
    assert stopped_process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(
        "Interrupted. What was finished is kept; run the same command again"
    )
    killed_process.communicate(timeout=60)
    assert killed_process.returncode == -signal.SIGKILL

    leftovers = [path.name for path in (tmp_path / "killed.run" / "parts").iterdir()]
    assert sum(name.endswith(".tmp") for name in leftovers) == 1  # torn in the middle
    for options in (killed, stopped):
        counter.rows.clear()
        score(**options)
        assert 0 < len(counter.rows) < 20
        pd.testing.assert_frame_equal(read(options["output"]), undisturbed, rtol=1e-5)


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait until the condition holds; a process that ends before it is a failure."""
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_full_disk_keeps_what_was_written(
    counter: Counter, model: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "model": model, "dataset": dataset, "output": tmp_path / "s.parquet", "part_seconds": 0.0, **ROWS_PER_BATCH
    }  # fmt: skip
    parts: list[Path] = []
    write_table = pq.write_table

    def fill_up(table: Any, where: Path, **arguments: Any) -> None:
        write_table(table, where, **arguments)
        parts.append(where)
        if len(parts) > 2:
            os.truncate(where, 100)
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gradscore.table.parts.pq.write_table", fill_up)
        with pytest.raises(
            StorageError, match=r"is full. The \d+ rows written before are safe.*Free some space"
        ):
            score(**options)
    first = len(counter.rows)
    score(**options)
    assert len(counter.rows) - first < 20
    assert read(tmp_path / "s.parquet")["row_index"].tolist() == list(range(20))
    assert sorted(set(counter.rows)) == list(range(20))
