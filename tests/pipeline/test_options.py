"""Tests what changes a gradient before it is scored, end to end: counted parameters, scales, clip, stride, dtype."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gradscore.scores.sweep import Sweep
from tests.pipeline.runs import MOMENTS, SCORES, Listener, assert_same_scores, read, score
from tests.pipeline.test_score import metadata


@pytest.mark.parametrize(
    ("parameters", "layers", "n_parameters"),
    [
        ("linear", ["layer 0", "layer 1"], 14),
        ("ffn", ["layer 0", "layer 1"], 6),
        ("last-layer", ["layer 1"], 9),
        (r"layers\.0\..*q_proj.*weight$", ["layer 0"], 3),  # the weight itself, A and B
    ],
)
def test_counted_parameters(
    parameters: str, layers: list[str], n_parameters: int, model: Path, dataset: Path, tmp_path: Path
) -> None:
    """With exact gradients, so that hooks and the loop must agree; the views are those of the default run."""
    options = {"model": model, "dataset": dataset, "parameters": parameters, "projection": 0, "limit": 8}
    score(**options, output=tmp_path / "hooks.parquet", engine="hooks")
    score(**options, output=tmp_path / "loop.parquet", engine="loop")
    footer = metadata(tmp_path / "hooks.parquet")
    assert footer["layer_names"] == layers
    assert footer["gradients"]["n_parameters"] == n_parameters
    table = read(tmp_path / "hooks.parquet")
    assert_same_scores(table, read(tmp_path / "loop.parquet"))
    squares = [sum(norm**2 for norm in norms) for norms in table["layer_norms"]]
    assert (np.sqrt(squares) <= table["grad_norm"] * (1 + 1e-6)).all()  # means over views of parts and whole


def test_full_weights_keep_exact_norms_beside_a_projection(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    options = {"model": model, "dataset": dataset, "parameters": "linear"}
    score(**options, output=tmp_path / "exact.parquet", projection=0)
    score(**options, output=tmp_path / "projected.parquet", projection=8)
    exact, projected = read(tmp_path / "exact.parquet"), read(tmp_path / "projected.parquet")
    for name in SCORES:
        np.testing.assert_allclose(projected[name], exact[name], rtol=1e-4)
    assert metadata(tmp_path / "projected.parquet")["gradients"]["projection"] == 8
    # 14 matrices of 64 random numbers each: a relative error of about 1 / sqrt(14 * 64) in squared norms, or more
    # where few matrices hold most of the gradient.
    assert np.median(np.abs(projected["gsnr"] / exact["gsnr"] - 1)) < 0.2


def test_layer_scales_are_stored_and_used_again(
    model: Path, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: pd.DataFrame
) -> None:
    options = {"model": model, "dataset": dataset, "layer_normalise": True, "calibration_rows": 6}
    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "_score_batch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            score(**options, output=tmp_path / "s.parquet")
    stored = tmp_path / "s.run" / "layer_scales.json"
    scales = json.loads(stored.read_text())
    assert len(scales) == 28  # A and B of 14 linear layers
    assert min(scales.values()) > 0
    with monkeypatch.context() as patch:
        patch.setattr("gradscore.gradients.calibrate.layer_scales", forbid)
        score(**options, output=tmp_path / "s.parquet")
    assert json.loads(stored.read_text()) == scales
    table = read(tmp_path / "s.parquet")
    # Each of 28 gradients has a root-mean-square norm of 1 over the calibration rows.
    assert table["grad_norm"].mean() == pytest.approx(np.sqrt(28), rel=0.3)
    np.testing.assert_allclose(table["loss"], expected["loss"], rtol=1e-6)
    score(**options, output=tmp_path / "shard.parquet", shard="2/5")
    shard = read(tmp_path / "shard.parquet")
    assert_same_scores(shard, table[table["row_index"] % 5 == 2].reset_index(drop=True))


def interrupt(*_: Any) -> None:
    """Stand in for the scoring of a batch during which the user loses patience."""
    raise KeyboardInterrupt


def forbid(*_: Any) -> None:
    """Stand in for work that must not be done again."""
    raise AssertionError


def test_clip_bounds_every_gradient(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    limit = float(expected["grad_norm_first"].median())
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", clip=limit)
    table = read(tmp_path / "s.parquet")
    np.testing.assert_allclose(
        table["grad_norm_first"], expected["grad_norm_first"].clip(upper=limit), rtol=1e-5
    )
    np.testing.assert_allclose(table["loss"], expected["loss"], rtol=1e-6)


def test_stride_counts_every_kth_coordinate(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    # No divisor of any matrix's width, which would pick the same columns again and again.
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", stride=3)
    table = read(tmp_path / "s.parquet")
    assert (table["grad_norm"] != expected["grad_norm"]).all()
    ratio = table["grad_norm"] / expected["grad_norm"]
    assert ratio.median() == pytest.approx(1, abs=0.2)
    assert table["gsnr"].rank().corr(expected["gsnr"].rank()) > 0.5


def test_a_summed_loss_grows_with_the_targets_and_gsnr_does_not(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", reduction="sum")
    table = read(tmp_path / "s.parquet")
    n = table["n_target_tokens"]
    for name in ("loss", "grad_norm"):
        np.testing.assert_allclose(table[name], expected[name] * n, rtol=1e-4)
    np.testing.assert_allclose(table["gsnr"], expected["gsnr"], rtol=1e-3)


def test_bfloat16_is_close(model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame) -> None:
    listener = Listener()
    score(listener, model=model, dataset=dataset, output=tmp_path / "s.parquet", dtype="bfloat16")
    table = read(tmp_path / "s.parquet")
    assert any("bfloat16 on cpu" in line for line in listener.said)
    assert set(table["status"]) == {"ok"}
    np.testing.assert_allclose(table["loss"], expected["loss"], rtol=0.02)
    np.testing.assert_allclose(table["grad_norm"], expected["grad_norm"], rtol=0.3)
    assert table[list(MOMENTS)].notna().all(axis=None)


def test_momentum_one_weighs_all_views_alike(model: Path, dataset: Path, tmp_path: Path) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", momentum=1.0)
    assert metadata(tmp_path / "s.parquet")["noise_floor"] == pytest.approx(1 / np.sqrt(2))
