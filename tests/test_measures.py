"""Tests gradscore.measures: names are checked, order is the registry's, and costs are said."""

import re
from pathlib import Path

import pytest

from gradscore.config import ScoreConfig
from gradscore.errors import ConfigError
from gradscore.measures import MEASURES, OF_QUALITY, PASSES, describe_cost, parse_measures, passes_of
from gradscore.table.schema import COLUMNS


def test_words_and_names_give_each_measure_once_in_the_order_of_the_registry() -> None:
    assert parse_measures("all") == tuple(MEASURES)
    assert parse_measures("all, default,el2n") == tuple(MEASURES)
    assert parse_measures("entropy,consistency") == ("consistency", "entropy")
    assert set(parse_measures("default,entropy")) == {*parse_measures("default"), "entropy"}
    assert set(parse_measures("quality")) == set(OF_QUALITY)
    assert parse_measures("") == parse_measures(" , ") == ()


def test_defaults_cost_at_most_one_forward_pass() -> None:
    assert parse_measures("default") == ("consistency", "base_loss", "loss_drop")
    works = [PASSES[place] for place in passes_of(parse_measures("default"))]
    assert sum(work.forwards + work.backwards for work in works) == 1


def test_unknown_names_are_listed_with_those_that_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        ScoreConfig(measures="el2n,size,shape", momentum=2.0)
    text = str(caught.value)
    assert "2 options are wrong" in text
    assert "--measures: shape, size is unknown. Measures are: consistency, gsnr_paper" in text
    assert "or default, or quality, or all, comma-separated" in text


@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_every_measure_is_described(measure: object) -> None:
    assert measure.direction.startswith("high: ")
    assert measure.meaning
    assert measure.range
    assert measure.source
    assert set(measure.passes) <= set(PASSES)


def test_the_cost_is_said_in_passes_and_as_a_share_of_the_views() -> None:
    assert describe_cost([], 4) == "Measures: none beside the columns that every table has"
    assert describe_cost(["consistency"], 4) == "Measures: consistency, from the passes of the 4 views alone"
    assert describe_cost(["base_loss", "el2n"], 4) == (
        "Measures: base_loss, el2n. They add to each row 1 forward pass (the model without its adapter): "
        "about 12% of the 4 views' work"
    )


def test_passes_that_each_member_makes_are_counted_for_each() -> None:
    assert describe_cost(["ifd", "contrast_cosine"], 2, 3) == (
        "Measures: ifd, contrast_cosine. They add to each row 1 forward pass (the model without its adapter); "
        "1 forward pass (the same, on the answer without its instruction); "
        "3 forward and 3 backward passes (the newest view, on the answer without its instruction): "
        "about 67% of the 6 views' work"
    )


def test_every_column_of_the_table_has_an_entry_in_the_docs() -> None:
    page = (Path(__file__).parent.parent / "docs" / "scores.md").read_text(encoding="utf-8")
    entries = re.findall(r"(?m)^(`.*)\n: ", page)
    named = {name for entry in entries for name in re.findall(r"`(\w+)`", entry)}
    assert {column.name for column in COLUMNS} | set(MEASURES) <= named
    defaults = {re.findall(r"`(\w+)` \(default\)", entry)[0] for entry in entries if "(default)" in entry}
    assert defaults == set(parse_measures("default"))
