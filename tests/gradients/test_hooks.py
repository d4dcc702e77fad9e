"""Tests gradscore.gradients.hooks: what is left behind (nothing), padding, shared and repeated modules, refusals."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from gradscore.data.batch import collate
from gradscore.errors import UnsupportedError
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.hooks import HooksEngine, unsupported_by_hooks
from gradscore.gradients.parameters import CountedParameter, counted_parameters
from gradscore.gradients.projection import Projections
from gradscore.gradients.reduction import Reduction
from gradscore.model import forward
from tests import cases
from tests.gradients.test_engines import assert_equal_to_autograd
from tests.reference import row_gradients


def engine(model: nn.Module, words: str, reduction: Reduction | None = None) -> HooksEngine:
    return HooksEngine(model, counted_parameters(model, words), reduction or Reduction())


def traces(model: nn.Module) -> list[str]:
    """Return the names of modules on which a hook or an exchanged forward was left, and of parameters that changed."""
    modules = [
        name
        for name, module in model.named_modules()
        if module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or "forward" in vars(module)
    ]
    return modules + [n for n, p in model.named_parameters() if p.requires_grad or p.grad is not None]


@pytest.mark.parametrize("words", ["lora", "linear", "."])
def test_nothing_is_left_behind(words: str) -> None:
    model = cases.with_lora(cases.architecture("llama"))
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    engine(model, words).gradients(cases.batch())
    assert traces(model) == []
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


@pytest.mark.parametrize("words", ["lora", "linear", "."])
@pytest.mark.parametrize("at", ["forward", "backward"])
def test_nothing_is_left_behind_after_an_error(words: str, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = cases.with_lora(cases.architecture("llama"))
    made = engine(model, words)

    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    place = (Reduction, "_kept") if at == "backward" else (type(model.get_base_model().model.norm), "forward")
    with monkeypatch.context() as patch:
        patch.setattr(*place, fail)
        with pytest.raises(RuntimeError, match="in the middle"):
            made.gradients(cases.batch())
    assert traces(model) == []
    names = [p.name for p in made.parameters]
    assert_equal_to_autograd(made.gradients(cases.batch()), model, cases.batch(), names, 5e-9)


def test_no_gradient_of_a_weight_is_computed() -> None:
    model = cases.architecture("llama").requires_grad_(True)
    made = engine(model, "linear")
    assert not any(parameter.requires_grad for parameter in model.parameters())
    with torch.no_grad():  # the caller's mode does not matter
        assert (made.gradients(cases.batch()).norm() > 0).all()


@pytest.mark.parametrize("words", ["lora", "linear", "all"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox"])
def test_left_padding_gives_the_same_gradients(name: str, words: str) -> None:
    model = cases.with_lora(cases.architecture(name, "sdpa"))
    right, left = (engine(model, words).gradients(cases.batch(side)) for side in ("right", "left"))
    torch.testing.assert_close(left.losses, right.losses)
    torch.testing.assert_close(left.norms_squared, right.norms_squared, rtol=1e-9, atol=1e-12)
    for found, expected in zip(left.vectors, right.vectors, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("words", ["lora", "all"])
def test_a_row_does_not_depend_on_its_neighbours_or_their_order(words: str) -> None:
    model = cases.with_lora(cases.architecture("qwen2"))
    made, rows = engine(model, words), cases.rows((9, 5, 12, 2))
    together = made.gradients(collate(rows, 0))
    backwards = made.gradients(collate(rows[::-1], 0))
    for n, row in enumerate(rows):
        alone = made.gradients(collate([row], 0))
        for vector, own, other in zip(together.vectors, alone.vectors, backwards.vectors, strict=True):
            torch.testing.assert_close(vector[n], own[0], rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(vector[n], other[-1 - n], rtol=1e-9, atol=1e-11)


def test_sum_of_losses_is_mean_times_targets() -> None:
    model = cases.with_lora(cases.architecture("llama"))
    parameters = counted_parameters(model, "lora")
    mean, total = (
        HooksEngine(model, parameters, Reduction(), loss).gradients(cases.batch()) for loss in ("mean", "sum")
    )
    targets = cases.batch().n_target_tokens
    torch.testing.assert_close(total.losses, mean.losses * targets)
    torch.testing.assert_close(total.norm(), mean.norm() * targets)


def with_shared_projection() -> nn.Module:
    """Return a tiny Llama whose two layers share the weight of their first FFN projection."""
    model = cases.architecture("llama")
    first, second = model.model.layers
    second.mlp.up_proj.weight = first.mlp.up_proj.weight
    return model


def test_a_parameter_shared_by_two_modules_is_counted_once_with_the_sum() -> None:
    model = with_shared_projection()
    parameters = counted_parameters(model, "up_proj")
    assert [p.module_names for p in parameters] == [
        ("model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj")
    ]
    batch = cases.batch()
    for reduction in (Reduction(), Reduction(Projections(side=100))):
        found = HooksEngine(model, parameters, reduction).gradients(batch)
        assert_equal_to_autograd(found, model, batch, [parameters[0].name], 1e-9)


def test_a_shared_parameter_whose_norm_cannot_be_had_from_parts_is_named_before_any_work() -> None:
    model = with_shared_projection()
    projected = Reduction(Projections(side=4))
    assert unsupported_by_hooks(model, counted_parameters(model, "up_proj"), projected) == [
        "model.layers.0.mlp.up_proj.weight"
    ]
    with pytest.raises(
        UnsupportedError, match=r"\(100\.0% of all counted coordinates\), such as model\.layers"
    ):
        engine(model, "up_proj", projected)
    assert (
        unsupported_by_hooks(
            model, counted_parameters(model, "up_proj"), replace(projected, exact_norms=False)
        )
        == []
    )


class Twice(nn.Module):
    """An FFN that runs its inner one two times in a row."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.inner(x))


def with_repeated_ffn(adapted: bool) -> nn.Module:
    model = cases.architecture("llama")
    model = cases.with_lora(model) if adapted else model
    layer = forward.base_model(model).model.layers[1]
    layer.mlp = Twice(layer.mlp)
    return model


@pytest.mark.parametrize("words", ["lora", "inner"])
def test_a_module_called_twice_has_the_sum_of_both_calls(words: str) -> None:
    model = with_repeated_ffn(adapted=words == "lora")
    batch = cases.batch()
    names = [p.name for p in counted_parameters(model, words)]
    assert_equal_to_autograd(engine(model, words).gradients(batch), model, batch, names, 1e-9)


def test_a_module_called_twice_has_no_exact_norm_beside_a_projection() -> None:
    model = with_repeated_ffn(adapted=False)
    with pytest.raises(UnsupportedError) as error:
        engine(model, "inner", Reduction(Projections(side=4))).gradients(cases.batch())
    assert str(error.value) == (
        "model.layers.1.mlp.inner.gate_proj.weight is used 2 times in one forward pass, and its exact norm cannot be "
        "had from the parts. Use --norms projected, --projection 0, or --engine loop."
    )
    assert traces(model) == []


@pytest.mark.parametrize("words", ["idle", "idle|up_proj"])
def test_a_counted_parameter_without_gradient_is_an_error_and_not_a_zero(words: str) -> None:
    model = cases.architecture("llama")
    model.model.layers[0].mlp.idle = nn.Linear(3, 2, dtype=torch.float64)
    with pytest.raises(UnsupportedError) as error:
        engine(model, words).gradients(cases.batch())
    assert str(error.value) == (
        "No gradient came back to the counted parameter model.layers.0.mlp.idle.weight through its module. Leave it "
        "out with a regular expression in --parameters if the loss does not depend on it, or use --engine loop."
    )
    assert traces(model) == []


class RowsInOneAxis(nn.Module):
    """A linear layer that is shown the tokens of all rows in a single row."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.reshape(1, -1, x.shape[-1])).reshape(*x.shape[:-1], -1)


def test_a_module_that_is_not_told_rows_apart_is_refused_by_name() -> None:
    model = cases.architecture("llama")
    mlp = model.model.layers[0].mlp
    mlp.up_proj = RowsInOneAxis(mlp.up_proj)
    with pytest.raises(UnsupportedError) as error:
        engine(model, "inner").gradients(cases.batch())
    assert str(error.value) == (
        "The hooks engine cannot tell rows apart in model.layers.0.mlp.up_proj.inner, which was called with shape "
        "(1, 48, 16) for 4 rows of 12 tokens. Use --engine loop."
    )


def test_rows_and_tokens_flattened_into_one_axis_are_taken_apart() -> None:
    model = cases.architecture("llama")
    mlp = model.model.layers[0].mlp

    class Flat(RowsInOneAxis):
        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.flatten(0, -2)).reshape(*x.shape[:-1], -1)

    mlp.up_proj = Flat(mlp.up_proj)
    names = [p.name for p in counted_parameters(model, "inner")]
    batch = cases.batch()
    assert_equal_to_autograd(engine(model, "inner").gradients(batch), model, batch, names, 1e-9)


def test_positions_looked_up_once_for_all_rows_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPT-2 looks positions up once where none are given; here they are given per row, so they are taken away."""
    model = cases.architecture("gpt2")
    original = forward.decoder_inputs
    monkeypatch.setattr(
        forward, "decoder_inputs", lambda *a: {k: v for k, v in original(*a).items() if k != "position_ids"}
    )
    batch = cases.batch()
    names = [p.name for p in counted_parameters(model, "wpe")]
    assert_equal_to_autograd(engine(model, "wpe").gradients(batch), model, batch, names, 1e-9)


def test_a_subclass_has_no_formula_since_it_may_compute_something_else() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    model = cases.architecture("llama")
    model.model.layers[0].mlp.up_proj = Doubled(16, 24, bias=False, dtype=torch.float64)
    parameters = counted_parameters(model, "up_proj")
    assert unsupported_by_hooks(model, parameters, Reduction()) == ["model.layers.0.mlp.up_proj.weight"]


def test_a_row_that_is_not_finite_leaves_its_neighbours_alone() -> None:
    model = cases.with_lora(cases.architecture("llama"))
    rows = cases.rows()
    made = engine(model, "lora")
    before = made.gradients(collate(rows, 0))
    others = {int(i) for row in rows[1:] for i in row.input_ids}
    token = next(int(i) for i in rows[0].input_ids if int(i) not in others)
    model.get_input_embeddings().weight.data[token] = float("nan")
    after = made.gradients(collate(rows, 0))
    assert after.is_finite().tolist() == [False, True, True, True]
    for found, expected in zip(after.vectors, before.vectors, strict=True):
        assert torch.equal(found[1:], expected[1:])


def test_shortest_rows_and_one_target() -> None:
    model = cases.with_lora(cases.architecture("gpt2"))
    batch = collate(cases.rows((2,)), 0)
    assert batch.n_target_tokens.tolist() == [1]
    names = [p.name for p in counted_parameters(model, "lora")]
    found: SampleGradients = engine(model, "lora").gradients(batch)
    assert_equal_to_autograd(found, model, batch, names, 1e-9)


def test_parameters_are_in_the_order_given() -> None:
    model = cases.with_lora(cases.architecture("llama"))
    parameters: tuple[CountedParameter, ...] = counted_parameters(model, "lora")[::-1]
    found = HooksEngine(model, parameters, Reduction()).gradients(cases.batch())
    (expected,) = row_gradients(model, cases.rows()[:1], [parameters[0].name])
    torch.testing.assert_close(found.vectors[0][0], expected[parameters[0].name].flatten())
