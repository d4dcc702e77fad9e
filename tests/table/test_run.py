"""Tests gradscore.table.run: a run folder is new, continued, or refused with what differs."""

import errno
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from gradscore.errors import StorageError, TableError
from gradscore.table.run import RunFolder, identity_differences, require_free, run_folder_path
from tests.table.rows import IDENTITY, scored, write_table

OTHER = {"model": {"name": "tiny", "lora_rank": 16}, "data": {"shard": None}}


@pytest.fixture(autouse=True)
def known_part_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscore.table.parts.secrets.token_hex", lambda n: "0000")


def open_run(output: Path, identity: Any = IDENTITY, **options: Any) -> RunFolder:
    return RunFolder.open(output, identity, config_mapping={"data": {"limit": 3}}, **options)


def test_the_folder_lies_beside_the_output() -> None:
    assert run_folder_path(Path("a/scores.parquet")) == Path("a/scores.run")
    assert run_folder_path(Path("a/scores")) == Path("a/scores.run")
    assert run_folder_path(Path("a/scores.v2")) == Path("a/scores.v2.run")


def test_a_new_run_saves_its_config_and_identity(tmp_path: Path) -> None:
    run = open_run(tmp_path / "deep" / "scores.parquet", {"model": {"targets": ("q", "v")}})
    assert not run.is_resumed
    assert yaml.safe_load((run.path / "config.yaml").read_text()) == {"data": {"limit": 3}}
    assert json.loads((run.path / "run.json").read_text()) == {"model": {"targets": ["q", "v"]}}
    assert run.parts.is_dir()
    assert run.views.is_dir()


def test_the_same_identity_continues_with_parts_and_views(tmp_path: Path) -> None:
    identity = {"targets": ("q", "v")}
    first = open_run(tmp_path / "s.parquet", identity)
    (first.parts / "part-000000-0000.parquet").touch()
    (first.views / "view").touch()
    second = open_run(tmp_path / "s.parquet", identity)
    assert second.is_resumed
    assert (second.parts / "part-000000-0000.parquet").exists()
    anew = open_run(tmp_path / "s.parquet", identity, resume=False)
    assert list(anew.parts.iterdir()) == []
    assert (anew.views / "view").exists()


def test_another_identity_is_refused_with_every_difference(tmp_path: Path) -> None:
    run = open_run(tmp_path / "s.parquet", {"model": {"name": "a", "rank": 8}, "seed": 1, "old": True})
    (run.parts / "part-000000-0000.parquet").touch()
    with pytest.raises(TableError) as caught:
        open_run(tmp_path / "s.parquet", {"model": {"name": "b", "rank": 8}, "seed": 2, "new": None})
    message = str(caught.value)
    assert '  - model.name: "a" before, "b" now\n' in message
    assert "  - seed: 1 before, 2 now\n" in message
    assert "  - new: (absent) before, null now\n" in message
    assert "  - old: true before, (absent) now\n" in message
    assert "rank" not in message
    assert "--overwrite" in message
    assert "--output" in message


@pytest.mark.parametrize(("folder", "is_work"), [("member-0", True), ("member-0.partial", False)])
def test_a_run_without_rows_or_views_is_not_in_the_way(tmp_path: Path, folder: str, is_work: bool) -> None:
    run = open_run(tmp_path / "s.parquet", IDENTITY)
    (run.views / folder).mkdir()
    (run.views / "views.json").touch()
    if is_work:
        with pytest.raises(TableError, match="holds a run with other settings"):
            open_run(tmp_path / "s.parquet", OTHER)
    else:
        other = open_run(tmp_path / "s.parquet", OTHER)
        assert not other.is_resumed
        assert list(other.views.iterdir()) == []


def test_overwrite_drops_parts_and_views_of_another_identity(tmp_path: Path) -> None:
    first = open_run(tmp_path / "s.parquet")
    (first.parts / "part-000000-0000.parquet").touch()
    (first.views / "view").touch()
    second = open_run(tmp_path / "s.parquet", OTHER, overwrite=True)
    assert not second.is_resumed
    assert list(second.parts.iterdir()) == list(second.views.iterdir()) == []


@pytest.mark.parametrize("name", ["scores.parquet", "scores"])
def test_a_finished_table_is_refused_and_survives_until_it_is_replaced(tmp_path: Path, name: str) -> None:
    output = write_table(tmp_path / name, [scored(0)])
    with pytest.raises(TableError, match=r"finished score table is already at .* --overwrite"):
        open_run(output)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet") if path.is_file()}
    open_run(output, OTHER, overwrite=True)
    assert {path: path.read_bytes() for path in before} == before


def test_foreign_files_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(TableError, match=r"is not a finished score table, so it is never replaced"):
        open_run(tmp_path / "home", overwrite=True)
    (tmp_path / "x.run").mkdir()
    (tmp_path / "x.run" / "thesis.tex").touch()
    with pytest.raises(TableError, match=r"holds files of another kind and no run\.json"):
        open_run(tmp_path / "x.parquet", overwrite=True)
    (tmp_path / "plain").touch()
    with pytest.raises(TableError, match=r"is a file, but an output without the ending \.parquet"):
        open_run(tmp_path / "plain", overwrite=True)


def test_an_empty_output_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir()
    assert not open_run(tmp_path / "scores").is_resumed


def test_a_broken_identity_says_how_to_start_anew(tmp_path: Path) -> None:
    run = open_run(tmp_path / "s.parquet")
    (run.path / "run.json").write_text("{")
    with pytest.raises(TableError, match=r"run\.json is not the identity .* Delete the folder"):
        open_run(tmp_path / "s.parquet")


def test_a_full_disk_says_that_earlier_results_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_run(tmp_path / "s.parquet")

    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(
        StorageError, match=r"config\.yaml .*full.* earlier results are untouched\. Free some"
    ):
        open_run(tmp_path / "s.parquet")


def test_equal_identities_have_no_differences() -> None:
    assert identity_differences(IDENTITY, json.loads(json.dumps(IDENTITY))) == []
    assert identity_differences({"a": {}}, {"a": {}}) == []
    assert identity_differences({"a": {}}, {"a": {"b": 1}}) == [
        "a: {} before, (absent) now",
        "a.b: (absent) before, 1 now",
    ]


def test_a_parquet_file_that_is_no_score_table_is_never_replaced(tmp_path: Path) -> None:
    """Overwriting once replaced the very dataset that was to be scored."""
    dataset = tmp_path / "data.parquet"
    pq.write_table(pa.table({"instruction": ["a"], "output": ["b"]}), dataset)
    with pytest.raises(TableError, match="exists and is not a score table, so it is never replaced"):
        require_free(dataset, overwrite=True)


@pytest.mark.parametrize("name", ["scores.csv", "scores.jsonl", "scores.run"])
def test_the_name_of_another_kind_of_file_is_no_folder_of_parts(tmp_path: Path, name: str) -> None:
    with pytest.raises(TableError, match="a score table is Parquet"):
        require_free(tmp_path / name, overwrite=False)
