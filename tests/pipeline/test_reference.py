"""Tests trusted rows and alignment end to end: exact against one-row runs, kept with the run, part of its identity."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file

from gradscore.errors import ConfigError, DatasetError, TableError, UnsupportedError
from tests.pipeline.counter import Counter
from tests.pipeline.runs import Listener, alpaca_rows, read, score, write_jsonl

MEASURES = "influence,influence_category,alignment,alignment_category"
SKETCH = 4096


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of another schema, of two of the dataset's three categories."""
    rows = [
        {"prompt": f"Say number {i}", "completion": f"It is {i} and more", "kind": "ab"[i % 2]}
        for i in range(5)
    ]
    return write_jsonl(tmp_path_factory.mktemp("trusted") / "t.jsonl", rows)


@pytest.fixture(scope="module")
def options(model: Path, dataset: Path, trusted: Path) -> dict[str, object]:
    return {
        "model": model, "dataset": dataset, "reference": trusted, "measures": MEASURES,
        "category_field": "kind", "sketch": SKETCH, "lora_targets": "q_proj,v_proj", "lora_rank": 2,
    }  # fmt: skip


@pytest.fixture(scope="module")
def table(options: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    output = tmp_path_factory.mktemp("reference") / "s.parquet"
    listener = Listener()
    score(listener, output=output, **options)
    assert any("5 usable rows, schema prompt_completion, 2 categories" in line for line in listener.said)
    found = read(output)
    found.attrs["run"] = str(output.with_suffix(".run"))
    return found


def test_influence_and_alignment_are_cosines(table: pd.DataFrame) -> None:
    for name in MEASURES.split(","):
        assert table[name].between(-1, 1).all(), name
    is_c = table["category"] == "c"  # no trusted row has it
    assert (table["influence_category"] == table["influence"])[is_c].all()
    assert not (table["influence_category"] == table["influence"])[~is_c].any()


def test_alignment_follows_from_the_sketches_in_the_table(table: pd.DataFrame) -> None:
    sketches = np.stack(table["sketch"]).astype(np.float64)
    assert sketches.shape[1] == SKETCH
    for name, same in (
        ("alignment", np.ones((20, 20), bool)),
        ("alignment_category", table["category"].to_numpy()[:, None] == table["category"].to_numpy()[None]),
    ):
        for i in range(20):
            others = sketches[[j for j in range(20) if j != i and same[i, j]]].mean(0)
            cosine = sketches[i] @ others / np.linalg.norm(sketches[i]) / np.linalg.norm(others)
            assert table[name][i] == pytest.approx(cosine, rel=1e-9)


def test_the_trusted_rows_agree_with_their_own_mean_more_than_others_do(
    options: dict[str, object], trusted: Path, tmp_path: Path
) -> None:
    """Under one view and with one trusted row, its own influence is exactly 1."""
    one = write_jsonl(tmp_path / "one.jsonl", [json.loads(trusted.read_text().splitlines()[2])])
    settings = {
        **options,
        "reference": one,
        "dataset": trusted,
        "view_source": "dropout",
        "views": 1,
        "dropout": 1e-9,
    }
    score(output=tmp_path / "s.parquet", **{**settings, "measures": "influence"})
    found = read(tmp_path / "s.parquet")["influence"]
    assert found[2] == pytest.approx(1.0, abs=1e-4)
    assert found.drop(2).max() < 1 - 1e-4


def test_directions_are_kept_with_the_run_and_a_resumed_run_takes_them_from_there(
    options: dict[str, object], table: pd.DataFrame, counter: Counter, tmp_path: Path
) -> None:
    files = sorted((Path(table.attrs["run"]) / "reference").glob("*.safetensors"))
    assert len(files) == 3  # views
    assert {name.split("/")[0] for name in load_file(files[0])} == {"overall", "category-0", "category-1"}
    counter.batches_left = 1
    with pytest.raises(KeyboardInterrupt):
        score(output=tmp_path / "s.parquet", **{**options, "max_batch_tokens": 100})
    counter.batches_left = None
    listener = Listener()
    score(listener, output=tmp_path / "s.parquet", **{**options, "max_batch_tokens": 100})
    found = read(tmp_path / "s.parquet")
    for name in ("influence", "influence_category"):
        pd.testing.assert_series_equal(found[name], table[name], rtol=1e-3, atol=1e-5)


def test_other_trusted_rows_are_another_run(
    options: dict[str, object], counter: Counter, trusted: Path, tmp_path: Path
) -> None:
    own = tmp_path / "t.jsonl"
    own.write_text(trusted.read_text())
    settings = {**options, "reference": own, "max_batch_tokens": 100}
    counter.batches_left = 1
    with pytest.raises(KeyboardInterrupt):
        score(output=tmp_path / "s.parquet", **settings)
    counter.batches_left = None
    write_jsonl(own, alpaca_rows(3))
    with pytest.raises(TableError, match="reference_fingerprint"):
        score(output=tmp_path / "s.parquet", **settings)


def test_adam_changes_the_direction_and_needs_coordinates(
    options: dict[str, object], table: pd.DataFrame, tmp_path: Path
) -> None:
    settings = {**options, "measures": "influence", "reference_adam": True}
    score(output=tmp_path / "s.parquet", **settings)
    found = read(tmp_path / "s.parquet")["influence"]
    assert found.between(-1, 1).all()
    assert (found - table["influence"]).abs().max() > 1e-3
    with pytest.raises(ConfigError, match="--reference-adam divides single coordinates"):
        score(output=tmp_path / "p.parquet", **{**settings, "parameters": "linear"})


def test_mistakes_are_named(options: dict[str, object], tmp_path: Path) -> None:
    plain = {name: value for name, value in options.items() if name not in ("reference", "measures")}
    with pytest.raises(UnsupportedError, match="influence cannot be had in this run: it needs trusted rows"):
        score(output=tmp_path / "a.parquet", **plain, measures="influence")
    with pytest.raises(ConfigError, match="Add one: --measures default,influence"):
        score(output=tmp_path / "a.parquet", **plain, reference="t.jsonl")
    with pytest.raises(ConfigError, match="--reference-adam needs trusted rows"):
        score(output=tmp_path / "a.parquet", **plain, measures="influence", reference_adam=True)
    empty = write_jsonl(tmp_path / "e.jsonl", [{"instruction": "Say nothing", "output": ""}])
    with pytest.raises(DatasetError, match="None of 1 rows of the reference"):
        score(output=tmp_path / "a.parquet", **plain, measures="influence", reference=empty)
    without = {name: value for name, value in plain.items() if name != "category_field"}
    with pytest.raises(
        UnsupportedError, match="alignment_category cannot be had in this run: it needs categories"
    ):
        score(output=tmp_path / "a.parquet", **without, measures="alignment_category")


@pytest.mark.parametrize(
    ("text", "found"), [("", "has no rows"), ('{"foo": 1}\n', "foo"), (None, "There is no file")]
)
def test_a_reference_that_cannot_be_used_is_not_taken_for_the_dataset(
    options: dict[str, object], tmp_path: Path, text: str | None, found: str
) -> None:
    """The message spoke of --dataset, which was in order."""
    reference = tmp_path / "trusted.jsonl"
    if text is not None:
        reference.write_text(text)
    with pytest.raises(DatasetError, match=rf"^--reference .*trusted\.jsonl cannot be used\. (.|\n)*{found}"):
        score(output=tmp_path / "s.parquet", **options | {"reference": reference})


def test_a_shard_says_that_it_is_compared_with_itself(options: dict[str, object], tmp_path: Path) -> None:
    listener = Listener()
    plain = {name: value for name, value in options.items() if name != "reference"}
    score(
        listener,
        output=tmp_path / "s.parquet",
        **{**plain, "measures": "alignment", "shard": "0/2", "sketch": 0},
    )
    assert "alignment compares with the mean over shard 0/2, not over all rows" in listener.said
    found = read(tmp_path / "s.parquet")
    assert found["alignment"].notna().all()
    assert {len(sketch) for sketch in found["sketch"]} == {2048}
