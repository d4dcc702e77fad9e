"""Tests gradscore.gradients.choose: the engine by capability and said aloud, and what is kept of gradients."""

import pytest
from torch import nn

from gradscore.config import GradientConfig
from gradscore.errors import ConfigError, UnsupportedError
from gradscore.gradients.choose import DEFAULT_PROJECTION, ENGINES, choose_engine, choose_reduction
from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.model import forward
from gradscore.records import SilentReporter
from tests import cases


class Messages(SilentReporter):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


def choose(model: nn.Module, words: str, **options: object) -> tuple[GradientEngine, list[str]]:
    config = GradientConfig(parameters=words, **options)
    parameters = counted_parameters(model, words)
    reporter = Messages()
    reduction = choose_reduction(config, parameters, seed=0)
    return choose_engine(model, parameters, config, reduction, reporter), reporter.said


@pytest.mark.parametrize("words", ["linear", "ffn", "all"])
def test_auto_is_hooks_where_it_has_every_formula(words: str) -> None:
    engine, said = choose(cases.architecture("llama"), words)
    assert engine.name == "hooks"
    assert said == []


@pytest.mark.parametrize(
    ("name", "words", "count"), [("mixtral", "linear", 6), ("gemma2", "all", 1), ("gpt2", "all", 1)]
)
def test_auto_is_loop_elsewhere_and_says_why(name: str, words: str, count: int) -> None:
    """Fused experts and their router, an embedding of its own kind, and tied embeddings that are projected."""
    engine, said = choose(cases.architecture(name), words)
    assert engine.name == "loop"
    (text,) = said
    assert text.startswith(
        "Engine loop, one row at a time: the hooks engine has no formula for "
        f"{count} counted parameters, such as "
    )
    assert engine.gradients(cases.batch()).is_finite().all()


def test_tied_embeddings_are_for_hooks_where_parts_add_up() -> None:
    for options in ({"norms": "projected"}, {"projection": 0}, {"stride": 10}):
        assert choose(cases.architecture("gpt2"), "all", **options)[0].name == "hooks"


def test_a_counted_head_that_would_see_all_rows_in_one_sequence_is_for_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradscore.gradients.hooks.PLAIN_HEADS", frozenset())
    monkeypatch.setattr(forward, "PLAIN_HEADS", frozenset())
    engine, said = choose(cases.architecture("llama"), "all")
    assert engine.name == "loop"
    assert said[0].endswith("1 counted parameters, such as lm_head.weight.")
    assert choose(cases.architecture("llama"), "linear")[0].name == "hooks"


@pytest.mark.parametrize("name", ENGINES)
def test_the_engine_asked_for_is_taken_without_a_word(name: str) -> None:
    engine, said = choose(cases.architecture("llama"), "linear", engine=name, reduction="sum")
    assert type(engine) is ENGINES[name]
    assert engine.name == name
    assert engine.loss == "sum"
    assert said == []


def test_hooks_asked_for_where_it_has_no_formula() -> None:
    with pytest.raises(UnsupportedError) as error:
        choose(cases.architecture("mixtral"), "linear", engine="hooks")
    text = str(error.value)
    assert text.startswith("The hooks engine has no formula for 6 of the counted parameters (8")
    assert "of all counted coordinates), such as model.layers.0.mlp." in text
    assert text.endswith("Use --engine loop, which covers everything, or count other --parameters.")


@pytest.mark.parametrize(
    ("words", "options", "side"),
    [
        ("lora", {}, 0),
        ("linear", {}, DEFAULT_PROJECTION),
        ("linear", {"stride": 10}, 0),
        ("linear", {"projection": 0}, 0),
        ("linear", {"projection": 5}, 5),
        ("lora", {"projection": 5}, 5),
        (".", {}, DEFAULT_PROJECTION),
    ],
)
def test_lora_is_exact_and_full_weights_are_projected_unless_said_otherwise(
    words: str, options: dict[str, int], side: int
) -> None:
    model = cases.with_lora(cases.architecture("llama"))
    config = GradientConfig(parameters=words, **options)
    reduction = choose_reduction(config, counted_parameters(model, words), seed=3)
    assert reduction.projections.side == side
    assert reduction.projections.seed == 3
    assert reduction.stride == options.get("stride", 1)
    assert reduction.exact_norms
    assert reduction.scales == {}


def test_projected_norms_and_scales_are_passed_on() -> None:
    parameters = counted_parameters(cases.architecture("llama"), "linear")
    reduction = choose_reduction(GradientConfig(norms="projected"), parameters, 0, scales={"w": 2.0})
    assert not reduction.exact_norms
    assert reduction.scales == {"w": 2.0}


def test_stride_and_projection_together() -> None:
    parameters = counted_parameters(cases.architecture("llama"), "linear")
    with pytest.raises(ConfigError) as error:
        choose_reduction(GradientConfig(stride=10, projection=8), parameters, 0)
    assert str(error.value) == (
        "--projection 8 and --stride 10 both thin the gradient out. Give only one of them."
    )
