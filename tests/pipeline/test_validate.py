"""Tests the whole validation with a tiny model: files, a second run, quality in score, and its use in filter."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gradscore.cli import validate as command
from gradscore.cli.main import main
from gradscore.config import RunConfig
from gradscore.errors import ConfigError, TableError
from gradscore.pipeline import validate_dataset
from gradscore.quality.model import Feature, Fit, QualityModel, apply
from gradscore.quality.stored import read_quality, write_quality
from tests.pipeline.counter import ROWS_PER_BATCH, Counter
from tests.pipeline.runs import WARMUP, Listener, alpaca_rows, filter, read, score, settings, write_jsonl

SECTIONS = ("data", "model", "gradients", "scores", "validate")


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("data") / "rows.jsonl", alpaca_rows(60))


def config(**options: Any) -> RunConfig:
    return settings(SECTIONS, {**WARMUP, "contamination": 0.4, "measures": "base_loss", **options})


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, model: Path, rows: Path) -> Path:
    """The folder of an undisturbed validation."""
    output = tmp_path_factory.mktemp("validated") / "v"
    validate_dataset(config(model=model, dataset=rows, output=output))
    return output


def test_everything_is_written_and_agrees(folder: Path, rows: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "rows.jsonl",
        "scores.parquet",
        "scores.run",
        "validation.json",
        "quality.json",
        "auroc.png",
    }
    result = json.loads((folder / "validation.json").read_text(encoding="utf-8"))
    planted = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    counts = pd.Series([row["fault"] for row in planted]).value_counts().to_dict()
    assert result["planted"]["counts"] == counts
    assert sum(counts.values()) == 24
    assert result["planted"]["dataset"] == str(rows)
    assert len(result["planted"]["source_row_index"]) == 60
    names = {column["name"] for column in result["columns"]}
    assert {"loss", "gsnr", "grad_norm", "base_loss", "n_target_tokens"} <= names
    assert not names & {"row_index", "n_views"}
    loss = next(column for column in result["columns"] if column["name"] == "loss")
    assert loss["better"] == "low"
    assert loss["auroc"]["all"]["low"] <= loss["auroc"]["all"]["value"] <= loss["auroc"]["all"]["high"]
    assert 0.2 < result["control"]["auroc"]["all"]["value"] < 0.8
    assert "Not planted: wrong_language" in result["planted"]["messages"][0]
    quality = read_quality(folder / "quality.json")
    assert quality.fitted_on["dataset"] == str(rows)
    assert quality.fitted_on["settings"]["model"]["views"] == WARMUP["views"]


def test_a_second_run_judges_again_and_scores_nothing(
    folder: Path, model: Path, rows: Path, counter: Counter
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".jsonl")}
    listener = Listener()
    validate_dataset(config(model=model, dataset=rows, output=folder), listener)
    assert counter.rows == []
    assert any("nothing is scored again" in said for said in listener.said)
    for name, content in before.items():
        assert (folder / name).read_bytes() == content, name


@pytest.mark.parametrize(
    ("changes", "differing"),
    [({"seed": 1}, "rows, data"), ({"views": 2}, "model"), ({"contamination": 0.3}, "rows")],
)
def test_another_validation_in_the_same_folder_is_refused(
    folder: Path, model: Path, rows: Path, changes: dict[str, Any], differing: str
) -> None:
    before = (folder / "rows.jsonl").read_bytes()
    with pytest.raises(
        TableError, match=rf"of another kind; what differs: {differing}\. Give another --output"
    ):
        validate_dataset(config(model=model, dataset=rows, output=folder, **changes))
    assert (folder / "rows.jsonl").read_bytes() == before


def test_an_interrupted_validation_goes_on(model: Path, rows: Path, tmp_path: Path, counter: Counter) -> None:
    options = {"model": model, "dataset": rows, "output": tmp_path / "v", **ROWS_PER_BATCH}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        validate_dataset(config(**options))
    assert not (tmp_path / "v" / "validation.json").exists()
    counter.batches_left = None
    n_before = len(counter.rows)
    outcome = validate_dataset(config(**options))
    assert sorted(counter.rows) == list(range(60))
    assert 0 < n_before < 60
    assert outcome.conclusion.judgement is not None


def test_score_adds_quality_and_turns_on_what_it_needs(
    folder: Path, model: Path, dataset: Path, tmp_path: Path
) -> None:
    listener = Listener()
    path = folder / "quality.json"
    score(listener, model=model, dataset=dataset, output=tmp_path / "s.parquet", measures="", quality=path)
    frame = read(tmp_path / "s.parquet")
    quality = read_quality(path)
    expected = apply(quality, frame)
    for name, values in zip(("quality", "quality_low", "quality_high"), expected, strict=True):
        assert frame[name].to_numpy() == pytest.approx(values)
    assert "base_loss" in frame
    assert frame["quality"].between(0, 1).all()
    assert not any("other settings" in said for said in listener.said)


def test_quality_may_use_alignment_which_is_known_only_when_all_rows_are(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    fitted = QualityModel(
        features=(Feature("alignment", "high", (0.0, 1.0, 2.0), (1.0, 0.5, -1.0)),),
        intercept=2.0,
        slope=1.0,
        bootstrap=(Fit(2.1, 0.9, ((1.0, 0.6, -1.0),)), Fit(1.9, 1.1, ((1.0, 0.4, -1.0),))),
    )
    write_quality(fitted, tmp_path / "quality.json")
    path = tmp_path / "quality.json"
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", measures="", quality=path)
    frame = read(tmp_path / "s.parquet")
    assert frame["alignment"].notna().all()
    assert frame["quality"].to_numpy() == pytest.approx(apply(fitted, frame).quality)
    assert frame["quality"].nunique() > 10


def test_other_settings_than_those_of_the_fit_are_named(
    folder: Path, model: Path, dataset: Path, tmp_path: Path
) -> None:
    listener = Listener()
    score(
        listener,
        model=model,
        dataset=dataset,
        output=tmp_path / "s.parquet",
        quality=folder / "quality.json",
        views=2,
        max_length=190,
    )
    (warning,) = [said for said in listener.said if "other settings" in said]
    assert "--max-length (None, now 190)" in warning
    assert "--views" not in warning, "quality is made of forward passes of the base model here"


def test_filter_ranks_by_quality_and_points_out_the_better_column(
    folder: Path, model: Path, dataset: Path, tmp_path: Path
) -> None:
    content = json.loads((folder / "quality.json").read_text(encoding="utf-8"))
    content["evidence"]["best_column"] = {
        "name": "quality",
        "better": "high",
        "auroc": {"value": 0.9, "low": 0.85, "high": 0.95},
    }
    content["evidence"]["default_column"]["auroc"] = {"value": 0.5, "low": 0.4, "high": 0.6}
    path = tmp_path / "quality.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    table = tmp_path / "s.parquet"
    score(model=model, dataset=dataset, output=table, quality=path)
    by_quality = filter(table=table, by="quality", top_k="5", output=tmp_path / "q.jsonl")
    by_auto = filter(table=table, by="auto", top_k="5", output=tmp_path / "a.jsonl")
    by_default = filter(table=table, top_k="5", output=tmp_path / "g.jsonl")
    assert Path(by_quality.output).read_bytes() == Path(by_auto.output).read_bytes()
    assert any("rank with --by quality (or --by auto)" in said for said in by_default.messages)
    assert any(said.startswith("--by auto: quality") for said in by_auto.messages)
    frame = read(table)
    lines = dataset.read_text(encoding="utf-8").splitlines()
    kept = set(Path(by_quality.output).read_text(encoding="utf-8").splitlines())
    is_kept = frame["row_index"].map(lambda index: lines[index] in kept)
    assert is_kept.sum() == by_quality.n_kept == 5
    assert frame["quality"][is_kept].min() >= frame["quality"][~is_kept].max()


def test_a_quality_of_before_is_judged_on_other_data(
    folder: Path, model: Path, rows: Path, tmp_path: Path
) -> None:
    outcome = validate_dataset(
        config(model=model, dataset=rows, output=tmp_path / "v", seed=7, quality=folder / "quality.json")
    )
    column = outcome.conclusion.evaluation.column("quality")
    assert column is not None
    assert column.better == "high"
    assert column.auroc["all"] is not None
    again = validate_dataset(
        config(model=model, dataset=rows, output=tmp_path / "v", seed=7, quality=folder / "quality.json")
    )
    assert again.conclusion.lines == outcome.conclusion.lines


def test_too_few_faults_still_judge_the_columns(model: Path, rows: Path, tmp_path: Path) -> None:
    outcome = validate_dataset(config(model=model, dataset=rows, output=tmp_path / "v", contamination=0.1))
    assert outcome.conclusion.judgement is None
    assert not (tmp_path / "v" / "quality.json").exists()
    assert any(
        line.startswith("There is no quality.json: quality is fitted on at least")
        for line in outcome.conclusion.lines
    )


@pytest.mark.parametrize("truncate", ["right", "left"])
def test_faults_that_may_have_been_cut_away_are_said(
    model: Path, rows: Path, tmp_path: Path, truncate: str
) -> None:
    options = {"max_length": 100, "truncate": truncate, "check": False, "measures": ""}
    outcome = validate_dataset(config(model=model, dataset=rows, output=tmp_path / "v", **options))
    frame = pd.read_parquet(outcome.table)
    planted = [json.loads(line)["fault"] for line in (tmp_path / "v" / "rows.jsonl").read_text().splitlines()]
    faulty = np.array([planted[i] not in (None, "duplicate") for i in frame["row_index"]])
    n_cut = int((frame["truncated"] & faulty).sum())
    assert n_cut > 0
    said = [line for line in outcome.conclusion.lines if "lost the end of their text" in line]
    assert [line.split(" faulty")[0] for line in said] == (
        [f"{n_cut} of {faulty.sum()}"] if truncate == "right" else []
    )


def test_the_command_prints_a_table_that_fits(
    folder: Path, model: Path, rows: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    options = {
        **WARMUP,
        "contamination": 0.4,
        "measures": "base_loss",
        "model": model,
        "dataset": rows,
        "output": folder,
    }
    words = [str(word) for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert main(["validate", *words]) == 0
    captured = capsys.readouterr()
    is_worth_it = "Do not filter by it" not in captured.out
    assert ("Next: gradscore score ... --quality" in captured.err) == is_worth_it
    assert "AUROC of 'faulty rows score worse'" in captured.out
    assert "whose order was not fitted to these faults" in captured.out
    assert "of the faulty dropped" in captured.out
    assert max(len(line) for line in captured.out.splitlines() if "│" in line or "┃" in line) <= 80
    assert "…" not in captured.out


def test_shards_are_not_offered_since_a_sample_is_whole() -> None:
    assert ("data", "shard") not in command.OFFER.fields
    assert ("table", "output") not in command.OFFER.fields


def test_a_file_is_no_folder_for_a_validation(model: Path, rows: Path, tmp_path: Path) -> None:
    (tmp_path / "v").write_text("mine")
    with pytest.raises(ConfigError, match=r"is a file, and a validation needs a folder"):
        validate_dataset(config(model=model, dataset=rows, output=tmp_path / "v"))
    assert (tmp_path / "v").read_text() == "mine"
