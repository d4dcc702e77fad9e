"""Tests doctor_dataset, and that score refuses what the doctor fails."""

from pathlib import Path

import pytest

from gradscore.errors import CheckFailedError, ConfigError
from gradscore.pipeline import doctor_dataset
from tests.pipeline.runs import Listener, read, score, score_config, write_jsonl
from tests.tiny_tokenizer import CHATML

EMPTY = {"instruction": "Say nothing", "input": "", "output": ""}


@pytest.fixture
def doubling(tmp_path: Path) -> Path:
    template = tmp_path / "doubling.jinja"
    template.write_text("{{ bos_token + bos_token }}" + CHATML)
    return template


def test_the_whole_diagnosis(
    model: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    diagnosis = doctor_dataset(score_config(model=model, dataset=dataset, output=tmp_path / "s.parquet"))
    assert diagnosis.failures == ()
    names = [finding.name for finding in diagnosis.findings]
    assert names[:8] == [
        "schema",
        "rows",
        "targets",
        "prompts",
        "length",
        "copies",
        "beginning",
        "stop token",
    ]
    assert names[-4:] == ["time", "past runs", "memory", "disk"]
    assert len(diagnosis.shown) == 2
    assert diagnosis.numbers["rows"]["ok"] == 20
    assert diagnosis.numbers["estimate"]["n_rows"] == 20
    assert list(tmp_path.iterdir()) == []


def test_a_template_that_doubles_the_beginning_fails(model: Path, dataset: Path, doubling: Path) -> None:
    diagnosis = doctor_dataset(score_config(model=model, dataset=dataset, chat_template=doubling))
    assert [finding.name for finding in diagnosis.failures] == ["beginning"]


def test_score_refuses_it_before_any_work(model: Path, dataset: Path, doubling: Path, tmp_path: Path) -> None:
    options = {
        "model": model,
        "dataset": dataset,
        "chat_template": doubling,
        "output": tmp_path / "s.parquet",
    }
    with pytest.raises(CheckFailedError, match=r"begin with <\|bos\|> twice"):
        score(**options)
    assert not (tmp_path / "s.run").exists()
    score(**options, check=False)
    assert len(read(tmp_path / "s.parquet")) == 20


def test_score_refuses_a_dataset_without_answers(model: Path, tmp_path: Path) -> None:
    rows = [{**EMPTY, "instruction": f"Say nothing {i}"} for i in range(3)] + [{**EMPTY, "output": "Yes"}]
    dataset = write_jsonl(tmp_path / "rows.jsonl", rows)
    with pytest.raises(CheckFailedError, match=r"targets: 3 of 4 rows \(75.0 %\) have no target token"):
        score(model=model, dataset=dataset, output=tmp_path / "s.parquet")


def test_score_says_what_is_a_warning(model: Path, dataset: Path, tmp_path: Path) -> None:
    listener = Listener()
    score(listener, model=model, dataset=dataset, output=tmp_path / "s.parquet", limit=4)
    assert any(
        said.startswith("Warning: 4 of 4 rows (100.0 %) begin without <|bos|>") for said in listener.said
    )


def test_model_and_dataset_are_needed_and_no_output() -> None:
    with pytest.raises(ConfigError) as error:
        doctor_dataset(score_config())
    assert "--model" in str(error.value)
    assert "--dataset" in str(error.value)
    assert "--output" not in str(error.value)
