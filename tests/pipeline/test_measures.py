"""Tests the optional columns end to end: in the table and its dictionary, in the run's identity, after a resume."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from gradscore.errors import TableError, UnsupportedError
from gradscore.measures import MEASURES, OF_FOLDS, parse_measures
from gradscore.quality.model import Feature, Fit, QualityModel
from gradscore.quality.stored import write_quality
from tests.pipeline.counter import Counter
from tests.pipeline.runs import Listener, alpaca_rows, read, score, write_jsonl


def test_measures_asked_for_are_columns_with_a_description(
    finished: Path, model: Path, dataset: Path, expected: pd.DataFrame, tmp_path: Path
) -> None:
    listener = Listener()
    score(
        listener, model=model, dataset=dataset, output=tmp_path / "s.parquet", measures="entropy,gsnr_paper"
    )
    table = read(tmp_path / "s.parquet")
    core = [name for name in expected.columns if name not in MEASURES]
    assert set(table.columns) == {*core, "entropy", "gsnr_paper"}
    pd.testing.assert_frame_equal(table[core], expected[core])
    assert table["entropy"].between(0, 20).all()
    assert table["gsnr_paper"].isna().all()  # one member
    dictionary = json.loads(pq.read_schema(tmp_path / "s.parquet").metadata[b"gradscore"])["columns"]
    assert [entry["name"] for entry in dictionary] == list(table.columns)
    assert next(e for e in dictionary if e["name"] == "entropy")["unit"] == "nats per target token"
    assert any(
        line.startswith("Measures: gsnr_paper, entropy. They add to each row") for line in listener.said
    )


def test_default_measures_are_there_and_finite(expected: pd.DataFrame) -> None:
    assert [name for name in expected.columns if name in MEASURES] == list(parse_measures("default"))
    assert expected["consistency"].between(-1, 1).all()
    assert (expected["base_loss"] > 0).all()
    pd.testing.assert_series_equal(
        expected["loss_drop"], expected["base_loss"] - expected["loss_last"], check_names=False
    )


def test_a_resumed_run_has_the_same_measures(
    interrupted: dict[str, object], undisturbed: pd.DataFrame
) -> None:
    score(**interrupted)
    table = read(interrupted["output"])
    for name in parse_measures("default"):
        pd.testing.assert_series_equal(table[name], undisturbed[name], rtol=1e-5)


def test_other_measures_are_another_run(interrupted: dict[str, object], counter: Counter) -> None:
    with pytest.raises(TableError, match=r"scores\.measures"):
        score(**interrupted, measures="default,el2n")
    score(**interrupted, measures="loss_drop,consistency,base_loss")  # in other words, the same


def test_a_stop_token_is_found_and_a_truncated_row_has_none(model: Path, tmp_path: Path) -> None:
    rows = [*alpaca_rows(4), {"instruction": "Say much", "input": "", "output": "much " * 100}]
    dataset = write_jsonl(tmp_path / "d.jsonl", rows)
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", max_length=200, measures="stop_loss")
    table = read(tmp_path / "s.parquet")
    assert table["stop_loss"].notna().tolist() == [True] * 4 + [False]


def test_what_cannot_be_had_is_refused_by_name_and_left_empty_otherwise(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    options = {"model": model, "dataset": dataset, "parameters": "linear"}
    with pytest.raises(UnsupportedError) as caught:
        score(output=tmp_path / "a.parquet", measures="effective_rank", **options)
    assert str(caught.value) == (
        "--measures effective_rank cannot be had in this run: it needs a counted LoRA adapter, without --stride and "
        "--projection. Leave it out."
    )
    listener = Listener()
    score(listener, output=tmp_path / "b.parquet", measures="all", limit=3, **options)
    assert read(tmp_path / "b.parquet")["effective_rank"].isna().all()
    assert any(line.startswith("effective_rank: empty in this run; it needs") for line in listener.said)


def test_measures_without_the_instruction_are_refused_for_plain_text_before_any_training(
    model: Path, tmp_path: Path
) -> None:
    dataset = write_jsonl(tmp_path / "d.jsonl", [{"text": f"a story of {i}"} for i in range(6)])
    with pytest.raises(UnsupportedError, match="ifd cannot be had in this run: rows have no instruction"):
        score(model=model, dataset=dataset, output=tmp_path / "s.parquet", measures="ifd")
    assert not list((tmp_path / "s.run" / "views").iterdir())


def test_an_answer_without_its_instruction_has_a_loss_of_its_own(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    score(model=model, dataset=dataset, output=tmp_path / "s.parquet", measures="ifd,loss_alone,base_loss")
    table = read(tmp_path / "s.parquet")
    expected = table["base_loss"] / table["loss_alone"]
    pd.testing.assert_series_equal(table["ifd"], expected, check_names=False)
    assert (table["loss_alone"] - table["base_loss"]).abs().min() > 0


def test_cross_fitted_members_give_the_measures_of_folds(model: Path, dataset: Path, tmp_path: Path) -> None:
    options = {"members": 2, "cross_fit": True, "measures": "all", "model": model, "dataset": dataset}
    score(output=tmp_path / "folds.parquet", **options)
    table = read(tmp_path / "folds.parquet")
    assert table[list(OF_FOLDS)].notna().all().all()
    losses = [table["loss_out"], table["loss_out"] - table["memorised"]]
    np.testing.assert_allclose(sum(losses) / 2, table["loss_last"], rtol=1e-6)
    np.testing.assert_allclose(
        table["loss_drop_out"], table["base_loss"] - table["loss_out"], rtol=1e-5, atol=1e-7
    )


def test_without_folds_their_measures_are_refused_by_name(model: Path, dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="needs --cross-fit"):
        score(output=tmp_path / "s.parquet", model=model, dataset=dataset, measures="memorised")


def test_views_that_share_their_lower_layers_have_the_same_measures(
    model: Path, dataset: Path, tmp_path: Path
) -> None:
    """The loop engine runs the whole model for every pass; the hooks engine starts above what is shared."""
    asked = (
        "default,perplexity,entropy,el2n,peak_excess,stop_loss,ifd,loss_alone,contrast_norm,contrast_cosine"
    )
    tables = []
    for engine in ("hooks", "loop"):
        output = tmp_path / f"{engine}.parquet"
        score(
            model=model, dataset=dataset, output=output, engine=engine, lora_layers="last:1", measures=asked
        )
        tables.append(read(output))
    for name in parse_measures(asked):
        assert tables[0][name].notna().all(), name
        pd.testing.assert_series_equal(tables[0][name], tables[1][name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("measures", ["all", "default"])
def test_a_quality_that_no_row_could_have_is_refused(model: Path, tmp_path: Path, measures: str) -> None:
    """With `all` the columns stayed empty in silence; else the message spoke of --measures, which nobody had given."""
    dataset = write_jsonl(tmp_path / "d.jsonl", [{"text": f"a story of {i}"} for i in range(6)])
    path = tmp_path / "quality.json"
    feature = Feature("ifd", "low", (0.0, 1.0), (0.5, 1.0))
    fit = Fit(2.0, 1.0, ((0.5, 1.0),))
    write_quality(QualityModel((feature,), intercept=2.0, slope=1.0, bootstrap=(fit,)), path)
    with pytest.raises(
        UnsupportedError, match=r"--quality .* needs ifd, .*rows have no instruction.* Leave --quality out"
    ):
        score(model=model, dataset=dataset, output=tmp_path / "s.parquet", measures=measures, quality=path)
