"""Tests demo/findings.py: planted faults are counted, and chance is computed exactly."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradscore.demo.dataset import FAULTS, DemoRow
from gradscore.demo.findings import chance_of_as_many, findings


def rows_of(*faults: str | None) -> list[DemoRow]:
    return [DemoRow("question", "", "answer", "facts", fault) for fault in faults]


def test_each_kind_is_counted() -> None:
    rows = rows_of("swapped", None, "swapped", "refusal", None)
    counted = {finding.kind: (finding.planted, finding.dropped) for finding in findings(rows, [0, 1, 3])}
    assert counted == {
        "swapped": (2, 1),
        "truncated": (0, 0),
        "word_salad": (0, 0),
        "refusal": (1, 1),
        "duplicate": (0, 0),
        "all faults": (3, 2),
        "sound rows": (2, 1),
    }


def test_a_kind_without_rows_has_no_share() -> None:
    shares = {finding.kind: finding.share for finding in findings(rows_of("swapped", None), [0])}
    assert shares["swapped"] == 1
    assert shares["sound rows"] == 0
    assert shares["refusal"] is None


def test_no_rows_at_all() -> None:
    assert [finding.planted for finding in findings([], [])] == [0] * (len(FAULTS) + 2)


def test_chance_agrees_with_trying_every_draw() -> None:
    draws = list(combinations(range(7), 3))
    for n_found in range(4):
        hits = sum(len({0, 1, 2, 3} & set(draw)) >= n_found for draw in draws)
        assert chance_of_as_many(7, 4, 3, n_found) == pytest.approx(hits / len(draws), rel=1e-12)


@given(n_rows=st.integers(1, 60), data=st.data())
def test_chance_falls_as_more_is_found(n_rows: int, data: st.DataObject) -> None:
    n_faulty, n_dropped = (data.draw(st.integers(0, n_rows)) for _ in range(2))
    chances = [chance_of_as_many(n_rows, n_faulty, n_dropped, found) for found in range(n_dropped + 1)]
    assert chances[0] == 1
    assert chances == sorted(chances, reverse=True)
