"""Tests gradscore.scores.measuring: each measure of a sweep equals a slow twin; passes change nothing else."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from peft import PeftModel

from gradscore.config import ScoreConfig
from gradscore.data.alone import AnswerFrame
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.positions import Positions
from gradscore.gradients.reduction import Reduction
from gradscore.measures import MEASURES
from gradscore.model.views import View, ViewSwitch
from gradscore.records import EncodedRow, ScoredRow
from gradscore.scores.measuring import Measuring
from gradscore.scores.sweep import Sweep
from tests import cases
from tests.reference import row_gradients, row_loss

ROWS = cases.rows((9, 6, 12))
FRAME = AnswerFrame(opening=(1, 7, 9), between=(11,), max_tokens=64)
STOP = int(ROWS[1].input_ids[-1])
NUMBERS = frozenset({54, 41, 12, 43})
"""Tokens that stand for numbers: two targets of the first row, none of the second, several of the third."""


def made(model: PeftModel, views: Sequence[View], *names: str, **changes: object) -> Sweep:
    parameters = counted_parameters(model, str(changes.pop("words", "lora")))
    reduction = changes.pop("reduction", Reduction())
    loss = changes.pop("loss", "mean")
    switch = ViewSwitch(model, views)
    sweep = Sweep(
        model, HooksEngine(model, parameters, reduction, loss), switch, tuple(views), parameters, reduction,
        ScoreConfig(), "data.jsonl", 0, changes.pop("max_batch_tokens", 1000), **changes,
    )  # fmt: skip
    watching = HooksEngine(model, parameters, dataclasses.replace(reduction, positions=Positions()), loss)
    measuring = Measuring(
        names=names or tuple(MEASURES),
        model=model,
        switch=switch,
        parameters=parameters,
        reduction=reduction,
        scores=ScoreConfig(gsnr_paper="std"),
        collated=sweep.collated,
        gradients=sweep.scored_gradients,
        loss=loss,
        stop_ids=frozenset({STOP}),
        number_ids=NUMBERS,
        frame=FRAME,
        token_engine=watching if not names or any("token" in name for name in names) else None,
    )
    return dataclasses.replace(sweep, measuring=measuring)


def score(sweep: Sweep, rows: Sequence[EncodedRow] = tuple(ROWS)) -> list[ScoredRow]:
    with sweep.switch:
        scored = [row for batch in sweep.score(rows) for row in batch]
    return sorted(scored, key=lambda row: row.row_index)


class Case:
    """A model with an adapter, two members of two views, and the slow twin's numbers of each."""

    def __init__(self, name: str, folder: object) -> None:
        self.plain = cases.architecture(name)
        self.model = cases.with_lora(cases.architecture(name)).requires_grad_(False)
        names = [n for n, _ in self.model.named_parameters() if "lora_" in n]
        start = {n: p.clone() for n, p in self.model.named_parameters() if "lora_" in n}
        generator = torch.Generator().manual_seed(3)
        self.views: list[View] = []
        self.gradients: list[list[dict[str, torch.Tensor]]] = []
        self.losses: list[list[float]] = []
        for place in range(4):
            for n in names:
                parameter = self.model.get_parameter(n)
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            path = folder / f"{name}-{place}"
            self.model.save_pretrained(path, save_embedding_layers=False)
            self.views.append(View(f"view-{place}", "adapter", place // 2, place % 2, str(path)))
            self.gradients.append(row_gradients(self.model, ROWS, names))
            self.losses.append([row_loss(self.model, row).item() for row in ROWS])
        for n, values in start.items():
            self.model.get_parameter(n).copy_(values)

    def alone_vector(self, view: int, row: EncodedRow) -> np.ndarray:
        """Return the gradient of a row without its instruction under one of the views."""
        names = [n for n, _ in self.model.named_parameters() if "lora_" in n]
        with ViewSwitch(self.model, self.views) as switch:
            switch.activate(self.views[view])
            gradients = row_gradients(self.model, [row], names)[0]
        return torch.cat([g.flatten() for g in gradients.values()]).numpy()

    def vector(self, view: int, row: int) -> np.ndarray:
        return torch.cat([g.flatten() for g in self.gradients[view][row].values()]).numpy()


@pytest.fixture(scope="module", params=["gpt2", "llama", "gemma2", "gpt_neox", "phi3"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("views"))


def assert_equal(found: Sequence[ScoredRow], name: str, expected: Sequence[float]) -> None:
    np.testing.assert_allclose([row.measures[name] for row in found], expected, rtol=1e-6, err_msg=name)


def test_measures_of_the_views_equal_the_slow_twin(case: Case) -> None:
    found = score(made(case.model, case.views, "consistency", "gsnr_paper", "effective_rank"))
    consistency, paper, rank = [], [], []
    for i in range(len(ROWS)):
        g = [case.vector(v, i) for v in range(4)]
        norms = [np.linalg.norm(v) for v in g]
        consistency.append(np.mean([g[m] @ g[m + 1] / norms[m] / norms[m + 1] for m in (0, 2)]))
        early, late = (norms[0] + norms[2]) / 2, (norms[1] + norms[3]) / 2
        paper.append((early - late) / early / np.std([norms[1], norms[3]], ddof=1))
        ranks = []
        for view in (1, 3):
            for matrix in case.gradients[view][i].values():
                sigma = torch.linalg.svdvals(matrix)
                share = sigma / sigma.sum()
                ranks.append(float(torch.exp(-(share * share.log()).sum())))
        rank.append(np.mean(ranks))
    assert_equal(found, "consistency", consistency)
    assert_equal(found, "gsnr_paper", paper)
    assert_equal(found, "effective_rank", rank)


def test_measures_of_the_model_without_its_adapter_equal_the_slow_twin(case: Case) -> None:
    found = score(made(case.model, case.views))
    losses = [row_loss(case.plain, row).item() for row in ROWS]
    assert_equal(found, "base_loss", losses)
    assert_equal(found, "perplexity", np.exp(losses))
    newest = np.mean([case.losses[1], case.losses[3]], axis=0)
    assert_equal(found, "loss_drop", losses - newest)
    for name, of_token in (("entropy", _entropy), ("el2n", _distance)):
        expected = [np.mean([of_token(p, t) for p, t in _predicted(case.plain, row)]) for row in ROWS]
        assert_equal(found, name, expected)


def test_the_worst_surprise_is_told_of_all_tokens_and_of_numbers(case: Case) -> None:
    found = score(made(case.model, case.views, "peak_excess", "number_excess"))
    excesses = [[(-np.log(p[t]) - _entropy(p, t), t) for p, t in _predicted(case.plain, row)] for row in ROWS]
    assert_equal(found, "peak_excess", [max(excess)[0] for excess in excesses])
    of_numbers = [[value for value, token in excess if token in NUMBERS] for excess in excesses]
    assert [bool(values) for values in of_numbers] == [True, False, True]
    for row, values in zip(found, of_numbers, strict=True):
        assert row.measures["number_excess"] == (pytest.approx(max(values)) if values else None)


def _predicted(model: torch.nn.Module, row: EncodedRow) -> list[tuple[np.ndarray, int]]:
    logits = model(input_ids=torch.from_numpy(row.input_ids)[None], use_cache=False).logits[0]
    p = torch.softmax(logits, -1).numpy()
    return [(p[t - 1], int(row.input_ids[t])) for t in np.flatnonzero(row.target_mask)]


def _entropy(p: np.ndarray, _token: int) -> float:
    return float(-(p * np.log(p)).sum())


def _distance(p: np.ndarray, token: int) -> float:
    wanted = np.zeros_like(p)
    wanted[token] = 1.0
    return float(np.linalg.norm(p - wanted))


def test_the_stop_token_has_a_loss_of_its_own_where_the_row_ends_in_it(case: Case) -> None:
    cut = dataclasses.replace(ROWS[1], row_index=7, truncated=True)
    found = score(made(case.model, case.views, "stop_loss"), [*ROWS, cut])
    p, token = _predicted(case.plain, ROWS[1])[-1]
    assert found[1].measures["stop_loss"] == pytest.approx(-np.log(p[token]))
    assert [row.measures["stop_loss"] for row in (found[0], found[2], found[3])] == [None, None, None]


def test_losses_that_are_summed_drop_by_the_token_all_the_same(case: Case) -> None:
    mean, total = (score(made(case.model, case.views, loss=loss)) for loss in ("mean", "sum"))
    for one, other in zip(mean, total, strict=True):
        assert other.measures["loss_drop"] == pytest.approx(one.measures["loss_drop"])
        assert other.measures["base_loss"] == pytest.approx(one.measures["base_loss"])


def test_measures_change_no_other_column_and_not_the_model(case: Case) -> None:
    sweep = made(case.model, case.views)
    before = {n: p.clone() for n, p in case.model.named_parameters()}
    plain = score(dataclasses.replace(sweep, measuring=None))
    assert [dataclasses.replace(row, measures={}) for row in score(sweep)] == plain
    assert all(torch.equal(p, before[n]) for n, p in case.model.named_parameters())
    assert not any(p.requires_grad for p in case.model.parameters())


def test_only_what_was_asked_for_is_there(case: Case) -> None:
    assert set(score(made(case.model, case.views, "el2n"))[0].measures) == {"el2n"}
    assert set(score(made(case.model, case.views, "consistency"))[0].measures) == {"consistency"}


def test_with_one_view_nothing_is_made_up(case: Case) -> None:
    row = score(made(case.model, case.views[:1]))[0]
    assert row.measures.get("consistency") is None
    assert row.measures.get("gsnr_paper") is None
    assert row.measures["base_loss"] > 0


def test_a_thinned_gradient_has_no_effective_rank(case: Case) -> None:
    thinned = made(case.model, case.views, "effective_rank", reduction=Reduction(stride=2))
    assert "effective_rank" not in score(thinned)[0].measures


# Without the instruction.


def test_the_loss_without_the_instruction_and_ifd_equal_the_slow_twin(case: Case) -> None:
    found = score(made(case.model, case.views, "ifd", "loss_alone"))
    without = [row_loss(case.plain, FRAME.alone(row)).item() for row in ROWS]
    assert_equal(found, "loss_alone", without)
    assert_equal(found, "ifd", [row_loss(case.plain, row).item() for row in ROWS] / np.array(without))


def test_contrast_equals_the_slow_twin(case: Case) -> None:
    found = score(made(case.model, case.views, "contrast_norm", "contrast_cosine", max_batch_tokens=15))
    norms, cosines = [], []
    for i, row in enumerate(ROWS):
        pairs = [(case.vector(v, i), case.alone_vector(v, FRAME.alone(row))) for v in (1, 3)]
        norms.append(np.mean([np.linalg.norm(a) - np.linalg.norm(b) for a, b in pairs]))
        cosines.append(np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))
    assert_equal(found, "contrast_norm", norms)
    assert_equal(found, "contrast_cosine", cosines)


def test_rows_without_an_instruction_have_no_value_and_leave_the_others_alone(case: Case) -> None:
    names = ("ifd", "loss_alone", "contrast_norm", "contrast_cosine")
    whole = dataclasses.replace(ROWS[0], row_index=9, target_mask=np.arange(9) > 0)
    *found, last = score(made(case.model, case.views, *names), [*ROWS, whole])
    assert last.measures == dict.fromkeys(last.measures)
    assert set(last.measures) == set(names)
    for row, other in zip(found, score(made(case.model, case.views, *names)), strict=True):
        for name in names:
            assert row.measures[name] == pytest.approx(other.measures[name], rel=1e-9)
    nothing = dataclasses.replace(made(case.model, case.views, *names).measuring, frame=None)
    sweep = dataclasses.replace(made(case.model, case.views, *names), measuring=nothing)
    assert score(sweep)[0].measures == dict.fromkeys(names)


# Tokens as views.


def contributions(model: PeftModel, row: EncodedRow) -> np.ndarray:
    """Return what each predicting position passes to the gradients of all A and B, [tokens, parameters].

    In plain words: every position gets adapter weights of its own, all equal, and autograd differentiates by each.
    """
    layers = {n: m for n, m in model.named_modules() if ".lora_A." in n or ".lora_B." in n}
    layers = {n: m for n, m in layers.items() if isinstance(m, torch.nn.Linear)}
    length = row.n_tokens
    own = {
        n: m.weight.detach().expand(length, *m.weight.shape).clone().requires_grad_(True)
        for n, m in layers.items()
    }
    handles = [
        m.register_forward_hook(lambda _m, x, _y, w=own[n]: torch.einsum("toi,nti->nto", w, x[0]))
        for n, m in layers.items()
    ]
    try:
        gradients = torch.autograd.grad(row_loss(model, row), list(own.values()))
    finally:
        for handle in handles:
            handle.remove()
    by_position = torch.cat([g.flatten(1) for g in gradients], 1).numpy()
    return by_position[np.flatnonzero(row.target_mask) - 1]


def test_gsnr_over_tokens_equals_the_slow_twin(case: Case) -> None:
    found = score(made(case.model, case.views, "gsnr_token", "gsnr_token_unbiased"))
    plain, unbiased = [], []
    for row in ROWS:
        values = []
        for view in (case.views[1], case.views[3]):
            with ViewSwitch(case.model, case.views) as switch:
                switch.activate(view)
                c = contributions(case.model, row)
            mean, t = c.mean(0), len(c)
            variance = ((c - mean) ** 2).sum() / t
            noise = variance / (1 - 1 / t)
            signal = max(mean @ mean - noise / t, 0.0)
            values.append((np.sqrt(mean @ mean / variance), np.sqrt(signal / noise)))
        plain.append(np.mean([v[0] for v in values]))
        unbiased.append(np.mean([v[1] for v in values]))
    assert_equal(found, "gsnr_token", plain)
    np.testing.assert_allclose(
        [row.measures["gsnr_token_unbiased"] for row in found], unbiased, rtol=1e-6, atol=1e-9
    )


def test_watching_positions_changes_no_score_and_does_not_depend_on_the_batch(case: Case) -> None:
    sweep = made(case.model, case.views, "gsnr_token", "gsnr_token_unbiased")
    found = score(sweep)
    assert [dataclasses.replace(row, measures={}) for row in found] == score(
        dataclasses.replace(sweep, measuring=None)
    )
    one_by_one = made(case.model, case.views, "gsnr_token", "gsnr_token_unbiased", max_batch_tokens=1)
    for row, other in zip(score(one_by_one), found, strict=True):
        assert row.measures == pytest.approx(other.measures, rel=1e-9, abs=1e-9)
