"""Tests that views which share their lower layers score every row as views that run the whole model."""

from pathlib import Path

import pandas as pd
import pytest

from tests.pipeline.runs import MOMENTS, SCORES, Listener, read, score

COLUMNS = [*SCORES, *MOMENTS]


def table(model: Path, data: Path, output: Path, **options: object) -> tuple[pd.DataFrame, Listener]:
    listener = Listener()
    score(listener, model=model, dataset=data, output=output, lora_layers="last:1", **options)
    return read(output), listener


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"include_base": True, "members": 2},
        {"parameters": r"layers\.1\..*lora_B"},
        {"view_source": "single", "parameters": "last-layer"},
    ],
    ids=["lora", "base and two members", "by name", "last layer"],
)
def test_shared_layers_change_no_score(
    model: Path, dataset: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    shared, said = table(model, dataset, tmp_path / "shared.parquet", **options)
    kept, _ = table(model, dataset, tmp_path / "kept.parquet", cache_trunk=True, **options)
    whole, _ = table(model, dataset, tmp_path / "whole.parquet", engine="loop", **options)
    present = [name for name in COLUMNS if whole[name].notna().any()]
    assert len(present) >= 6
    # gsnr divides by differences of views that hardly differ, so float32 keeps fewer digits of it.
    for name in present:
        rtol = 1e-3 if name in MOMENTS else 1e-5
        for other in (shared, kept):
            pd.testing.assert_series_equal(other[name], whole[name], rtol=rtol, atol=0)
    assert any("run once per batch, since all views agree on them" in line for line in said.said)
    assert not (tmp_path / "kept.run" / "trunk").exists()


def test_dropout_draws_share_nothing(model: Path, dataset: Path, tmp_path: Path) -> None:
    _, said = table(model, dataset, tmp_path / "t.parquet", view_source="dropout", views=2)
    assert not any("run once per batch" in line for line in said.said)
