"""Which rows --limit, --sample and --shard choose."""

from hypothesis import given
from hypothesis import strategies as st

from gradscore.config import DataConfig
from gradscore.data.select import choose

ROWS = st.integers(1, 60)
COUNT = st.none() | st.integers(1, 80)


def chosen(n_rows, **options):
    choice = choose(n_rows, DataConfig(**options))
    indices = [index for index in range(n_rows) if choice.has(index)]
    assert all(index <= choice.last for index in indices)
    return indices


@given(ROWS, COUNT, COUNT, st.integers(0, 5))
def test_limit_then_sample(n_rows, limit, sample, seed):
    n_first = min(n_rows, limit or n_rows)
    indices = chosen(n_rows, limit=limit, sample=sample, seed=seed)
    assert len(indices) == min(n_first, sample or n_first)
    assert all(index < n_first for index in indices)
    assert indices == chosen(n_rows, limit=limit, sample=sample, seed=seed)


@given(ROWS, COUNT, st.integers(1, 5))
def test_shards_are_disjoint_and_together_the_whole(n_rows, sample, n_shards):
    parts = [chosen(n_rows, sample=sample, shard=f"{i}/{n_shards}") for i in range(n_shards)]
    assert sorted(index for part in parts for index in part) == chosen(n_rows, sample=sample)
    assert all(index % n_shards == i for i, part in enumerate(parts) for index in part)


def test_seeds_draw_different_rows():
    assert chosen(1000, sample=10, seed=0) != chosen(1000, sample=10, seed=1)


def test_a_drawn_sample_stays_the_same_over_versions():
    # Made by: random.Random(0).sample(range(1000), 3), whose algorithm Python keeps stable.
    assert chosen(1000, sample=3, seed=0) == [394, 776, 864]
