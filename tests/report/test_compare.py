"""Tests gradscore.report.compare and its page: what is written, and a profile that was left is put into words."""

from pathlib import Path

import pytest

from gradscore.errors import ConfigError, StorageError
from gradscore.report.compare import (
    CompareOptions,
    ProfileComparison,
    TableComparison,
    compare,
    sentences,
    verdict,
)
from gradscore.report.profile import Departure, Profile, profile_of, save_profile
from gradscore.table.read import read_table
from tests.report.tables import make_table
from tests.table.rows import scored, write_table


@pytest.mark.parametrize(("name", "start"), [("c.html", b"<!DOCTYPE html>"), ("c.png", b"\x89PNG")])
def test_page_and_picture_of_two_tables(tmp_path: Path, name: str, start: bytes) -> None:
    table = str(make_table(tmp_path))
    options = CompareOptions(table, table, output=str(tmp_path / name))
    found = compare(options)
    assert isinstance(found, TableComparison)
    assert found.by == "gsnr"
    assert found.movers == ()  # it is one table twice; five rows that had not moved were called the farthest
    content = (tmp_path / name).read_bytes()
    assert content.startswith(start)
    assert b"<img src=x" not in content
    with pytest.raises(StorageError, match="already there"):
        compare(options)


def test_a_sentence_says_whether_both_keep_the_same_rows(tmp_path: Path) -> None:
    rows = [scored(i, gsnr=float(i)) for i in range(40)]
    shifted = [scored(i, gsnr=float((i + 4) % 40)) for i in range(40)]
    reverse = [scored(i, gsnr=float(-i)) for i in range(40)]
    tables = [
        str(write_table(tmp_path / f"{name}.parquet", some))
        for name, some in (("a", rows), ("b", shifted), ("c", reverse))
    ]
    said = [verdict(compare(CompareOptions(tables[0], other))) for other in tables]
    assert said == [
        "By gsnr both keep nearly the same rows: 100% of the top 12 are shared, 30% would be by chance.",
        "By gsnr both keep partly the same rows: 67% of the top 12 are shared, 30% would be by chance.",
        "By gsnr both keep mostly different rows: 0% of the top 12 are shared, 30% would be by chance.",
    ]


def test_the_top_is_the_end_that_a_column_calls_better(tmp_path: Path) -> None:
    lowest_differ = [float(i) if i >= 12 else float(11 - i) for i in range(40)]
    tables = [
        str(
            write_table(
                tmp_path / f"{name}.parquet", [scored(i, loss=value) for i, value in enumerate(values)]
            )
        )
        for name, values in (("a", [float(i) for i in range(40)]), ("b", lowest_differ))
    ]
    found = compare(CompareOptions(*tables, by="loss", top_k=0.1))
    assert isinstance(found, TableComparison)
    (loss,) = [column for column in found.agreement.columns if column.name == "loss"]
    assert (loss.k, loss.shared) == (4, 0.0), "low losses are the better ones, and these were reversed"


def test_a_table_has_not_left_its_own_profile(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    save_profile(profile_of(read_table(table)), tmp_path / "p.json")
    found = compare(CompareOptions(str(table), str(tmp_path / "p.json")))
    assert isinstance(found, ProfileComparison)
    assert found.departures == ()
    assert found.n_compared > 10


def test_departures_are_put_into_words() -> None:
    departures = (
        Departure("norm_median", 4.0, 1.0, (0.5, 2.0)),
        Departure("length_median", 10.0, 50.0, (25.0, 100.0)),
        Departure("pair_cosine_mean", 0.6, 0.1, (-0.05, 0.25)),
        Departure("duplicate_share", 0.2, 0.0, (0.0, 0.05)),
    )
    nothing = Profile({}, {})
    assert sentences(ProfileComparison(nothing, nothing, departures, 4)) == [
        "median gradient norm: 4, 4 times the reference (healthy from 0.5 to 2)",
        "median target tokens: 10, 1/5 of the reference (healthy from 25 to 100)",
        "mean pair cosine: 0.6, +0.50 from the reference (healthy from -0.05 to 0.25)",
        "share of repeated rows: 20.0%, in the reference 0.0% (healthy up to 5.0%)",
    ]


def test_all_mistakes_are_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        compare(CompareOptions("a.parquet", "p.json", top_k=0.0, output="x.pdf"))
    assert len(caught.value.mistakes) == 3
