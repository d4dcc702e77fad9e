"""Tests the sources of views end to end: warm-up, checkpoints, dropout, a single view, the base, and members."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gradscore.errors import ConfigError, ModelError
from tests.model.folders import save_adapter, save_llama
from tests.pipeline.runs import CONTEXT, MOMENTS, SCORES, Listener, assert_same_scores, read, score


def view_folders(table: Path) -> list[Path]:
    """Return the folders of a finished run's views, oldest first."""
    return sorted((table.with_suffix(".run") / "views" / "member-0").glob("step-*"))


def test_the_warm_ups_own_snapshots_as_checkpoints_give_the_same_table(
    finished: Path, model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    checkpoints = ",".join(map(str, view_folders(finished)))
    score(
        model=model,
        dataset=dataset,
        output=tmp_path / "s.parquet",
        view_source="checkpoints",
        checkpoints=checkpoints,
    )
    assert_same_scores(read(tmp_path / "s.parquet"), expected)
    views = json.loads((tmp_path / "s.run" / "views" / "views.json").read_text())["views"]
    assert [view["path"] for view in views] == list(map(str, view_folders(finished)))


def test_a_trainers_output_folder_is_taken_by_steps(
    finished: Path, model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    for step, folder in zip((90, 100, 1000), view_folders(finished), strict=True):
        shutil.copytree(folder, tmp_path / "trainer" / f"checkpoint-{step}")
    options = {"view_source": "checkpoints", "checkpoints": tmp_path / "trainer"}
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", **options)
    assert_same_scores(read(tmp_path / "s.parquet"), expected)


def test_full_checkpoints_need_full_weights_to_count(model: Path, dataset: Path, tmp_path: Path) -> None:
    folders = [save_llama(tmp_path / f"m{i}", seed=i, max_position_embeddings=CONTEXT) for i in (1, 2)]
    options = {
        "model": model, "dataset": dataset, "output": tmp_path / "s.parquet",
        "view_source": "checkpoints", "checkpoints": ",".join(map(str, folders)),
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"--parameters lora needs an adapter.*--parameters linear"):
        score(**options)
    score(**options, parameters="linear")
    table = read(tmp_path / "s.parquet")
    assert table["gsnr"].notna().all()
    assert table["gsnr_se"].isna().all()  # two views
    assert (table["loss_first"] != table["loss_last"]).all()


def test_dropout_views_are_repeatable_and_differ(model: Path, dataset: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "adapter", model)
    options = {
        "model": model, "dataset": dataset, "limit": 8, "adapter": adapter,
        "view_source": "dropout", "views": 3,
    }  # fmt: skip
    score(**options, output=tmp_path / "a.parquet")
    score(**options, output=tmp_path / "b.parquet", max_batch_tokens=1)
    first = read(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read(tmp_path / "b.parquet"), first)
    assert first["gsnr"].between(1e-3, 1e3).all()
    assert (first["loss_first"] != first["loss_last"]).all()
    score(**options, output=tmp_path / "c.parquet", seed=1)
    assert (read(tmp_path / "c.parquet")["gsnr"] != first["gsnr"]).all()
    score(**options, output=tmp_path / "shard.parquet", shard="1/2")
    odd = first[first["row_index"] % 2 == 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(read(tmp_path / "shard.parquet"), odd)


def test_a_single_view_has_no_gsnr_and_a_fresh_adapter_is_warned_of(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    listener = Listener()
    outcome = score(
        listener, model=model, dataset=dataset, output=tmp_path / "s.parquet", view_source="single"
    )
    table = read(tmp_path / "s.parquet")
    assert table[["gsnr", "gsnr_unbiased", "gsnr_se", "gsnr_spread"]].isna().all(axis=None)
    assert table[list(SCORES)].notna().all(axis=None)
    assert set(table["n_views"]) == {1}
    assert "noise_floor_of_gsnr" not in outcome.summary
    warnings = [line for line in listener.said if line.startswith("Warning:")]
    assert len(warnings) == 3
    assert any("begin without <|bos|>" in line for line in warnings)
    assert any("gradient of exactly zero" in line and "lora_A" in line for line in warnings)
    assert any("one view" in line and "gsnr" in line for line in warnings)


def test_a_single_view_of_a_trained_adapter_counts_all_of_it(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    listener = Listener()
    adapter = save_adapter(tmp_path / "adapter", model)
    score(
        listener,
        model=model,
        dataset=dataset,
        output=tmp_path / "s.parquet",
        view_source="single",
        adapter=adapter,
    )
    assert not any("exactly zero" in line for line in listener.said)
    assert any("100.0% of them receive a gradient" in line for line in listener.said)


def test_the_base_comes_first_and_is_not_trained(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", include_base=True)
    table = read(tmp_path / "s.parquet")
    assert set(table["n_views"]) == {4}
    score(model=model, dataset=dataset, output=tmp_path / "base.parquet", view_source="single")
    base = read(tmp_path / "base.parquet")
    np.testing.assert_allclose(table["loss_first"], base["loss"], rtol=1e-5)
    np.testing.assert_allclose(table["loss_last"], expected["loss_last"], rtol=1e-5)


def test_members_are_averaged_and_their_spread_is_stored(
    model: Path, dataset: Path, tmp_path: Path, expected: pd.DataFrame
) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", members=2)
    table = read(tmp_path / "s.parquet")
    assert set(table["n_views"]) == {3}
    assert (table["gsnr_spread"] > 0).all()
    # Two values: their mean and sample deviation give both back, and the first member is that of a run with one.
    half_distance = table["gsnr_spread"] / np.sqrt(2)
    lower, upper = table["gsnr"] - half_distance, table["gsnr"] + half_distance
    is_first = np.isclose(lower, expected["gsnr"], rtol=1e-3) | np.isclose(upper, expected["gsnr"], rtol=1e-3)
    assert is_first.all()
    assert table[list(MOMENTS)].notna().all(axis=None)


def test_an_existing_adapter_is_where_the_warm_up_starts(
    finished: Path, model: Path, dataset: Path, tmp_path: Path
) -> None:
    adapter = view_folders(finished)[-1]
    before = (adapter / "adapter_model.safetensors").read_bytes()
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", adapter=adapter)
    assert (read(tmp_path / "s.parquet")["loss_first"] < read(finished)["loss_last"]).mean() > 0.9
    assert (adapter / "adapter_model.safetensors").read_bytes() == before


def test_an_adapter_of_another_model_is_refused(dataset: Path, model: Path, tmp_path: Path) -> None:
    wide = save_llama(tmp_path / "wide", hidden_size=32)
    adapter = save_adapter(tmp_path / "adapter", wide)
    with pytest.raises(ModelError, match=r"does not belong to .*size mismatch.*pass that as --model"):
        score(model=model, dataset=dataset, output=tmp_path / "s.parquet", adapter=adapter)
