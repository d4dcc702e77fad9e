"""Tests scoring and filtering together: what comes out of the two commands, and what stops the second one."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from gradscore.errors import ConfigError, DatasetError, GradscoreError
from tests.pipeline.runs import alpaca_rows, filter, read, score, write_jsonl


def best(expected: pd.DataFrame, count: int, by: str = "gsnr") -> list[int]:
    """Return the row indices of the highest scores, in source order."""
    return sorted(expected.nlargest(count, by)["row_index"])


def test_kept_rows_are_the_sources_own_lines_in_order(
    finished: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    outcome = filter(table=finished, top_k="0.3", output=tmp_path / "kept.jsonl")
    lines = dataset.read_bytes().splitlines(keepends=True)
    kept = best(expected, 6)
    assert (tmp_path / "kept.jsonl").read_bytes() == b"".join(lines[i] for i in kept)
    assert (outcome.n_rows, outcome.n_kept) == (20, 6)
    assert outcome.reason_counts == {"past_top_k": 14, "kept": 6}
    dropped = pd.read_parquet(outcome.dropped)
    assert sorted([*dropped["row_index"], *kept]) == list(range(20))
    assert dropped["reason"].str.startswith("dropped: past --top-k 0.3 (rank ").all()
    manifest = json.loads(Path(outcome.manifest).read_text())
    assert manifest["counts"]["kept"] == 6
    assert manifest["source"]["dataset"] == str(dataset)
    assert manifest["table"]["path"] == str(finished)


def test_rows_without_a_score_are_dropped_with_their_status(model: Path, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", [*alpaca_rows(5), {"instruction": "Hm", "output": ""}])
    dataset.write_bytes(dataset.read_bytes() + b'{"broken\n')
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", skip_bad_rows=True)
    outcome = filter(table=tmp_path / "s.parquet", top_k="1.0", output=tmp_path / "kept.jsonl")
    assert outcome.n_kept == 5
    dropped = pd.read_parquet(outcome.dropped)
    assert dropped["reason"][0] == "dropped: status no_target_tokens"
    assert dropped["reason"][1].startswith("dropped: status invalid: line 7")


def test_categories_are_compared_within_themselves(
    finished: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    options = {"table": finished, "top_k": "0.5", "normalize": "rank", "category_field": "kind"}
    filter(**options, output=tmp_path / "kept.jsonl")
    kept = [json.loads(line)["kind"] for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert sorted(kept.count(kind) for kind in "abc") == [3, 3, 4]


def test_the_table_of_another_dataset_is_refused(finished: Path, tmp_path: Path) -> None:
    other = write_jsonl(tmp_path / "d.jsonl", [{**row, "output": "x"} for row in alpaca_rows(20)])
    with pytest.raises(
        DatasetError, match=r"not as it was when it was scored: 20 rows changed.*Nothing was written"
    ):
        filter(table=finished, dataset=other, output=tmp_path / "kept.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["d.jsonl"]


def test_a_moved_dataset_is_found_where_the_user_says(model: Path, tmp_path: Path) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", alpaca_rows(6))
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet")
    moved = Path(shutil.move(dataset, tmp_path / "moved.jsonl"))
    with pytest.raises(DatasetError, match=r"no longer at .*d\.jsonl. Pass --dataset"):
        filter(table=tmp_path / "s.parquet", output=tmp_path / "kept.jsonl")
    filter(table=tmp_path / "s.parquet", dataset=moved, top_k="6", output=tmp_path / "kept.jsonl")
    assert (tmp_path / "kept.jsonl").read_bytes() == moved.read_bytes()


@pytest.mark.parametrize(
    ("top_k", "message"),
    [
        ("0", "--top-k is 0, which keeps nothing. Give a count from 1"),
        ("1.5", "--top-k is 1.5, and a share must be above 0 and at most 1"),
        ("21", "--top-k asks for 21 rows, but only 20 rows have a score"),
    ],
)
def test_impossible_counts_are_refused(top_k: str, message: str, finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        filter(table=finished, top_k=top_k, output=tmp_path / "kept.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_shard_folder_is_filtered_as_one(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    for i in range(2):
        score(model=model, dataset=dataset, output=tmp_path / "shards" / f"{i}.parquet", shard=f"{i}/2")
    filter(table=tmp_path / "shards", top_k="5", by="loss", output=tmp_path / "kept.jsonl")
    lines = dataset.read_bytes().splitlines(keepends=True)
    kept = [lines[i] for i in best(expected, 5, "loss")]
    assert (tmp_path / "kept.jsonl").read_bytes() == b"".join(kept)


def test_a_table_of_one_view_cannot_be_ranked_by_gsnr(model: Path, dataset: Path, tmp_path: Path) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", view_source="single")
    assert read(tmp_path / "s.parquet")["gsnr"].isna().all()
    with pytest.raises(GradscoreError, match=r"gsnr.*--by"):
        filter(table=tmp_path / "s.parquet", output=tmp_path / "kept.jsonl")
    filter(table=tmp_path / "s.parquet", by="loss", output=tmp_path / "kept.jsonl")
