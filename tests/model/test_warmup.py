"""Tests gradscore.model.warmup: the plan, repeatability, resuming, and that snapshots are plain PEFT adapters."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from gradscore.config import ModelConfig
from gradscore.errors import CheckFailedError, DatasetError, ModelError, StorageError
from gradscore.model import warmup
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.folds import fold_of
from gradscore.model.forward import sample_losses
from gradscore.model.views import View, ViewSwitch, list_views
from gradscore.model.warmup import plan_warmup, train_views
from gradscore.records import NO_TARGET_TOKENS, EncodedRow, SilentReporter
from tests.cases import batch, rows
from tests.model.folders import load, save_llama

IDS = torch.tensor([[3, 4, 5, 6]])
SHORT = ModelConfig(
    warmup_steps=4, update_interval=2, views=3, members=2, warmup_batch_size=3, learning_rate=1e-2
)
STEPS = (4, 6, 8)
DATA = rows((9, 5, 12, 7, 20, 4, 6))


class Listener(SilentReporter):
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.started: list[str] = []
        self.steps = 0

    def message(self, text: str) -> None:
        self.messages.append(text)

    def start(self, what: str, total: int | None, unit: str = "rows") -> None:
        self.started.append(f"{what}, {total} {unit}")

    def advance(self, n: int = 1) -> None:
        self.steps += n


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("model") / "llama")


def fresh(model_folder: Path) -> PeftModel:
    return attach_adapter(load(model_folder), ModelConfig(), seed=0)


def train(
    model: PeftModel,
    folder: Path,
    config: ModelConfig = SHORT,
    *,
    data: list[EncodedRow] = DATA,
    seed: int = 0,
    max_batch_tokens: int = 1000,
    listener: Listener | None = None,
) -> list[View]:
    return train_views(
        model,
        data,
        config=config,
        seed=seed,
        folder=folder,
        pad_id=0,
        max_batch_tokens=max_batch_tokens,
        reporter=listener,
    )


def tensors(view: View) -> dict[str, torch.Tensor]:
    return load_file(Path(str(view.path)) / "adapter_model.safetensors")


def equal(one: View, two: View) -> bool:
    a, b = tensors(one), tensors(two)
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


@pytest.mark.parametrize(
    ("n_rows", "steps"), [(1, 10), (100, 10), (400, 12), (1000, 31), (4000, 125), (10**6, 125)]
)
def test_plan_for_few_and_many_rows(n_rows: int, steps: int) -> None:
    plan = plan_warmup(n_rows, ModelConfig())
    assert plan.snapshot_steps == tuple(k * steps for k in (1, 2, 3, 4))


@given(st.integers(1, 10**7), st.integers(1, 64), st.integers(1, 9), st.integers(1, 4))
def test_every_plan_is_bounded_and_consistent(n_rows: int, size: int, views: int, members: int) -> None:
    plan = plan_warmup(n_rows, ModelConfig(warmup_batch_size=size, views=views, members=members))
    assert 40 - views < plan.steps <= 500
    assert plan.update_interval == plan.warmup_steps
    assert len(set(plan.snapshot_steps)) == views
    assert plan.batch_size <= n_rows
    assert plan.rows_trained == members * plan.snapshot_steps[-1] * min(size, n_rows)


def test_given_steps_are_taken() -> None:
    plan = plan_warmup(10**6, ModelConfig(warmup_steps=700, update_interval=3, views=2))
    assert plan.snapshot_steps == (700, 703)


def test_snapshots_are_listed_and_load_with_plain_peft(model_folder: Path, tmp_path: Path) -> None:
    model, listener = fresh(model_folder), Listener()
    views = train(model, tmp_path, listener=listener)
    assert views == list_views(tmp_path)
    assert [v.name for v in views] == [f"member-{m}/step-{s:06d}" for m in (0, 1) for s in STEPS]
    assert listener.started == ["warm-up 1/2, 8 steps", "warm-up 2/2, 8 steps"]
    assert listener.steps == 16
    with ViewSwitch(model, views) as switch, torch.no_grad():
        for view in views:
            switch.activate(view)
            config = json.loads((Path(str(view.path)) / "adapter_config.json").read_text())
            base = AutoModelForCausalLM.from_pretrained(config["base_model_name_or_path"])
            plain = PeftModel.from_pretrained(base, str(view.path)).eval()
            assert torch.equal(model(input_ids=IDS).logits, plain(input_ids=IDS).logits)


def test_training_lowers_the_loss_and_says_so(model_folder: Path, tmp_path: Path) -> None:
    model, listener = fresh(model_folder), Listener()
    config = replace(SHORT, warmup_steps=30, members=1, views=1)
    (view,) = train(model, tmp_path, config, listener=listener)
    with torch.no_grad(), ViewSwitch(model, [view]) as switch:
        before = sample_losses(model, batch()).mean()
        switch.activate(view)
        after = sample_losses(model, batch()).mean()
    assert after < before - 0.1
    entries = [
        json.loads(line) for line in (Path(str(view.path)).parent / "losses.jsonl").read_text().splitlines()
    ]
    assert [e["step"] for e in entries] == list(range(1, 31))
    assert [e["learning_rate"] for e in entries[:4]] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2, 1e-2])
    means = [sum(e["loss"] for e in part) / 3 for part in (entries[:3], entries[-3:])]
    assert listener.messages == [
        f"Warm-up of member 0: loss {means[0]:.3f} over the first 3 steps, {means[1]:.3f} over the last 3 of 30, "
        "each on rows of its own."
    ]


def test_model_and_random_numbers_are_as_before(model_folder: Path, tmp_path: Path) -> None:
    model = fresh(model_folder)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    state = torch.get_rng_state()
    train(model, tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())
    assert not model.training


def test_same_seed_gives_the_same_bits_and_another_seed_others(model_folder: Path, tmp_path: Path) -> None:
    one = train(fresh(model_folder), tmp_path / "one")
    torch.manual_seed(99)
    two = train(fresh(model_folder), tmp_path / "two")
    other = train(fresh(model_folder), tmp_path / "other", seed=1)
    assert all(equal(a, b) for a, b in zip(one, two, strict=True))
    assert not any(equal(a, b) for a, b in zip(one, other, strict=True))


def test_members_start_alike_and_differ_by_order(model_folder: Path, tmp_path: Path) -> None:
    views = train(fresh(model_folder), tmp_path)
    assert not equal(views[0], views[3])
    alone = train(fresh(model_folder), tmp_path / "alone", replace(SHORT, members=1))
    assert all(equal(a, b) for a, b in zip(alone, views, strict=False))


def test_more_views_continue_the_same_run(model_folder: Path, tmp_path: Path) -> None:
    few = train(fresh(model_folder), tmp_path / "few", replace(SHORT, views=2))
    many = train(fresh(model_folder), tmp_path / "many")
    assert equal(few[0], many[0])
    assert equal(few[1], many[1])


def test_token_budget_does_not_change_the_training(model_folder: Path, tmp_path: Path) -> None:
    config = replace(SHORT, members=1, views=1)
    (whole,) = train(fresh(model_folder), tmp_path / "whole", config)
    (cut,) = train(fresh(model_folder), tmp_path / "cut", config, max_batch_tokens=1)
    for name, tensor in tensors(whole).items():
        # AdamW divides by the gradient's own size, which turns rounding of tiny gradients into small steps.
        torch.testing.assert_close(tensors(cut)[name], tensor, atol=1e-4, rtol=1e-3)


def test_each_row_weighs_the_same_in_a_step(model_folder: Path, tmp_path: Path) -> None:
    config = replace(SHORT, warmup_steps=1, views=1, members=1, warmup_batch_size=4)
    (view,) = train(fresh(model_folder), tmp_path, config, data=rows(), max_batch_tokens=15)
    entry = json.loads((Path(str(view.path)).parent / "losses.jsonl").read_text())
    model = fresh(model_folder)
    loss = sample_losses(model, batch()).mean()
    loss.backward()
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in lora_tensors(model).values()))
    assert entry["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert entry["gradient_norm"] == pytest.approx(norm, rel=1e-4)


def test_complete_members_are_not_trained_again(model_folder: Path, tmp_path: Path) -> None:
    first = train(fresh(model_folder), tmp_path)
    times = [Path(str(v.path)).stat().st_mtime_ns for v in first]
    listener = Listener()
    assert train(fresh(model_folder), tmp_path, listener=listener) == first
    assert (listener.steps, listener.messages) == (0, [])
    assert [Path(str(v.path)).stat().st_mtime_ns for v in first] == times


def test_interrupted_run_ends_as_an_undisturbed_one(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = train(fresh(model_folder), tmp_path / "undisturbed")

    class Interrupt(Listener):
        def advance(self, n: int = 1) -> None:
            super().advance(n)
            if self.steps == 8 + 7:
                raise KeyboardInterrupt

    model = fresh(model_folder)
    before = {n: p.detach().clone() for n, p in lora_tensors(model).items()}
    with pytest.raises(KeyboardInterrupt):
        train(model, tmp_path / "run", listener=Interrupt())
    assert all(torch.equal(p, before[n]) for n, p in lora_tensors(model).items())
    assert sorted(f.name for f in (tmp_path / "run" / "views").iterdir()) == ["member-0", "member-1.partial"]
    listener = Listener()
    resumed = train(fresh(model_folder), tmp_path / "run", listener=listener)
    assert listener.started == ["warm-up 2/2, 8 steps"]
    assert all(equal(a, b) for a, b in zip(undisturbed, resumed, strict=True))
    assert not (tmp_path / "run" / "views" / "member-1.partial").exists()


def test_snapshots_of_another_warm_up_are_refused(model_folder: Path, tmp_path: Path) -> None:
    train(fresh(model_folder), tmp_path)
    with pytest.raises(
        ModelError, match=r"member-0 holds snapshots of another warm-up.* Pass another output"
    ):
        train(fresh(model_folder), tmp_path, seed=1)
    with pytest.raises(ModelError, match=r"another warm-up"):
        train(fresh(model_folder), tmp_path, data=DATA[:-1])
    other_start = attach_adapter(load(model_folder), ModelConfig(), seed=5)
    with pytest.raises(ModelError, match=r"another warm-up"):
        train(other_start, tmp_path)


def test_rows_without_a_target_are_left_out(model_folder: Path, tmp_path: Path) -> None:
    config = replace(SHORT, members=1)
    empty = replace(DATA[0], status=NO_TARGET_TOKENS, row_key="f" * 32)
    with_empty = train(fresh(model_folder), tmp_path / "with", config, data=[empty, *DATA])
    without = train(fresh(model_folder), tmp_path / "without", config)
    assert all(equal(a, b) for a, b in zip(with_empty, without, strict=True))
    with pytest.raises(DatasetError, match=r"None of the 1 rows has a target token"):
        train(fresh(model_folder), tmp_path / "none", config, data=[empty])
    with pytest.raises(DatasetError, match=r"None of the 0 rows"):
        train(fresh(model_folder), tmp_path / "none", config, data=[])


def test_single_row_is_enough(model_folder: Path, tmp_path: Path) -> None:
    assert len(train(fresh(model_folder), tmp_path, data=DATA[:1])) == 6


def test_divergence_names_the_step_and_a_lower_rate(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))
    factors = [1.0, 1.0, float("nan")]
    monkeypatch.setattr(
        warmup, "sample_losses", lambda model, batch: sample_losses(model, batch) * factors[next(calls)]
    )
    with pytest.raises(
        CheckFailedError, match=r"step 3 of member 0 \(rows .*\), at learning rate 0\.01\. .*rate 0\.001"
    ):
        train(fresh(model_folder), tmp_path)
    assert not (tmp_path / "views" / "member-0").exists()


def test_a_loss_that_is_nan_from_the_start_is_no_matter_of_the_rate(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        warmup, "sample_losses", lambda model, batch: sample_losses(model, batch) * float("nan")
    )
    with pytest.raises(CheckFailedError, match=r"loss nan on the first rows .*before anything was learned"):
        train(fresh(model_folder), tmp_path)


@pytest.mark.parametrize("full", ["losses.jsonl", "warmup.json", "views.json.partial", "member-0.partial"])
def test_full_disk_is_told_wherever_it_shows(
    full: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text, mkdir = Path.write_text, Path.mkdir

    def checked(path: Path) -> None:
        if path.name == full:
            raise OSError(28, "No space left on device")

    def write_or_fail(path: Path, *arguments: Any, **options: Any) -> int:
        checked(path)
        return write_text(path, *arguments, **options)

    def mkdir_or_fail(path: Path, *arguments: Any, **options: Any) -> None:
        checked(path)
        mkdir(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_or_fail)
        patch.setattr(Path, "mkdir", mkdir_or_fail)
        with pytest.raises(StorageError, match=r"could not be written: .*No space left.* Make room"):
            train(fresh(model_folder), tmp_path)
    assert len(train(fresh(model_folder), tmp_path)) == 6


def test_full_disk_is_told(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    model = fresh(model_folder)
    monkeypatch.setattr(PeftModel, "save_pretrained", full)
    with pytest.raises(StorageError, match=r"step-000004 could not be written: .*No space left.* Make room"):
        train(model, tmp_path)


def test_a_cross_fitted_member_is_a_plain_warm_up_without_its_fold(
    model_folder: Path, tmp_path: Path
) -> None:
    keyed = [replace(row, row_key=f"{i:08x}{row.row_key[8:]}") for i, row in enumerate(DATA)]
    config = replace(SHORT, members=2)
    views = train(fresh(model_folder), tmp_path / "folds", replace(config, cross_fit=True), data=keyed)
    for member in (0, 1):
        others = [row for row in keyed if fold_of(row.row_key, 2) != member]
        plain = train(fresh(model_folder), tmp_path / f"without-{member}", config, data=others)
        same = [view for view in plain if view.member == member]
        found = [view for view in views if view.member == member]
        assert all(equal(a, b) for a, b in zip(found, same, strict=True))
