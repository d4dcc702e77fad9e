"""Tests gradscore.data.batch: padding on either side, and the laws of a plan of batches."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradscore.data.batch import collate, padding_share, plan_batches
from tests import cases

LENGTHS = st.lists(st.integers(1, 50), max_size=40)


@given(st.lists(st.integers(2, 12), min_size=1, max_size=5), st.sampled_from(["right", "left"]))
def test_every_row_comes_back_from_its_place(lengths: list[int], side: str) -> None:
    rows = cases.rows(tuple(lengths))
    batch = collate(rows, pad_id=63, padding_side=side)
    assert len(batch) == len(rows)
    assert batch.input_ids.shape == (len(rows), max(lengths))
    for row, ids, mask, positions, targets in zip(
        rows, batch.input_ids, batch.attention_mask, batch.position_ids, batch.target_mask, strict=True
    ):
        is_token = mask.bool()
        padding = batch.input_ids.shape[1] - row.n_tokens
        first = 0 if side == "right" else padding
        assert is_token.nonzero().flatten().tolist() == list(range(first, first + row.n_tokens))
        np.testing.assert_array_equal(ids[is_token].numpy(), row.input_ids)
        np.testing.assert_array_equal(targets[is_token].numpy(), row.target_mask)
        assert positions[is_token].tolist() == list(range(row.n_tokens))
        assert (ids[~is_token] == 63).all()
        assert not targets[~is_token].any()
    assert batch.n_target_tokens.tolist() == [row.n_target_tokens for row in rows]
    assert batch.is_right_padded == (side == "right" or len(set(lengths)) == 1)


def test_padding_on_the_left_has_positions_that_a_table_can_look_up() -> None:
    assert collate(cases.rows((5, 2)), 0, padding_side="left").position_ids[1].tolist() == [0, 0, 0, 0, 1]


def test_a_batch_of_one_row_has_no_padding() -> None:
    batch = collate(cases.rows((7,)), pad_id=0)
    assert batch.attention_mask.tolist() == [[1] * 7]
    assert batch.is_right_padded


@given(LENGTHS, st.integers(1, 200), st.none() | st.integers(1, 5))
def test_a_plan_has_every_row_once_within_both_limits(
    lengths: list[int], max_tokens: int, max_rows: int | None
) -> None:
    batches = plan_batches(lengths, max_tokens, max_rows)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[i] for i in batch)
        assert padded <= max_tokens or len(batch) == 1
        assert max_rows is None or len(batch) <= max_rows


@given(LENGTHS, st.integers(1, 200))
def test_a_plan_goes_from_long_to_short_and_ties_keep_their_order(
    lengths: list[int], max_tokens: int
) -> None:
    order = [place for batch in plan_batches(lengths, max_tokens) for place in batch]
    assert order == sorted(order, key=lambda i: (-lengths[i], i))


@given(LENGTHS, st.integers(1, 200))
def test_a_batch_is_closed_only_when_the_next_row_does_not_fit(lengths: list[int], max_tokens: int) -> None:
    batches = plan_batches(lengths, max_tokens)
    assert all(lengths[batch[0]] * (len(batch) + 1) > max_tokens for batch in batches[:-1])


def test_both_limits_can_be_reached() -> None:
    assert plan_batches([5, 5, 5, 5], max_tokens=15) == [[0, 1, 2], [3]]
    assert plan_batches([5, 5, 5, 5], max_tokens=15, max_rows=2) == [[0, 1], [2, 3]]
    assert plan_batches([20, 5], max_tokens=15) == [[0], [1]]


def test_no_rows_need_no_batches() -> None:
    assert plan_batches([], 10) == []
    assert padding_share([], []) == 0.0


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 200))
def test_padding_share_is_what_collate_pads(lengths: list[int], max_tokens: int) -> None:
    batches = plan_batches(lengths, max_tokens)
    padded = torch.cat(
        [collate(cases.rows(tuple(lengths[i] for i in b)), 0).attention_mask.flatten() for b in batches]
    )
    share = padding_share(lengths, batches)
    assert share == pytest.approx(1 - padded.double().mean().item(), abs=1e-12)
    assert 0 <= share < 1


def test_sorting_by_length_wastes_less_than_the_given_order() -> None:
    lengths = [10, 50] * 20
    given_order = [[i, i + 1] for i in range(0, 40, 2)]
    assert padding_share(lengths, given_order) == pytest.approx(0.4)
    assert padding_share(lengths, plan_batches(lengths, 100)) == 0.0


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 40))
def test_rows_beyond_a_boundary_are_never_with_others(lengths: list[int], boundary: int) -> None:
    plan = plan_batches(lengths, 100, boundary=boundary)
    assert sorted(place for batch in plan for place in batch) == list(range(len(lengths)))
    for batch in plan:
        assert len({lengths[place] > boundary for place in batch}) == 1
