"""Tests gradscore.emit.outputs: file names by suffix, and refusals before any work."""

from pathlib import Path

import pytest

from gradscore.config import EmitConfig
from gradscore.emit.outputs import plan_outputs
from gradscore.errors import ConfigError, StorageError
from gradscore.records import SourceRecord

SOURCE = SourceRecord("rows.jsonl", "jsonl", ("text",), 3)


@pytest.mark.parametrize(
    ("name", "format", "dropped", "manifest"),
    [
        ("kept.jsonl", "jsonl", "kept.dropped.parquet", "kept.manifest.json"),
        ("kept.v2.json.gz", "json", "kept.v2.dropped.parquet", "kept.v2.manifest.json"),
        ("kept.PARQUET", "parquet", "kept.dropped.parquet", "kept.manifest.json"),
        ("kept.tsv.gz", "tsv", "kept.dropped.parquet", "kept.manifest.json"),
    ],
)
def test_the_suffix_gives_the_format_and_the_stem_the_other_names(
    tmp_path: Path, name: str, format: str, dropped: str, manifest: str
) -> None:
    outputs = plan_outputs(EmitConfig(output=str(tmp_path / "new" / name)), SOURCE, Path("scores.parquet"))
    assert (outputs.format, outputs.is_gzipped) == (format, name.endswith(".gz"))
    assert (outputs.dropped.name, outputs.manifest.name) == (dropped, manifest)
    assert outputs.kept.parent.is_dir()


@pytest.mark.parametrize("name", ["kept", "kept.txt", "kept.gz", "kept.parquet.gz", "kept.jsonl.zip"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"names no format .*\.jsonl, \.json, \.parquet, \.csv, \.tsv"):
        plan_outputs(EmitConfig(output=str(tmp_path / name)), SOURCE, Path("scores.parquet"))


def test_no_output_is_refused() -> None:
    with pytest.raises(ConfigError, match="No output was given"):
        plan_outputs(EmitConfig(), SOURCE, Path("scores.parquet"))


@pytest.mark.parametrize("name", ["kept.jsonl", "kept.dropped.parquet", "kept.manifest.json"])
def test_existing_results_need_overwrite(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(StorageError, match=rf"already there: .*{name}\. Pass --overwrite"):
        plan_outputs(EmitConfig(output=str(tmp_path / "kept.jsonl")), SOURCE, Path("scores.parquet"))
    plan_outputs(
        EmitConfig(output=str(tmp_path / "kept.jsonl"), overwrite=True), SOURCE, Path("scores.parquet")
    )


def test_the_source_itself_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    source = SourceRecord(str(path), "jsonl", (), 0)
    with pytest.raises(ConfigError, match="is the dataset that is filtered, which is never replaced"):
        plan_outputs(
            EmitConfig(output=str(tmp_path / "." / "rows.jsonl"), overwrite=True),
            source,
            Path("scores.parquet"),
        )


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot be made: .* Give --output another place"):
        plan_outputs(EmitConfig(output=str(tmp_path / "file" / "kept.jsonl")), SOURCE, Path("scores.parquet"))


@pytest.mark.parametrize("name", ["scores.parquet", "scores/kept.jsonl"])
def test_the_score_table_is_never_replaced_nor_added_to(tmp_path: Path, name: str) -> None:
    table = tmp_path / Path(name).parts[0]
    with pytest.raises(ConfigError, match=r"would replace the score table .*, or lie in its folder"):
        plan_outputs(EmitConfig(output=str(tmp_path / name), overwrite=True), SOURCE, table)
