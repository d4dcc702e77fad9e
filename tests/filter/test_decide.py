"""Tests gradscore.filter.decide: who is kept, why, and what is said about doubtful choices."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscore.config import FilterConfig
from gradscore.errors import ConfigError, TableError
from gradscore.filter.decide import decide
from gradscore.filter.reasons import Decisions
from gradscore.records import ScoredRow
from gradscore.table.read import ScoreTable
from gradscore.table.schema import SCHEMA, to_arrow
from tests.table.rows import metadata, scored


def table_of(rows: list[ScoredRow], **changes: Any) -> ScoreTable:
    return ScoreTable(Path("scores.parquet"), to_arrow(rows), SCHEMA, metadata(**changes))


def gsnr_table(values: list[float | None], **changes: Any) -> ScoreTable:
    return table_of([scored(index, gsnr=value) for index, value in enumerate(values)], **changes)


def kept(decisions: Decisions) -> list[int]:
    return decisions.row_index[decisions.keep].tolist()


def test_the_best_rows_are_kept_each_with_its_reason() -> None:
    decisions = decide(gsnr_table([3.0, 1.0, 2.0, 0.11]), FilterConfig(top_k="2"))
    assert kept(decisions) == [0, 2]
    assert decisions.reasons(range(4)) == [
        "kept: rank 1 of 4, gsnr 3",
        "dropped: past --top-k 2 (rank 3 of 4, gsnr 1)",
        "kept: rank 2 of 4, gsnr 2",
        "dropped: past --top-k 2 (rank 4 of 4, gsnr 0.11)",
    ]
    assert decisions.counts() == {"kept": 2, "past_top_k": 2}
    assert (decisions.messages, decisions.warnings) == ((), ())


def test_without_any_cut_the_best_third_is_kept_and_said() -> None:
    decisions = decide(gsnr_table([float(i) for i in range(10)]), FilterConfig())
    assert kept(decisions) == [7, 8, 9]
    assert decisions.messages == ("No cut was given, so the best 0.3 of the rows are kept (--top-k 0.3).",)
    assert "past --top-k 0.3" in decisions.reason(0)


def test_a_threshold_alone_is_a_cut() -> None:
    decisions = decide(gsnr_table([0.1, 0.6, 2.0]), FilterConfig(min_gsnr=0.6))
    assert kept(decisions) == [1, 2]
    assert decisions.reason(0) == "dropped: gsnr 0.1 under --min-gsnr 0.6"
    assert decisions.messages == ()


def test_a_share_is_of_all_ranked_rows_also_beside_a_threshold() -> None:
    table = gsnr_table([float(i) for i in range(10)])
    assert kept(decide(table, FilterConfig(top_k="0.3", maximum="gsnr=6"))) == [4, 5, 6]
    few = decide(table, FilterConfig(top_k="0.3", minimum="gsnr=8"))
    assert kept(few) == [8, 9]
    assert few.messages == ("Thresholds left 2 rows, fewer than the 3 of --top-k.",)


def test_thresholds_on_several_columns_name_the_first_violated() -> None:
    rows = [scored(0, loss=9.0, grad_norm=5.0), scored(1, loss=1.0, grad_norm=5.0), scored(2, loss=1.0)]
    decisions = decide(
        table_of(rows), FilterConfig(minimum="loss=0.5, grad_norm=0.1", maximum="loss=8,grad_norm=2")
    )
    assert decisions.reasons(range(3)) == [
        "dropped: loss 9 over --maximum loss=8",
        "dropped: grad_norm 5 over --maximum grad_norm=2",
        "kept: rank 1 of 1, gsnr 0.3333",
    ]


def test_protected_rows_come_beside_the_cut_but_not_past_a_threshold() -> None:
    rows = [
        scored(i, gsnr=g, loss=loss)
        for i, (g, loss) in enumerate([(3.0, 5.0), (2.0, 4.0), (1.0, 3.0), (4.0, 99.0)])
    ]
    config = FilterConfig(by="loss", top_k="1", protect_gsnr=2.0, maximum="loss=50")
    decisions = decide(table_of(rows), config)
    assert kept(decisions) == [0, 1]
    assert decisions.reason(1) == "kept: gsnr 2 at or above --protect-gsnr 2 (rank 2 of 3)"
    assert decisions.reason(3) == "dropped: loss 99 over --maximum loss=50"
    assert decisions.messages == ("--protect-gsnr 2 keeps 1 rows past the cut.",)


def test_rows_without_a_score_are_dropped_with_their_status() -> None:
    rows = [
        scored(0),
        scored(1, status="too_long"),
        scored(2, gsnr=None),
        scored(3, status="invalid: line 4"),
    ]
    decisions = decide(table_of(rows), FilterConfig(top_k="1.0"))
    assert kept(decisions) == [0]
    assert decisions.reasons([1, 2, 3]) == [
        "dropped: status too_long",
        "dropped: no value in gsnr",
        "dropped: status invalid: line 4",
    ]
    assert decisions.rank.tolist() == [1, 0, 0, 0]
    assert np.isnan(decisions.score[1:]).all()


def test_nulls_keep_keeps_what_can_be_read_and_says_so() -> None:
    rows = [
        scored(0),
        scored(1, status="too_long"),
        scored(2, gsnr=None),
        scored(3, status="invalid: line 4"),
    ]
    decisions = decide(table_of(rows), FilterConfig(top_k="1", nulls="keep"))
    assert kept(decisions) == [0, 1, 2]
    assert decisions.reasons([1, 2]) == ["kept: status too_long", "kept: no value in gsnr"]
    assert decisions.messages == ("2 rows without a score are kept beside the others (--nulls keep).",)


@pytest.mark.parametrize(("nulls", "expected"), [("drop", [0]), ("keep", [0, 1])])
def test_a_missing_value_in_a_threshold_column_follows_nulls(nulls: Any, expected: list[int]) -> None:
    table = table_of([scored(0, gsnr=2.0), scored(1, gsnr=None)])
    decisions = decide(table, FilterConfig(by="loss", min_gsnr=1.0, nulls=nulls))
    assert kept(decisions) == expected
    if nulls == "drop":
        assert decisions.reason(1) == "dropped: no value in gsnr to compare with --min-gsnr 1"


def test_ties_break_by_row_key_then_index() -> None:
    keys = ["b" * 32, "a" * 32, "a" * 32]
    table = table_of([scored(i, gsnr=1.0, row_key=key) for i, key in enumerate(keys)])
    assert decide(table, FilterConfig(top_k="1.0")).rank.tolist() == [3, 1, 2]


def test_ascending_prefers_low_values() -> None:
    assert kept(decide(gsnr_table([3.0, 1.0, 2.0]), FilterConfig(top_k="1", ascending=True))) == [1]


def test_normalisation_ranks_within_categories() -> None:
    values = [10.0, 20.0, 30.0, 1.0, 2.0, 3.0]
    table = table_of([scored(i, gsnr=v, category="hi" if i < 3 else "lo") for i, v in enumerate(values)])
    assert kept(decide(table, FilterConfig(top_k="2"))) == [1, 2]
    for method in ("rank", "zscore", "quantile:0.75"):
        decisions = decide(table, FilterConfig(top_k="2", normalize=method))
        assert kept(decisions) == [2, 5]
        assert decisions.counts_per_category() == {
            "hi": {"kept": 1, "dropped": 2},
            "lo": {"kept": 1, "dropped": 2},
        }


def test_categories_given_replace_the_tables_own() -> None:
    table = table_of([scored(i, gsnr=float(i), category="same") for i in range(4)])
    config = FilterConfig(top_k="2", normalize="rank")
    assert kept(decide(table, config)) == [2, 3]
    assert kept(decide(table, config, categories=["x", "x", "y", "y"])) == [1, 3]


def test_a_category_that_cannot_be_scaled_is_named() -> None:
    table = table_of([scored(0, category="one")] + [scored(i, category=None) for i in range(1, 5)])
    (warning,) = decide(table, FilterConfig(normalize="quantile:0.75")).warnings
    assert warning.startswith("1 categories have one row or no positive quantile of gsnr")
    assert warning.endswith(": one.")


def test_normalising_without_categories_is_doubtful() -> None:
    (warning,) = decide(gsnr_table([1.0, 2.0]), FilterConfig(normalize="rank")).warnings
    assert "has no categories to work on" in warning


def test_a_threshold_below_the_noise_floor_is_doubtful() -> None:
    config = FilterConfig(min_gsnr=0.2, protect_gsnr=0.9)
    (warning,) = decide(gsnr_table([1.0], noise_floor=0.5), config).warnings
    assert warning.startswith("--min-gsnr 0.2 lies under the noise floor 0.5")
    assert decide(gsnr_table([1.0], noise_floor=0.1), config).warnings == ()
    unknown = decide(gsnr_table([1.0], noise_floor=None), config).warnings
    assert ["records no noise floor" in text for text in unknown] == [True, True]


def test_pairs_are_decided_by_their_chosen_side() -> None:
    rows = [
        scored(index, side=side, gsnr=gsnr)
        for index, chosen in enumerate([1.0, 2.0])
        for side, gsnr in (("chosen", chosen), ("rejected", 9.0 - chosen))
    ]
    decisions = decide(table_of(rows), FilterConfig(top_k="1"), categories=["a", "-", "b", "-"])
    assert kept(decisions) == [1]
    assert decisions.category.tolist() == ["a", "b"]
    with pytest.raises(TableError, match="holds only the rejected side"):
        decide(table_of(rows[1::2]), FilterConfig())


def test_all_mistakes_are_listed_together() -> None:
    config = FilterConfig(
        by="status", top_k="2.5", normalize="max", minimum="loss", maximum="status=3", min_gsnr=float("nan")
    )
    with pytest.raises(ConfigError) as caught:
        decide(gsnr_table([1.0]), config)
    message = str(caught.value)
    assert "--by status: this column is not numeric. Numeric columns are: row_index, n_tokens" in message
    assert "--top-k is 2.5" in message
    assert "--normalize cannot be 'max'" in message
    assert "--minimum takes column=value,column=value, such as loss=0.5, not 'loss'" in message
    assert "--maximum status=3: 'status' is not a numeric column; these are: row_index" in message
    assert "--min-gsnr must be a number, not nan" in message
    with pytest.raises(ConfigError, match="--by quality: this column is not in the table"):
        decide(gsnr_table([1.0]), FilterConfig(by="quality"))


def test_more_rows_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match="asks for 3 rows, but only 2 rows have a score"):
        decide(gsnr_table([1.0, 2.0, None]), FilterConfig(top_k="3"))


def test_a_column_without_any_value_says_which_have_some() -> None:
    with pytest.raises(ConfigError, match=r"No row has a value in gsnr.* Rank --by one of: loss, grad_norm"):
        decide(gsnr_table([None, None]), FilterConfig())
    with pytest.raises(ConfigError, match=r"None of the 1 rows .* has a score"):
        decide(table_of([scored(0, status="too_long")]), FilterConfig())


def test_an_empty_table_has_no_decisions() -> None:
    decisions = decide(table_of([]), FilterConfig())
    assert len(decisions) == 0
    assert decisions.counts() == decisions.counts_per_category() == {}


scores = st.lists(st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=10).filter(any)


@settings(deadline=None)
@given(scores, st.sampled_from(["0.3", "50%", "1", "1.0"]), st.booleans())
def test_the_kept_are_the_best_and_as_many_as_asked(values: list, top_k: str, ascending: bool) -> None:
    decisions = decide(gsnr_table(values), FilterConfig(top_k=top_k, ascending=ascending))
    ranked = [value for value in values if value is not None]
    share = {"0.3": 0.3, "50%": 0.5, "1": 0, "1.0": 1}[top_k]
    assert len(kept(decisions)) == max(1, int(share * len(ranked) + 0.5 + 1e-9))
    best = sorted(ranked, reverse=not ascending)[: len(kept(decisions))]
    assert sorted(values[i] for i in kept(decisions)) == sorted(best)


@settings(deadline=None)
@given(scores, st.randoms(use_true_random=False))
def test_the_same_rows_are_kept_in_any_order_of_the_table(values: list, random: Any) -> None:
    rows = [scored(index, gsnr=value) for index, value in enumerate(values)]
    straight = kept(decide(table_of(rows), FilterConfig()))
    random.shuffle(rows)
    assert sorted(kept(decide(table_of(rows), FilterConfig()))) == straight


@settings(deadline=None)
@given(scores, st.floats(0, 2), st.floats(0, 2))
def test_a_higher_threshold_keeps_no_new_row(values: list, one: float, other: float) -> None:
    low, high = sorted((one, other))
    loose = kept(decide(gsnr_table(values), FilterConfig(min_gsnr=low)))
    strict = kept(decide(gsnr_table(values), FilterConfig(min_gsnr=high)))
    assert set(strict) <= set(loose)
    assert loose == [i for i, value in enumerate(values) if value is not None and value >= low]


def test_a_filter_needs_no_torch() -> None:
    import subprocess

    code = "import sys, gradscore.filter.decide, gradscore.emit.dataset; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
