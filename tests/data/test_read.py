"""Opening datasets of every format, and reading the chosen rows."""

import csv
import gzip
import json
import subprocess
import sys

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradscore.config import DataConfig
from gradscore.data.read import open_source, read_rows
from gradscore.errors import DatasetError

ROWS = [{"instruction": f"say {i}", "output": f"ä {i}\n{'x' * i}", "meta": f"m{i % 2}"} for i in range(7)]


def write(folder, name, rows=ROWS):
    path = folder / name
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if ".json" in path.suffixes:
        text = json.dumps(rows, indent=1)
    opener = gzip.open if name.endswith(".gz") else open
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ".csv" in name or ".tsv" in name:
        with opener(path, "wt", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if ".tsv" in name else ",")
            writer.writerows([list(rows[0]), *[list(row.values()) for row in rows]])
    else:
        with opener(path, "wt", encoding="utf-8") as file:
            file.write(text)
    return path


def rows_of(path, **options):
    config = DataConfig(dataset=str(path), **options)
    return list(read_rows(open_source(config), config))


NAMES = ["a.jsonl", "a.ndjson", "a.json", "a.parquet", "a.csv", "a.tsv"]


@pytest.mark.parametrize("name", [*NAMES, *[f"{name}.gz" for name in NAMES if name != "a.parquet"]])
def test_every_format_gives_the_same_rows_and_keys(tmp_path, name):
    path = write(tmp_path, name)
    source = open_source(DataConfig(dataset=str(path)))
    expected = rows_of(write(tmp_path, "reference.jsonl"))
    assert [(r.row_index, r.row_key, r.content) for r in source.rows()] == [
        (r.row_index, r.row_key, r.content) for r in expected
    ]
    assert list(source.rows()) == list(source.rows())
    assert source.record.dataset == str(path)
    assert source.record.columns == ("instruction", "output", "meta")
    assert source.record.n_rows == len(ROWS)
    assert source.record.format == name.split(".")[1].replace("ndjson", "jsonl")


def test_raw_bytes_are_those_of_the_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text" : "a"}\r\n\r\n{"text":"b"}')
    assert [row.raw for row in rows_of(path)] == [b'{"text" : "a"}', b'{"text":"b"}']
    assert [row.row_index for row in rows_of(path)] == [0, 1]
    assert all(row.raw is None for row in rows_of(write(tmp_path, "a.csv")))


def test_json_lines_in_a_json_file_are_recognised(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    assert open_source(DataConfig(dataset=str(path))).record.format == "jsonl"
    assert len(rows_of(path)) == 2


def test_broken_line_stops_with_its_place_or_is_recorded(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": \n{"text": "c"}\n')
    with pytest.raises(DatasetError, match=r"line 3 column 10: broken JSON.*--skip-bad-rows"):
        rows_of(path)
    good, bad, last = rows_of(path, skip_bad_rows=True)
    assert (bad.row_index, bad.raw, dict(bad.content)) == (1, b'{"text": ', {})
    assert bad.problem == "line 3 column 10: broken JSON (Expecting value)"
    assert (good.row_index, last.row_index, last.content) == (0, 2, {"text": "c"})


def test_broken_first_line_does_not_hide_the_columns(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": \n{"text": "c"}\n')
    assert open_source(DataConfig(dataset=str(path), skip_bad_rows=True)).record.columns == ("text",)
    with pytest.raises(DatasetError, match="line 1 column 10"):
        open_source(DataConfig(dataset=str(path)))


def test_wrong_number_of_csv_fields_stops_or_is_recorded(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("q,a\n1,2\n3\n")
    with pytest.raises(DatasetError, match="line 3: 1 fields, but the header has 2"):
        rows_of(path)
    assert [row.problem is None for row in rows_of(path, skip_bad_rows=True)] == [True, False]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", ""),
        ("a.jsonl", "\n \n"),
        ("a.json", "[]"),
        ("a.json", ""),
        ("a.csv", ""),
        ("a.csv", "q,a\n"),
    ],
)
def test_empty_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(DatasetError, match=r"has no rows. Check that it is the file you meant"):
        rows_of(tmp_path / name)


def test_missing_file_names_its_neighbours(tmp_path):
    write(tmp_path, "train.jsonl")
    with pytest.raises(
        DatasetError, match=r"There is no file .*trian.jsonl; similar names there: train.jsonl"
    ):
        rows_of(tmp_path / "trian.jsonl")
    with pytest.raises(DatasetError, match="There is no file nowhere/at/all; nothing there"):
        rows_of("nowhere/at/all")
    with pytest.raises(DatasetError, match=r"No dataset was given. Pass --dataset"):
        open_source(DataConfig())


@pytest.mark.parametrize("name", ["a.txt", "a", "a.parquet.gz"])
def test_unknown_suffix_lists_the_known(tmp_path, name):
    (tmp_path / name).write_text("x")
    with pytest.raises(DatasetError, match=r"cannot be told from its suffix. Known are: .jsonl"):
        rows_of(tmp_path / name)


def test_files_that_are_not_what_their_name_says(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(DatasetError, match="is no readable Parquet file"):
        rows_of(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl.gz").write_text('{"text": "not compressed"}')
    with pytest.raises(DatasetError, match="cannot be read: Not a gzipped file"):
        rows_of(tmp_path / "a.jsonl.gz")
    whole = gzip.compress(b'{"text": "abc"}\n' * 1000)
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match="cannot be read: Compressed file ended"):
        rows_of(tmp_path / "cut.jsonl.gz")


def test_saved_dataset_with_and_without_splits(tmp_path):
    dataset = datasets.Dataset.from_list(ROWS)
    dataset.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"test": dataset}).save_to_disk(str(tmp_path / "dict"))
    keys = [row.row_key for row in rows_of(write(tmp_path, "a.jsonl"))]
    assert [row.row_key for row in rows_of(tmp_path / "one")] == keys
    assert [row.row_key for row in rows_of(tmp_path / "dict", split="test")] == keys
    assert open_source(DataConfig(dataset=str(tmp_path / "one"))).record.format == "saved"
    with pytest.raises(DatasetError, match=r"has no split 'train'; its splits are: test. Pass one"):
        rows_of(tmp_path / "dict")


def test_folder_of_files(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", "part-0.jsonl", ROWS[:3])
    write(tmp_path / "data", "part-1.jsonl", ROWS[3:])
    rows = rows_of(tmp_path / "data", data_files="part-1.jsonl")
    assert [row.content for row in rows] == ROWS[3:]
    with pytest.raises(DatasetError, match=r"data files 'absent-\*'\) could not be loaded"):
        rows_of(tmp_path / "data", data_files="absent-*")


def test_unreachable_hub_dataset_says_what_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        DatasetError, match=r"'no-one/nothing' \(split 'train'.*could not be loaded.*--dataset|network"
    ):
        rows_of("no-one/nothing")


def test_category_by_dotted_path_and_where_it_is_absent(tmp_path):
    rows = [
        {"text": "a", "meta": {"topic": "x"}},
        {"text": "b", "meta": {}},
        {"text": "c"},
        {"text": "d", "meta": {"topic": None}},
        {"text": "e", "meta": {"topic": ""}},
        {"text": "f", "meta": {"topic": 3}},
    ]
    path = write(tmp_path, "a.jsonl", rows)
    found = [row.category for row in rows_of(path, category_field="meta.topic")]
    assert found == ["x", None, None, None, None, "3"]
    assert all(row.category is None for row in rows_of(path))


def test_category_field_that_is_nowhere_lists_the_columns(tmp_path):
    path = write(tmp_path, "a.jsonl")
    with pytest.raises(
        DatasetError, match=r"'topic' is in no row of .*columns are: instruction, output, meta"
    ):
        rows_of(path, category_field="topic")


def test_chosen_rows_keep_their_index(tmp_path):
    path = write(tmp_path, "a.jsonl")
    assert [row.row_index for row in rows_of(path, limit=5, shard="1/2")] == [1, 3]
    assert len(rows_of(path, sample=3)) == 3


def test_limit_stops_reading_before_a_broken_row(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\nbroken\n')
    assert len(rows_of(path, limit=1)) == 1


def test_rows_are_streamed(tmp_path):
    source = open_source(DataConfig(dataset=str(write(tmp_path, "a.jsonl"))))
    assert next(source.rows()).row_index == 0
    # A pass that was given up does not disturb the next one.
    assert len(list(source.rows())) == len(ROWS)


def test_row_nested_too_deeply_is_a_problem_not_a_crash(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": ' + "[" * 800 + "]" * 800 + "}\n")
    with pytest.raises(DatasetError, match=r"row 1 is nested too deeply|line 2: JSON that cannot be read"):
        rows_of(path)
    good, bad = rows_of(path, skip_bad_rows=True)
    assert good.problem is None
    assert bad.problem is not None
    assert not bad.content


def test_reading_needs_no_torch():
    code = "import sys, gradscore.data.read; sys.exit('torch' in sys.modules or 'datasets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
