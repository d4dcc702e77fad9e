"""Configuration: checks at birth, all mistakes at once, YAML to dataclasses and back (gradscore.config)."""

from pathlib import Path

import pytest

from gradscore.config import DataConfig, FilterConfig, RunConfig, from_mapping, load_yaml, to_mapping
from gradscore.errors import ConfigError


def test_mapping_round_trip_is_the_same() -> None:
    config = RunConfig(data=DataConfig(dataset="a.jsonl", limit=3), filter=FilterConfig(top_k="0.5"))
    assert from_mapping(to_mapping(config)) == config


@pytest.mark.parametrize(("written", "kept"), [(0.3, "0.3"), (300, "300"), ("30%", "30%")])
def test_yaml_numbers_are_taken_where_a_field_takes_text(written: object, kept: str) -> None:
    assert from_mapping({"filter": {"top_k": written}}).filter.top_k == kept


def test_all_mistakes_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(
            {"data": {"limit": "many", "colour": 1}, "trainer": {}, "model": {"views": True}}, "x.yaml"
        )
    message = str(caught.value)
    assert "4 options are wrong" in message
    assert "data.limit cannot be 'many'; it takes a whole number or nothing (null)" in message
    assert "data.colour is unknown; data has: dataset" in message
    assert "section 'trainer' is unknown; sections are: data, model" in message
    assert "model.views cannot be True" in message


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        ("data", {"limit": 0}, "--limit must be a positive number of rows, not 0"),
        ("data", {"shard": "4/4"}, "--shard takes I/N with 0 <= I < N, such as 0/4, not '4/4'"),
        (
            "model",
            {"view_source": "checkpoints"},
            "--view-source checkpoints and --checkpoints PATH belong together",
        ),
        ("model", {"learning_rate": 0.0}, "--learning-rate must be positive"),
        ("gradients", {"stride": 0}, "--stride must be at least 1"),
        ("scores", {"epsilon": float("nan")}, "--epsilon must be a finite number, not nan"),
        ("model", {"learning_rate": float("inf")}, "--learning-rate must be a finite number, not inf"),
        ("model", {"lora_alpha": 0.0}, "--lora-alpha must not be 0"),
        ("data", {"seed": 2**70}, "--seed must fit into 64 bits"),
        ("gradients", {"clip": 1e-30}, "--clip must be at least 1e-12"),
        ("scores", {"momentum": 0.0}, "--momentum must lie in [0.001, 1]"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(section: str, values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml: ") as caught:
        from_mapping({section: values}, "x.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [("data: [", "is not valid YAML"), ("- a\n- b\n", "must hold sections"), (None, "cannot be read")],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "broken.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.yaml") as caught:
        load_yaml(path)
    assert words in str(caught.value)


def test_an_empty_file_is_an_empty_configuration(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert from_mapping(load_yaml(tmp_path / "empty.yaml")) == RunConfig()
