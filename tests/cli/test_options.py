"""Tests cli/options.py: options come from the configuration, and win over a file, which wins over defaults."""

import dataclasses
from pathlib import Path

import pytest

from gradscore.cli import filter, preview, score, validate
from gradscore.cli.main import main
from gradscore.cli.options import build_config, offer_sections
from gradscore.config import SECTIONS, RunConfig
from gradscore.errors import ConfigError
from tests.cli.conftest import FakePipeline

NEEDED = ["score", "--dataset", "d.jsonl", "--model", "m", "--output", "s.parquet"]


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_every_field_of_the_configuration_is_an_option_of_score_filter_or_validate() -> None:
    offered = {*score.OFFER.fields, *filter.OFFER.fields, *validate.OFFER.fields}
    assert offered == {
        (section, f.name) for section, kind in SECTIONS.items() for f in dataclasses.fields(kind)
    }


@pytest.mark.parametrize("offer", [score.OFFER, filter.OFFER, preview.OFFER])
def test_no_command_offers_one_name_twice(offer: object) -> None:
    names = [name for _, name in offer.fields]  # type: ignore[attr-defined]
    assert len(names) == len(set(names))


def test_without_options_the_defaults_hold(pipeline: FakePipeline) -> None:
    assert main(NEEDED) == 0
    (config,) = pipeline.configs
    assert config.model == dataclasses.replace(RunConfig().model, model="m")
    assert config.gradients == RunConfig().gradients


def test_typed_values_get_the_type_of_their_field(pipeline: FakePipeline) -> None:
    typed = ["--lora-rank", "4", "--lora-alpha", "3", "--clip", "1e-1", "--limit", "5", "--dtype", "float16"]
    assert main([*NEEDED, *typed, "--no-resume", "--trust-remote-code"]) == 0
    (config,) = pipeline.configs
    assert (config.model.lora_rank, config.model.lora_alpha, config.gradients.clip) == (4, 3.0, 0.1)
    assert (config.data.limit, config.model.dtype) == (5, "float16")
    assert (config.table.resume, config.model.trust_remote_code) == (False, True)
    assert isinstance(config.model.lora_alpha, float)


def test_command_line_wins_over_file_and_file_over_default(pipeline: FakePipeline, tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", "model: {views: 7, members: 3}\ntable: {resume: false}\n")
    assert main([*NEEDED, "--config", path, "--members", "2"]) == 0
    (config,) = pipeline.configs
    assert (config.model.views, config.model.members, config.table.resume) == (7, 2, False)
    assert config.model.lora_rank == RunConfig().model.lora_rank


def test_a_typed_default_wins_over_the_file(pipeline: FakePipeline, tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", "model: {views: 7}\ntable: {resume: false}\n")
    default = str(RunConfig().model.views)
    assert main([*NEEDED, "--config", path, "--views", default, "--resume"]) == 0
    (config,) = pipeline.configs
    assert (config.model.views, config.table.resume) == (int(default), True)


def test_required_options_may_come_from_the_file(pipeline: FakePipeline, tmp_path: Path) -> None:
    path = write(
        tmp_path / "c.yaml", "data: {dataset: d.jsonl}\nmodel: {model: m}\ntable: {output: s.parquet}\n"
    )
    assert main(["score", "--config", path]) == 0
    assert pipeline.configs[0].data.dataset == "d.jsonl"


def test_all_mistakes_of_command_line_and_file_come_together(
    pipeline: FakePipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "c.yaml", "model: {views: many, wings: 2}\nscores: {momentum: 2}\nsauce: {}\n")
    assert main(["score", "--config", path, "--lora-rank", "x", "--limit", "-1", "--model", "m"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("gradscore: 8 options are wrong:")
    for part in (
        "model.views cannot be 'many'; it takes a whole number",
        "model.wings is unknown",
        "section 'sauce' is unknown",
        "--momentum must lie in [0.001, 1], not 2",
        "--lora-rank cannot be 'x'; it takes a whole number.",
        "--limit must be a positive number of rows, not -1.",
        "--dataset is missing",
        "--output is missing",
    ):
        assert part in message
    assert "Traceback" not in message
    assert pipeline.configs == []


def test_a_choice_names_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NEEDED, "--truncate", "middle"]) == 2
    assert "--truncate cannot be 'middle'; it takes one of right, left, drop." in capsys.readouterr().err


@pytest.mark.parametrize("text", ["model: [1]", "- 1", "model: {views: [1}"])
def test_a_file_of_another_shape_is_the_users_mistake(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NEEDED, "--config", write(tmp_path / "c.yaml", text)]) == 2
    assert str(tmp_path / "c.yaml") in capsys.readouterr().err


def test_a_missing_file_is_the_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NEEDED, "--config", "none.yaml"]) == 2
    assert "none.yaml cannot be read: No such file" in capsys.readouterr().err


def test_a_field_without_a_flag_is_named_by_its_place() -> None:
    offer = offer_sections("filter", required=("table",), positional="table")
    with pytest.raises(ConfigError, match=r"^TABLE is missing"):
        build_config(offer, {}, None)
