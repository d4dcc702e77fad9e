"""Tests gradscore.model.folds: folds follow from content, and no member is shown its own."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.config import ModelConfig
from gradscore.errors import ConfigError, DatasetError
from gradscore.model.folds import fold_of, rows_of_members
from tests import cases

ROW = cases.rows()[0]
KEYS = st.lists(st.integers(0, 2**128 - 1).map(lambda n: f"{n:032x}"), min_size=1, max_size=40)


@given(KEYS, st.integers(2, 5))
def test_every_row_is_kept_from_exactly_one_member(keys: list[str], members: int) -> None:
    rows = [replace(ROW, row_key=key) for key in keys]
    if len({fold_of(key, members) for key in keys}) == 1:
        with pytest.raises(DatasetError, match="leaves a member without rows"):
            rows_of_members(rows, ModelConfig(members=members, cross_fit=True))
        return
    shown = rows_of_members(rows, ModelConfig(members=members, cross_fit=True))
    for row in rows:
        absent = [member for member in range(members) if row not in shown[member]]
        assert absent == [fold_of(row.row_key, members)]


def test_without_folds_every_member_is_shown_every_row() -> None:
    assert rows_of_members([ROW], ModelConfig(members=3)) == [[ROW]] * 3


@pytest.mark.parametrize("settings", [{"members": 1}, {"members": 2, "view_source": "dropout"}])
def test_folds_without_members_that_train_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="--cross-fit needs"):
        ModelConfig(cross_fit=True, **settings)
