"""Tests quality/columns.py: three nullable columns, the measures they need, and what the model was not made for."""

from dataclasses import replace

import pyarrow as pa
import pytest

from gradscore.config import DataConfig, GradientConfig, ModelConfig, RunConfig, ScoreConfig, to_mapping
from gradscore.errors import TableError
from gradscore.measures import parse_measures
from gradscore.quality.columns import (
    QUALITY_COLUMNS,
    described,
    differences,
    needed_measures,
    quality_columns,
    with_needed_measures,
)
from gradscore.quality.model import Feature, Fit, QualityModel, apply

MODEL = QualityModel(
    features=(
        Feature("base_loss", "low", (0.0, 2.0), (1.0, 4.0)),
        Feature("n_target_tokens", "low", (0.0, 2.0), (3.0, 9.0)),
    ),
    intercept=1.0,
    slope=1.0,
    bootstrap=(Fit(0.9, 0.8, ((1.1, 3.5), (3.0, 9.0))), Fit(1.1, 1.2, ((0.9, 4.5), (3.0, 9.0)))),
    fitted_on={"language_model": {"name": "tiny", "fingerprint": "abc"}, "settings": to_mapping(RunConfig())},
    evidence={"best_column": None},
)


def test_the_columns_are_those_of_apply_and_null_where_a_value_is_missing() -> None:
    table = pa.table({"base_loss": [1.0, None, 3.0], "n_target_tokens": [4, 5, 6]})
    found = quality_columns(MODEL).append_to(table)
    assert found.schema.names == [
        "base_loss",
        "n_target_tokens",
        *(column.name for column in QUALITY_COLUMNS),
    ]
    expected = apply(MODEL, {"base_loss": [1.0, 3.0], "n_target_tokens": [4.0, 6.0]})
    for column, values in zip(QUALITY_COLUMNS, expected, strict=True):
        first, second, third = found[column.name].to_pylist()
        assert second is None
        assert [first, third] == pytest.approx(values.tolist())


def test_needed_measures_are_turned_on_beside_those_asked_for() -> None:
    assert needed_measures(MODEL) == ("base_loss",)
    for asked in ("", "entropy", "default", "all"):
        scores = with_needed_measures(ScoreConfig(measures=asked), MODEL)
        assert set(parse_measures(scores.measures)) == {"base_loss", *parse_measures(asked)}
        assert with_needed_measures(scores, MODEL) == scores, "twice is as once"


@pytest.mark.parametrize("name", ["aura", "status", "sketch", "row_index"])
def test_a_column_that_is_no_score_of_this_release_is_refused(name: str) -> None:
    model = replace(MODEL, features=(Feature(name, "low", (0.0, 1.0), (0.0, 1.0)),), bootstrap=())
    with pytest.raises(
        TableError, match=rf"columns that this release cannot make: {name}\. Run `gradscore validate`"
    ):
        needed_measures(model)


def test_the_same_settings_do_not_differ_and_others_are_named() -> None:
    assert differences(MODEL, "abc", to_mapping(RunConfig())) == []
    other = RunConfig(
        data=DataConfig(dataset="other.jsonl", max_length=100, truncate="left"),
        model=ModelConfig(model="elsewhere", views=7),
        gradients=GradientConfig(check=False, max_batch_tokens=5),
        scores=ScoreConfig(measures="all", quality="q"),
    )
    of_text = ["--max-length (None, now 100)", "--truncate (right, now left)"]
    assert differences(MODEL, "xyz", to_mapping(other)) == [
        "the model (tiny)",
        *of_text,
        "--views (4, now 7)",
    ]


def test_views_do_not_matter_to_what_forward_passes_of_the_base_model_give() -> None:
    forward = replace(MODEL, features=MODEL.features[:1])
    other = RunConfig(
        model=ModelConfig(views=7, lora_rank=2, dtype="bfloat16"), gradients=GradientConfig(clip=1.0)
    )
    assert differences(forward, "abc", to_mapping(other)) == ["--dtype (auto, now bfloat16)"]


def test_a_model_that_says_nothing_of_its_origin_differs_in_nothing() -> None:
    assert differences(replace(MODEL, fitted_on={}), "abc", to_mapping(RunConfig())) == []


def test_the_footer_has_calibration_and_evidence_but_no_bootstrap() -> None:
    assert set(described(MODEL)) == {"columns", "intercept", "slope", "fitted_on", "evidence"}
