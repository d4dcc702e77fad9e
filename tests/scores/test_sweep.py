"""Tests gradscore.scores.sweep: scores equal a slow twin, whatever the batches; bad rows and lack of memory."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import PeftModel
from torch import Tensor

from gradscore.config import ScoreConfig
from gradscore.data.batch import Batch, collate
from gradscore.errors import CheckFailedError
from gradscore.gradients.calibrate import layer_scales
from gradscore.gradients.engine import GradientEngine, SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.projection import Projections
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.sketch import CountSketch
from gradscore.model.dropout import dropout_views
from gradscore.model.views import View, ViewSwitch, single_view, with_base
from gradscore.records import NO_TARGET_TOKENS, NON_FINITE, EncodedRow, ScoredRow
from gradscore.scores import sweep as sweep_module
from gradscore.scores.sweep import Sweep
from tests import cases
from tests.reference import row_gradients, row_loss
from tests.scores.test_rows import SCORES

MOMENTUM, EPSILON = 0.8, 1e-12
ROWS = cases.rows((9, 5, 12, 7, 3, 11))
State = dict[str, Tensor]


class Case(NamedTuple):
    """A model with an adapter, and views of two members whose states are also at hand as plain tensors."""

    model: PeftModel
    views: list[View]
    states: dict[str, State]
    start: State


def lora_state(model: PeftModel) -> State:
    return {name: p for name, p in model.named_parameters() if "lora_" in name}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    model = cases.with_lora(cases.architecture("llama", "sdpa")).requires_grad_(False)
    start = {name: p.clone() for name, p in lora_state(model).items()}
    views, states = [], {}
    generator = torch.Generator().manual_seed(5)
    for member, step in itertools.product(range(2), range(3)):
        name = f"member-{member}/step-{step}"
        for parameter in lora_state(model).values():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        folder = tmp_path_factory.mktemp("view")
        model.save_pretrained(folder, save_embedding_layers=False)
        states[name] = {n: p.clone() for n, p in lora_state(model).items()}
        views.append(View(name, "adapter", member, step, str(folder)))
    put(model, start)
    return Case(model, views, states, start)


def put(model: PeftModel, state: State) -> None:
    for name, parameter in lora_state(model).items():
        parameter.copy_(state[name])


def made(model: PeftModel, views: Sequence[View], **changes: object) -> Sweep:
    """Return a sweep with the hooks engine over LoRA gradients, with some fields changed."""
    parameters = counted_parameters(model, str(changes.pop("words", "lora")))
    reduction = changes.pop("reduction", Reduction())
    engine = changes.pop("engine", HooksEngine)(model, parameters, reduction, changes.pop("loss", "mean"))
    settings = {
        "scores": ScoreConfig(momentum=MOMENTUM, epsilon=EPSILON),
        "source": "data.jsonl",
        "pad_id": 0,
        "max_batch_tokens": 30,
        "detailed": frozenset(row.row_key for row in ROWS),
        **changes,
    }
    switch = ViewSwitch(model, views)
    return Sweep(model, engine, switch, tuple(views), parameters, reduction, **settings)


def score(sweep: Sweep, rows: Sequence[EncodedRow] = tuple(ROWS)) -> list[ScoredRow]:
    """Return the scored rows by row index."""
    with sweep.switch:
        scored = [row for batch in sweep.score(rows) for row in batch]
    return sorted(scored, key=lambda row: row.row_index)


def assert_rows_equal(found: Sequence[ScoredRow], expected: Sequence[ScoredRow], rtol: float = 1e-6) -> None:
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        for name, value in dataclasses.asdict(other).items():
            if isinstance(value, float | tuple):
                np.testing.assert_allclose(getattr(one, name), value, rtol=rtol, atol=1e-12, err_msg=name)
            else:
                assert getattr(one, name) == value, name


# The slow twin: one row, one view, one backward pass; every formula as it is written.


def gsnr_by_definition(gradients: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return gsnr and gsnr_unbiased of one row from its gradients [views, p] and their weights."""
    mean = sum(w * g for w, g in zip(weights, gradients, strict=True))
    variance = sum(w * ((g - mean) ** 2).sum() for w, g in zip(weights, gradients, strict=True))
    noise = variance / (1 - (weights**2).sum())
    signal = max(mean @ mean - (weights**2).sum() * noise, 0)
    return np.linalg.norm(mean) / np.sqrt(variance + EPSILON**2), np.sqrt(signal / noise)


def twin(
    model: PeftModel, members: list[list[State]], row: EncodedRow, clip: float = np.inf
) -> dict[str, object]:
    """Return the scores of one row."""
    names = [name for name, _ in model.named_parameters() if "lora_" in name]
    columns: dict[str, list[object]] = {}
    for states in members:
        losses, gradients, layers = [], [], []
        for state in states:
            put(model, state)
            losses.append(row_loss(model, row).item())
            by_name = row_gradients(model, [row], names)[0]
            norm = np.sqrt(sum(float(g.square().sum()) for g in by_name.values()))
            scaled = {n: g * min(1.0, clip / norm) for n, g in by_name.items()}
            gradients.append(torch.cat([g.flatten() for g in scaled.values()]).numpy())
            layers.append(
                [
                    torch.cat([g.flatten() for n, g in scaled.items() if f"layers.{k}." in n]).norm().item()
                    for k in range(2)
                ]
            )
        weights = MOMENTUM ** np.arange(len(states) - 1, -1, -1.0)
        weights /= weights.sum()
        whole = np.stack(gradients)
        gsnr, unbiased = gsnr_by_definition(whole, weights)
        left_out = []
        for r in range(len(states)):
            rest = np.delete(weights, r)
            left_out.append(gsnr_by_definition(np.delete(whole, r, 0), rest / rest.sum())[0])
        norms = np.linalg.norm(whole, axis=1)
        values = {
            "loss": np.mean(losses),
            "loss_first": losses[0],
            "loss_last": losses[-1],
            "grad_norm": norms.mean(),
            "grad_norm_first": norms[0],
            "grad_norm_last": norms[-1],
            "gsnr": gsnr,
            "gsnr_unbiased": unbiased,
            "gsnr_se": np.sqrt((len(states) - 1) * np.var(left_out)),
            "layer_norms": np.mean(layers, axis=0),
            "view_layer_norms": np.ravel(layers),
        }
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    means: dict[str, object] = {name: np.mean(values, axis=0) for name, values in columns.items()}
    means["gsnr_se"] = np.sqrt(np.square(columns["gsnr_se"]).sum()) / len(members)
    if len(members) > 1:
        means["gsnr_spread"] = np.std(columns["gsnr"], ddof=1)
    return means


def assert_equal_to_twin(
    case: Case, views: Sequence[View], members: list[list[State]], clip: float | None = None
) -> None:
    try:
        expected = [twin(case.model, members, row, clip or np.inf) for row in ROWS]
    finally:
        put(case.model, case.start)
    for row, values in zip(score(made(case.model, views, clip=clip)), expected, strict=True):
        assert (row.status, row.n_views) == ("ok", len(members[0]))
        for name, value in values.items():
            np.testing.assert_allclose(getattr(row, name), value, rtol=1e-6, err_msg=name)
        assert {name for name in SCORES if getattr(row, name) is not None} == set(values)


def test_scores_equal_the_slow_twin(case: Case) -> None:
    views = case.views[:3]
    assert_equal_to_twin(case, views, [[case.states[v.name] for v in views]])


def test_members_equal_the_slow_twin_with_mean_and_spread(case: Case) -> None:
    members = [[case.states[v.name] for v in case.views if v.member == m] for m in range(2)]
    assert_equal_to_twin(case, case.views, members)


def test_the_base_view_comes_first_in_each_member(case: Case) -> None:
    members = [[case.start, *(case.states[v.name] for v in case.views if v.member == m)] for m in range(2)]
    assert_equal_to_twin(case, with_base(case.views), members)


def test_clipping_is_by_row_and_view(case: Case) -> None:
    views = case.views[:3]
    norms = [row.grad_norm for row in score(made(case.model, views))]
    clip = float(np.median(norms))
    assert_equal_to_twin(case, views, [[case.states[v.name] for v in views]], clip)


@pytest.mark.parametrize("words", ["lora", "linear"])
@given(max_tokens=st.integers(1, 100), order=st.permutations(ROWS), shards=st.integers(1, 3))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_order_and_shards_do_not_matter(
    words: str, case: Case, max_tokens: int, order: list[EncodedRow], shards: int
) -> None:
    sweep = made(
        case.model,
        case.views[:3],
        words=words,
        reduction=Reduction(Projections(side=4)),
        sketch=CountSketch(5),
    )
    expected = score(sweep)
    other = dataclasses.replace(sweep, max_batch_tokens=max_tokens)
    found = [row for shard in range(shards) for row in score(other, order[shard::shards])]
    assert_rows_equal(sorted(found, key=lambda row: row.row_index), expected)


def test_the_longest_rows_come_first_and_every_row_once(case: Case) -> None:
    sweep = made(case.model, case.views[:1], max_batch_tokens=12)
    batches = [[row.n_tokens for row in batch] for batch in sweep.batches(ROWS)]
    assert batches[0] == [12]
    assert sorted(itertools.chain(*batches)) == sorted(row.n_tokens for row in ROWS)
    assert [[row.n_tokens for row in batch] for batch in sweep.batches(ROWS)] == batches
    assert list(sweep.batches([])) == []


def test_rows_in_a_batch_are_held_under_the_room_for_their_gradients(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = made(case.model, case.views)
    per_row = 3 * 8 * sum(parameter.numel for parameter in sweep.parameters)
    monkeypatch.setattr(sweep_module, "VECTOR_BYTES", {"cpu": 2 * per_row})
    assert sweep.max_rows() == 2
    assert max(len(batch) for batch in sweep.batches(ROWS)) == 2
    monkeypatch.setattr(sweep_module, "VECTOR_BYTES", {"cpu": 1})
    assert sweep.max_rows() == 1


def test_rows_without_score_come_at_once_and_keep_their_status(case: Case) -> None:
    masked = dataclasses.replace(ROWS[1], status=NO_TARGET_TOKENS)
    sweep = made(case.model, case.views[:3])
    with sweep.switch:
        first, *_ = sweep.score([ROWS[0], masked])
    assert [(row.row_index, row.status, row.gsnr) for row in first] == [(1, NO_TARGET_TOKENS, None)]
    assert score(sweep, []) == []
    assert [row.status for row in score(sweep, [masked])] == [NO_TARGET_TOKENS]


def test_one_view_has_no_gsnr(case: Case) -> None:
    row = score(made(case.model, [single_view()]), ROWS[:1])[0]
    assert (row.n_views, row.gsnr, row.gsnr_unbiased, row.gsnr_se) == (1, None, None, None)
    assert row.loss == pytest.approx(row_loss(case.model, ROWS[0]).item())
    assert row.grad_norm > 0


def test_the_model_is_as_before(case: Case) -> None:
    score(made(case.model, case.views))
    assert all(torch.equal(p, case.start[name]) for name, p in lora_state(case.model).items())


def test_gsnr_does_not_depend_on_the_reduction_of_the_loss(case: Case) -> None:
    mean, total = (score(made(case.model, case.views, loss=loss)) for loss in ("mean", "sum"))
    for one, other in zip(mean, total, strict=True):
        for name in ("gsnr", "gsnr_unbiased", "gsnr_se", "gsnr_spread"):
            # Llama's norm layers round to float32 on the way back, at another size of the gradient here.
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-6, abs=1e-6)
        assert other.grad_norm == pytest.approx(one.grad_norm * one.n_target_tokens)
        assert other.loss == pytest.approx(one.loss * one.n_target_tokens)


def test_scores_do_not_depend_on_the_padding_side(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = score(made(case.model, case.views))
    monkeypatch.setattr(sweep_module, "collate", partial(collate, padding_side="left"))
    assert_rows_equal(score(made(case.model, case.views)), expected)


def test_the_sketch_has_the_length_asked_for_and_is_of_the_mean_gradient(case: Case) -> None:
    sketch = CountSketch(7, seed=3)
    views = [v for v in case.views if v.member == 0]
    row = score(made(case.model, views, sketch=sketch), ROWS[:1])[0]
    names = [name for name, _ in case.model.named_parameters() if "lora_" in name]
    mean: dict[str, Tensor] = {name: torch.zeros(1) for name in names}
    weights = MOMENTUM ** np.arange(2, -1, -1.0)
    for view, weight in zip(views, weights / weights.sum(), strict=True):
        put(case.model, case.states[view.name])
        for name, gradient in row_gradients(case.model, ROWS[:1], names)[0].items():
            mean[name] = mean[name] + weight * gradient.flatten()
    put(case.model, case.start)
    expected = sketch.of(tuple(names), tuple(mean[name][None] for name in names))[0]
    np.testing.assert_allclose(row.sketch, expected, rtol=1e-6)
    assert len(row.sketch) == 7
    assert {len(other.sketch) for other in score(made(case.model, case.views, sketch=sketch))} == {7}


@pytest.mark.parametrize("engine", [HooksEngine, LoopEngine])
def test_a_row_that_is_not_finite_has_a_status_and_leaves_its_neighbours_alone(
    case: Case, engine: type[GradientEngine]
) -> None:
    sweep = made(case.model, case.views, engine=engine, max_batch_tokens=1000, sketch=CountSketch(3))
    expected = score(sweep)
    others = {int(i) for row in ROWS if row.row_index != 2 for i in row.input_ids}
    token = next(int(i) for i in ROWS[2].input_ids if int(i) not in others)
    embedding = case.model.get_input_embeddings().weight
    before = embedding[token].clone()
    embedding[token] = float("nan")
    try:
        found = score(sweep)
    finally:
        embedding[token] = before
    assert found[2].status == NON_FINITE
    assert {name: getattr(found[2], name) for name in SCORES} == dict.fromkeys(SCORES)
    assert [row for row in found if row.row_index != 2] == [row for row in expected if row.row_index != 2]


class Tight(GradientEngine):
    """An engine on a card that has room for few rows."""

    name = "tight"

    def __init__(self, engine: GradientEngine, fits: Callable[[Batch], bool]) -> None:
        self.engine, self.fits = engine, fits
        self.sizes: list[int] = []

    def gradients(self, batch: Batch) -> SampleGradients:
        self.sizes.append(len(batch))
        if not self.fits(batch):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return self.engine.gradients(batch)


def test_a_batch_that_does_not_fit_is_halved_until_it_does(case: Case) -> None:
    sweep = made(case.model, case.views, max_batch_tokens=1000)
    tight = Tight(sweep.engine, lambda batch: len(batch) == 1)
    assert_rows_equal(score(dataclasses.replace(sweep, engine=tight)), score(sweep))
    assert max(tight.sizes) == len(ROWS)
    assert tight.sizes.count(1) == len(ROWS) * len(case.views)


def test_a_single_row_that_does_not_fit_is_named(case: Case) -> None:
    sweep = made(case.model, case.views)
    tight = Tight(sweep.engine, lambda batch: batch.rows[0].n_tokens < 12)
    with pytest.raises(CheckFailedError) as error:
        score(dataclasses.replace(sweep, engine=tight))
    assert str(error.value) == (
        "Row 2 alone (12 tokens) does not fit into the memory of cpu: CUDA out of memory. "
        "Pass a smaller --max-length, or --parameters with fewer weights."
    )
    assert all(torch.equal(p, case.start[name]) for name, p in lora_state(case.model).items())


def test_calibration_takes_every_row_under_every_view_and_clips_nothing(case: Case) -> None:
    """Clipping comes after the scales when rows are scored, so that scales of clipped gradients would be wrong."""
    views = case.views[:3]
    plain, clipped = (made(case.model, views, clip=clip) for clip in (None, 1e-3))
    scales = []
    for sweep in (plain, clipped):
        with sweep.switch:
            gradients = list(sweep.gradients(ROWS))
        assert sum(len(g.losses) for g in gradients) == len(ROWS) * len(views)
        scales.append(layer_scales(gradients, sweep.parameters))
    assert scales[0] == scales[1]
    normalised = made(case.model, views, reduction=Reduction(scales=scales[0]))
    with normalised.switch:
        squares = torch.cat([g.norms_squared for g in normalised.gradients(ROWS)])
    torch.testing.assert_close(squares.mean(0), torch.ones(len(plain.parameters), dtype=torch.float64))
    assert score(normalised)[0].gsnr != pytest.approx(score(plain)[0].gsnr, rel=1e-3)


# Dropout views: draws of each row's own.

DROPOUT = dropout_views(3, seed=4)


@pytest.fixture(scope="module")
def dropping() -> PeftModel:
    return cases.with_lora(cases.architecture("llama")).requires_grad_(False)


def test_dropout_rows_are_batches_of_their_own(dropping: PeftModel) -> None:
    sweep = made(dropping, DROPOUT, dropout=0.3)
    assert sweep.max_rows() == 1
    assert [len(batch) for batch in sweep.batches(ROWS)] == [1] * len(ROWS)


def test_dropout_scores_are_repeatable_and_do_not_depend_on_order(dropping: PeftModel) -> None:
    sweep = made(dropping, DROPOUT, dropout=0.3)
    expected = score(sweep)
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    assert score(sweep, ROWS[::-1]) == expected
    assert torch.equal(torch.random.get_rng_state(), before)
    assert score(sweep, ROWS[2:3]) == expected[2:3]
    assert not any(module.training for module in dropping.modules())


def test_dropout_views_differ_from_each_other_and_with_the_seed(dropping: PeftModel) -> None:
    first = score(made(dropping, DROPOUT, dropout=0.3), ROWS[:1])[0]
    assert first.grad_norm_first != pytest.approx(first.grad_norm_last, rel=1e-3)
    assert first.gsnr < 1e3, "equal views would have a signal over epsilon"
    other = score(made(dropping, dropout_views(3, seed=5), dropout=0.3), ROWS[:1])[0]
    assert other.gsnr != pytest.approx(first.gsnr, rel=1e-3)


def test_dropout_draws_follow_the_row_key(dropping: PeftModel) -> None:
    sweep = made(dropping, DROPOUT, dropout=0.3)
    same, other = (
        dataclasses.replace(ROWS[0], row_index=1),
        dataclasses.replace(ROWS[0], row_index=2, row_key="f" * 32),
    )
    first, again, different = (row.grad_norm for row in score(sweep, [ROWS[0], same, other]))
    assert again == first
    assert different != pytest.approx(first, rel=1e-3)


def test_dropout_draws_are_the_same_in_both_engines(dropping: PeftModel) -> None:
    hooks, loop = (
        score(made(dropping, DROPOUT, dropout=0.3, engine=engine)) for engine in (HooksEngine, LoopEngine)
    )
    assert_rows_equal(hooks, loop)


def test_the_random_state_comes_back_after_an_error(dropping: PeftModel) -> None:
    sweep = made(dropping, DROPOUT, dropout=0.3)
    failing = dataclasses.replace(sweep, engine=Tight(sweep.engine, lambda batch: False))
    before = torch.random.get_rng_state()
    with pytest.raises(CheckFailedError):
        score(failing)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not any(module.training for module in dropping.modules())
