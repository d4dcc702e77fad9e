"""Tests that no finished row is lost: after any end of a run, the same call goes on and gives the same table."""

import errno
import os
import shutil
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

from gradscore.errors import StorageError, TableError
from gradscore.scores.sweep import Sweep
from tests.pipeline.runs import WARMUP, Listener, alpaca_rows, read, score, write_jsonl
from tests.tiny_tokenizer import CHATML

ROWS_PER_BATCH = {"max_batch_tokens": 150}
"""Batches of one to three rows, so that there is a middle to stop in."""

PROGRAM = """
import os, signal, sys, time
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


class Counter:
    """Counts the rows that are scored, and stops a run after some batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.batches_left: int | None = None
        self.error: BaseException = KeyboardInterrupt()
        score_batch = Sweep._score_batch

        def counted(sweep: Sweep, rows: list[Any]) -> list[Any]:
            if self.batches_left == 0:
                raise self.error
            if self.batches_left is not None:
                self.batches_left -= 1
            self.rows += [row.row_index for row in rows]
            return score_batch(sweep, rows)

        monkeypatch.setattr(Sweep, "_score_batch", counted)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


@pytest.fixture(scope="module")
def undisturbed(model: Path, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    output = tmp_path_factory.mktemp("undisturbed") / "s.parquet"
    score(model=model, dataset=dataset, output=output, **ROWS_PER_BATCH)
    return read(output)


@pytest.fixture
def interrupted(counter: Counter, model: Path, dataset: Path, tmp_path: Path) -> dict[str, Any]:
    """The options of a run that was interrupted after three batches; its views and those rows are on disk."""
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        score(**options)
    counter.batches_left = None
    return options


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


def test_a_changed_source_is_refused_and_overwrite_starts_anew(
    counter: Counter, model: Path, tmp_path: Path
) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(12))
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        score(**options)
    counter.batches_left = None
    write_jsonl(
        dataset, [*alpaca_rows(11), {"instruction": "Say", "input": "", "output": "other", "kind": "a"}]
    )
    with pytest.raises(
        TableError, match=r"with other settings or data.*\n  - data_fingerprint: (.|\n)*--overwrite"
    ):
        score(**options)
    score(**options, overwrite=True)
    assert len(read(tmp_path / "s.parquet")) == 12


def test_a_finished_table_of_changed_data_is_replaced_when_asked(model: Path, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(6))
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet"}
    score(**options)
    before = read(tmp_path / "s.parquet")
    write_jsonl(dataset, reversed(alpaca_rows(6)))
    score(**options, overwrite=True)
    assert read(tmp_path / "s.parquet")["row_key"].tolist() == before["row_key"].tolist()[::-1]


def test_a_changed_chat_template_is_refused(
    counter: Counter, model: Path, dataset: Path, tmp_path: Path
) -> None:
    template = tmp_path / "template.jinja"
    template.write_text(CHATML)
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    options |= {"view_source": "single", "chat_template": template}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        score(**options)
    counter.batches_left = None
    template.write_text(CHATML.replace("message['role']", "message['role'] + ':'"))
    with pytest.raises(TableError, match=r"- chat_template_fingerprint: "):
        score(**options)
    template.write_text(CHATML)
    score(**options)
    assert sorted(counter.rows) == list(range(20))


def test_other_settings_are_refused_with_what_differs(interrupted: dict[str, Any], counter: Counter) -> None:
    scored = list(counter.rows)
    with pytest.raises(TableError) as caught:
        score(**interrupted, momentum=0.5, lora_rank=4)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("s.run holds a run with other settings or data. What differs:")
    assert lines[1:3] == ["  - model.lora_rank: 8 before, 4 now", "  - scores.momentum: 0.9 before, 0.5 now"]
    assert "--overwrite" in lines[3]
    assert counter.rows == scored
    score(**interrupted)  # the refusal has harmed nothing
    assert sorted(counter.rows) == list(range(20))


def test_another_model_is_refused(interrupted: dict[str, Any], model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(model, tmp_path / "other")
    config = other / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1e-05'))
    with pytest.raises(TableError, match=r"- model_fingerprint: "):
        score(**{**interrupted, "model": other})


@pytest.mark.parametrize(
    "mistake",
    [
        {"parameters": "no_such_name"},
        {"lora_targets": "no_such_module"},
        {"category_field": "no_such_column"},
        {"stride": 3, "projection": 4},
    ],
)
def test_a_mistake_leaves_nothing_that_is_in_the_way(
    mistake: dict[str, Any], model: Path, dataset: Path, tmp_path: Path, counter: Counter
) -> None:
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet"}
    with pytest.raises(Exception, match=r"no_such|thin"):
        score(**options, **mistake)
    assert not list(tmp_path.rglob("step-*"))  # said before the warm-up, not after it
    score(**options)
    assert sorted(counter.rows) == list(range(20))


def test_a_finished_table_is_refused_before_anything_is_loaded(
    finished: Path, dataset: Path, tmp_path: Path
) -> None:
    table = shutil.copy(finished, tmp_path / "s.parquet")
    with pytest.raises(TableError, match=r"finished score table is already at .*--overwrite"):
        score(model=tmp_path / "no-model", dataset=dataset, output=table)


def test_overwrite_scores_again(
    finished: Path, model: Path, dataset: Path, tmp_path: Path, counter: Counter, expected: pd.DataFrame
) -> None:
    table = tmp_path / "s.parquet"
    score(model=model, dataset=dataset, output=table)
    counter.rows.clear()
    with pytest.raises(TableError):
        score(model=model, dataset=dataset, output=table)
    score(model=model, dataset=dataset, output=table, overwrite=True)
    assert sorted(counter.rows) == list(range(20))
    pd.testing.assert_frame_equal(read(table), expected)


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
