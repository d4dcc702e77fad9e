"""Tests gradscore.report.profile: what a profile holds, how it is kept, and when another one has left its range."""

import json
from pathlib import Path

import numpy as np
import pytest

from gradscore.errors import TableError
from gradscore.report.profile import (
    MEASURES,
    Profile,
    departures,
    layer_ratio,
    load_profile,
    profile_of,
    save_profile,
)
from gradscore.table.read import read_table
from tests.report.tables import make_table
from tests.table.rows import scored, write_table


def test_a_profile_has_every_measure_that_the_table_can_give(tmp_path: Path) -> None:
    profile = profile_of(read_table(make_table(tmp_path)))
    missing = {name for name, value in profile.values.items() if value is None}
    assert set(profile.values) == {measure.name for measure in MEASURES}
    assert missing <= {"consistency_mean"}
    assert profile.values["gsnr_median"] == 20.5
    assert profile.values["gsnr_over_floor"] == 41.0
    assert profile.values["duplicate_share"] == 0.0


def test_copies_of_one_row_are_repeated_and_point_the_same_way(tmp_path: Path) -> None:
    rows = [scored(i, row_key="0" * 32, sketch=(1.0, 2.0, 3.0)) for i in range(8)]
    values = profile_of(read_table(write_table(tmp_path / "s.parquet", rows))).values
    assert values["duplicate_share"] == 7 / 8
    assert values["pair_cosine_share_high"] == 1.0


def test_without_sketch_and_layers_nothing_is_made_up(tmp_path: Path) -> None:
    rows = [scored(i) for i in range(8)]
    values = profile_of(read_table(write_table(tmp_path / "s.parquet", rows))).values
    assert values["pair_cosine_mean"] is None
    assert values["layers_middle"] is None


def test_layer_ratio_is_over_the_bottom_third() -> None:
    assert layer_ratio(np.array([1.0, 1.0, 3.0, 3.0, 2.0, 2.0])) == pytest.approx((3.0, 2.0))
    assert layer_ratio(np.array([1.0, 3.0])) is None
    assert layer_ratio(np.array([0.0, 3.0, 1.0])) is None


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    profile = profile_of(read_table(make_table(tmp_path)))
    save_profile(profile, tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile


def test_a_file_that_is_no_profile_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        load_profile(tmp_path / "none.json")
    (tmp_path / "p.json").write_text(json.dumps({"format": "other", "format_version": 1}))
    with pytest.raises(TableError, match=r"is not a profile .*--save-profile"):
        load_profile(tmp_path / "p.json")
    save_profile(Profile({}, {}), tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text())
    (tmp_path / "new.json").write_text(json.dumps({**content, "format_version": 99}))
    with pytest.raises(TableError, match=r"has format 99; .* Install a newer gradscore"):
        load_profile(tmp_path / "new.json")


def test_departures_name_what_left_the_range_and_skip_what_is_unknown() -> None:
    reference = Profile({"norm_median": 1.0, "pair_cosine_mean": 0.1, "loss_median": None}, {})
    same = Profile({"norm_median": 1.9, "pair_cosine_mean": 0.2, "loss_median": 9.0}, {})
    other = Profile({"norm_median": 2.1, "pair_cosine_mean": 0.6, "loss_median": 9.0}, {})
    assert departures(reference, reference) == departures(same, reference) == []
    found = {departure.name: departure for departure in departures(other, reference)}
    assert set(found) == {"norm_median", "pair_cosine_mean"}
    assert found["norm_median"].allowed == (0.5, 2.0)
    assert found["pair_cosine_mean"].allowed == pytest.approx((-0.05, 0.25))
