"""Tests that a score depends on the row and the views alone: not on engine, batches, shards or selection."""

from pathlib import Path

import pandas as pd
import pytest

from gradscore.errors import TableError
from gradscore.table.read import read_table
from tests.pipeline.runs import alpaca_rows, assert_same_scores, read, score, write_jsonl


@pytest.mark.parametrize("engine", ["vmap", "loop"])
def test_engines_agree(
    engine: str, model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    outcome = score(model=model, dataset=dataset, output=tmp_path / "s.parquet", engine=engine)
    assert outcome.summary["engine"] == engine
    assert_same_scores(read(tmp_path / "s.parquet"), expected)


@pytest.mark.parametrize("max_batch_tokens", [1, 150, 100_000])
def test_any_batch_size_gives_the_same_table(
    max_batch_tokens: int, model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", max_batch_tokens=max_batch_tokens)
    assert_same_scores(read(tmp_path / "s.parquet"), expected)


def test_shards_in_one_folder_are_the_unsharded_table(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    folder = tmp_path / "shards"
    for i in range(3):
        score(model=model, dataset=dataset, output=folder / f"{i}.parquet", shard=f"{i}/3")
    assert read(folder / "1.parquet")["row_index"].tolist() == [1, 4, 7, 10, 13, 16, 19]
    assert_same_scores(read_table(folder).arrow.to_pandas(), expected)
    (folder / "1.parquet").unlink()
    with pytest.raises(TableError, match=r"lacks 1/3.*Score the missing shards"):
        read_table(folder)


def test_more_shards_than_rows_leave_an_empty_table(model: Path, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(2))
    folder = tmp_path / "shards"
    for i in range(3):
        outcome = score(model=model, dataset=dataset, output=folder / f"{i}.parquet", shard=f"{i}/3")
        assert outcome.n_rows == (1 if i < 2 else 0)
    assert read_table(folder).arrow["row_index"].to_pylist() == [0, 1]


def test_limit_and_sample_choose_rows(model: Path, dataset: Path, tmp_path: Path) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "limit.parquet", limit=5)
    assert read(tmp_path / "limit.parquet")["row_index"].tolist() == [0, 1, 2, 3, 4]
    score(model=model, dataset=dataset, output=tmp_path / "sample.parquet", limit=10, sample=4, seed=1)
    sample = read(tmp_path / "sample.parquet")["row_index"].tolist()
    assert len(sample) == 4
    assert sample == sorted(sample)
    assert max(sample) < 10
    score(model=model, dataset=dataset, output=tmp_path / "all.parquet", sample=1000)
    assert len(read(tmp_path / "all.parquet")) == 20


def test_one_row_is_a_dataset(model: Path, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(1))
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet")
    assert read(tmp_path / "s.parquet")["gsnr"].notna().all()
