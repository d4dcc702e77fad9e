"""Tests gradscore.table.alignment: leave-one-out cosines against definitions, whatever the pieces and parts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from gradscore.gradients.sketch import CountSketch
from gradscore.records import ScoredRow, SilentReporter
from gradscore.table import alignment as alignment_module
from gradscore.table import merge
from gradscore.table.alignment import BY_CATEGORY, OVERALL, Alignment
from gradscore.table.parts import PartWriter
from gradscore.table.run import RunFolder
from gradscore.table.schema import to_arrow
from tests.table.rows import IDENTITY, metadata, scored

BOTH = (OVERALL, BY_CATEGORY)
SKETCHES = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float16)
CATEGORIES = ["a", "b", "a", None, "b", "c", "a", "b", "a"]


def rows(missing: int | None = 7) -> list[ScoredRow]:
    return [
        scored(i, category=category, sketch=None if i == missing else tuple(sketch.tolist()))
        for i, (sketch, category) in enumerate(zip(SKETCHES, CATEGORIES, strict=True))
    ]


def left_out(sketches: np.ndarray, i: int, among: list[int]) -> float | None:
    """Return the cosine of row i with the mean of the others, as it is written."""
    others = [j for j in among if j != i]
    if i not in among or not others:
        return None
    mean = np.mean(sketches[others].astype(np.float64), axis=0)
    return float(
        sketches[i].astype(np.float64)
        @ mean
        / np.linalg.norm(sketches[i].astype(np.float64))
        / np.linalg.norm(mean)
    )


def expected(name: str) -> list[float]:
    there = [i for i in range(9) if i != 7]
    if name == OVERALL:
        return [left_out(SKETCHES, i, there) for i in range(9)]
    same = [[j for j in there if CATEGORIES[j] == c and c is not None] for c in CATEGORIES]
    return [left_out(SKETCHES, i, among) for i, among in enumerate(same)]


def assert_as_expected(table: pd.DataFrame) -> None:
    for name in BOTH:
        np.testing.assert_allclose(table[name], np.array(expected(name), dtype=float), rtol=1e-12)


@pytest.mark.parametrize("rows_at_a_time", [1, 2, 4096])
def test_cosines_equal_the_definition_whatever_the_pieces(
    rows_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_module, "ROWS_AT_A_TIME", rows_at_a_time)
    tables = [to_arrow(rows()[:4], BOTH), to_arrow(rows()[4:], BOTH)]
    alignment = Alignment.of(tables, BOTH)
    assert_as_expected(pd.concat([alignment.fill(table).to_pandas() for table in tables]))


def test_nothing_is_summed_or_filled_where_it_was_not_asked_for() -> None:
    table = to_arrow(rows(), ["el2n"])
    assert Alignment.of(iter([table]), ["el2n"]).fill(table) is table
    only = Alignment.of([to_arrow(rows(), [OVERALL])], [OVERALL])
    assert OVERALL in only.fill(to_arrow(rows(), [OVERALL])).to_pandas().dropna(subset=[OVERALL])


def test_a_row_alone_or_without_a_gradient_has_none() -> None:
    one = [scored(0, sketch=(1.0, 2.0))]
    assert Alignment.of([to_arrow(one, BOTH)], BOTH).fill(to_arrow(one, BOTH))[OVERALL].to_pylist() == [None]
    zero = [scored(0, sketch=(0.0, 0.0)), scored(1, sketch=(1.0, 0.0)), scored(2, sketch=(2.0, 0.0))]
    filled = Alignment.of([to_arrow(zero, BOTH)], BOTH).fill(to_arrow(zero, BOTH))
    assert filled[OVERALL].to_pylist() == [None, 1.0, 1.0]
    nothing = [scored(0)]
    filled = Alignment.of([to_arrow(nothing, BOTH)], BOTH).fill(to_arrow(nothing, BOTH))
    assert filled[OVERALL].to_pylist() == [None]


@pytest.mark.parametrize("output", ["s.parquet", "s"])
@pytest.mark.parametrize("per_bucket", [2, 50_000])
def test_the_join_fills_it_in_over_the_wanted_rows_alone(
    output: str, per_bucket: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "ROWS_PER_BUCKET", per_bucket)
    writer = PartWriter(
        RunFolder.open(tmp_path / output, IDENTITY, config_mapping={}), SilentReporter(), measures=BOTH
    )
    for row in reversed(rows()):
        writer.add([row])
        writer.flush()
    writer.add([scored(20, sketch=(9.0,) * 6, category="a")])  # of an earlier call that covered more rows
    path = writer.finish(metadata(), {(i, None) for i in range(9)})
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    assert_as_expected(pd.concat([pd.read_parquet(file) for file in files]))


def test_the_error_of_a_sketch_is_about_one_over_the_root_of_its_length() -> None:
    generator = torch.Generator().manual_seed(1)
    gradients = torch.randn(40, 5000, generator=generator, dtype=torch.float64)
    gradients += 0.5 * torch.randn(5000, generator=generator, dtype=torch.float64)
    exact = [left_out(gradients.numpy(), i, list(range(40))) for i in range(40)]
    errors = []
    for seed in range(5):
        sketches = CountSketch(256, seed).of(("w",), (gradients,)).numpy()
        table = to_arrow([scored(i, sketch=tuple(s.tolist())) for i, s in enumerate(sketches)], [OVERALL])
        found = Alignment.of([table], [OVERALL]).fill(table)[OVERALL].to_numpy()
        errors.append(np.sqrt(np.mean((found - exact) ** 2)))
    assert 0.3 / np.sqrt(256) < np.mean(errors) < 1.5 / np.sqrt(256)
