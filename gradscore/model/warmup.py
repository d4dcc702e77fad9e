"""Train the adapter for a short while and keep snapshots of it: the warm-up views.

Plain AdamW on the LoRA parameters, with nothing that draws random numbers but the order of the rows, so that
the same seed gives the same snapshots (bit by bit on a CPU). The rate rises over a tenth of `warmup_steps` and
then stays: a run with more views is the same run, continued. Rows of a step are cut into micro-batches of
about equal length under the token budget; each row weighs the same, whatever its length.

A member is written aside and moved into place when its last snapshot is there. A run that was interrupted
trains that member again from its start; it does not go on in the middle, because the optimiser's state would
be twice the size of the adapter for a saving of minutes.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from peft import PeftModel
from safetensors import SafetensorError
from torch import Tensor

from gradscore.config import ModelConfig
from gradscore.data.batch import collate, plan_batches
from gradscore.errors import CheckFailedError, DatasetError, ModelError, StorageError
from gradscore.model.adapter import lora_tensors
from gradscore.model.folds import rows_of_members
from gradscore.model.forward import base_model, sample_losses
from gradscore.model.load import position_boundary
from gradscore.model.trunk import Trunk
from gradscore.model.views import FOLDER, View, adapter_tensors, write_views
from gradscore.records import OK, EncodedRow, Reporter, SilentReporter

MAX_STEPS = 500
MIN_STEPS = 40
MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class WarmupPlan:
    """How long the warm-up trains and when it takes its snapshots."""

    n_rows: int
    batch_size: int
    warmup_steps: int
    update_interval: int
    views: int
    members: int

    @property
    def snapshot_steps(self) -> tuple[int, ...]:
        """Steps after which a snapshot is kept, oldest first."""
        return tuple(self.warmup_steps + k * self.update_interval for k in range(self.views))

    @property
    def steps(self) -> int:
        """Optimiser steps of one member."""
        return self.snapshot_steps[-1]

    @property
    def rows_trained(self) -> int:
        """Rows that go forward and backward in all; over `n_rows` it is the number of training passes."""
        return self.members * self.steps * self.batch_size


def plan_warmup(n_rows: int, config: ModelConfig) -> WarmupPlan:
    """Return the plan for `n_rows` rows; what the configuration leaves open is chosen.

    In all one pass over the rows, since a row that was never trained on has another gradient than one that was;
    at most 500 steps, where the loss of instruction tuning has long settled and which keeps the warm-up of a
    million rows as short as that of 4,000; at least 40, because after few steps B is still so near zero that A has
    hardly any gradient. Snapshots lie evenly over the training: neighbouring ones hardly differ, and the order by
    GSNR repeats a little less and says less about faults (docs/log.md). GradFiltering's 500 steps and one every 50
    are to be asked for.
    """
    batch_size = min(config.warmup_batch_size, n_rows)
    one_pass = math.ceil(n_rows / batch_size) if n_rows else 0
    total = max(MIN_STEPS, min(MAX_STEPS, one_pass))
    steps = config.warmup_steps or max(1, total // config.views)
    interval = config.update_interval or steps
    return WarmupPlan(n_rows, batch_size, steps, interval, config.views, config.members)


def train_views(
    model: PeftModel,
    rows: Sequence[EncodedRow],
    *,
    config: ModelConfig,
    seed: int,
    folder: Path,
    pad_id: int,
    max_batch_tokens: int,
    trunk: Trunk | None = None,
    reporter: Reporter | None = None,
) -> list[View]:
    """Return the warm-up's snapshots, oldest first per member, and list them in `folder`/views/views.json.

    Members that are complete are not trained again. The model ends in the state it had before.

    Raises:
        DatasetError: no row has a target token, or a member would have no row to train on.
        CheckFailedError: the loss became NaN or infinite.
        ModelError: the folder holds snapshots of another warm-up.
        StorageError: a snapshot could not be written.
    """
    usable = [row for row in rows if row.status == OK]
    if not usable:
        raise DatasetError(
            f"None of the {len(rows)} rows has a target token, so there is nothing to train on. Look at them with gradscore preview."
        )
    shown = rows_of_members(usable, config)
    # Every member takes equally many steps, so that their snapshots can be compared.
    plan = plan_warmup(min(map(len, shown)), config)
    home = folder.absolute() / FOLDER
    for member, rows_shown in enumerate(shown):
        trainer = _Trainer(
            model, rows_shown, plan, config.learning_rate, seed, pad_id, max_batch_tokens, trunk
        )
        if not _is_complete(home / f"member-{member}", plan, trainer.identity()):
            trainer.train_member(member, home, reporter or SilentReporter())
    views = [
        View(f"member-{m}/step-{s:06d}", "adapter", m, s, str(home / f"member-{m}" / f"step-{s:06d}"))
        for m in range(plan.members)
        for s in plan.snapshot_steps
    ]
    write_views(folder, views)
    return views


def _is_complete(home: Path, plan: WarmupPlan, identity: str) -> bool:
    if not home.is_dir():
        return False
    try:
        found = json.loads((home / "warmup.json").read_text(encoding="utf-8"))["identity"]
    except (OSError, ValueError, KeyError):
        found = None
    if found != identity or not all((home / f"step-{s:06d}").is_dir() for s in plan.snapshot_steps):
        raise ModelError(
            f"{home} holds snapshots of another warm-up (other rows, settings or starting adapter). "
            "Pass another output, or remove that folder."
        )
    return True


class _Step(NamedTuple):
    step: int
    loss: float
    """Mean over the step's rows of their mean loss, nats per target token."""
    gradient_norm: float
    """L2 norm before clipping."""
    learning_rate: float


@dataclass(frozen=True)
class _Trainer:
    model: PeftModel
    rows: Sequence[EncodedRow]
    plan: WarmupPlan
    learning_rate: float
    seed: int
    pad_id: int
    max_batch_tokens: int
    trunk: Trunk | None

    def identity(self) -> str:
        """Return a hash of all that the snapshots follow from, the starting adapter included."""
        settings = {
            **asdict(self.plan),
            "members": None,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for row in self.rows:
            digest.update(row.row_key.encode())
            digest.update(row.input_ids.tobytes())
            digest.update(row.target_mask.tobytes())
        for name, tensor in adapter_tensors(self.model).items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def train_member(self, member: int, home: Path, reporter: Reporter) -> None:
        """Train one member from the model's present state, which comes back at the end, and keep its snapshots."""
        aside = home / f"member-{member}.partial"
        shutil.rmtree(aside, ignore_errors=True)
        with _storage_errors(aside):
            aside.mkdir(parents=True)
        identity = self.identity()
        start = {name: p.detach().clone() for name, p in lora_tensors(self.model).items()}
        reporter.start(f"warm-up {member + 1}/{self.plan.members}", self.plan.steps, "steps")
        try:
            history = self._train(member, aside, reporter)
        finally:
            reporter.finish()
            with torch.no_grad():
                for name, parameter in lora_tensors(self.model).items():
                    parameter.copy_(start[name])
            self.model.zero_grad()
        log = "".join(json.dumps(step._asdict()) + "\n" for step in history)
        with _storage_errors(aside):
            (aside / "losses.jsonl").write_text(log, encoding="utf-8")
            (aside / "warmup.json").write_text(json.dumps({"identity": identity}) + "\n", encoding="utf-8")
            aside.rename(home / f"member-{member}")
        reporter.message(f"Warm-up of member {member}: {_summary(history)}")

    def _train(self, member: int, aside: Path, reporter: Reporter) -> list[_Step]:
        parameters = list(lora_tensors(self.model).values())
        for parameter in parameters:
            parameter.requires_grad_(True)  # an engine that was made before the warm-up has frozen the model
        optimizer = torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=0.0)
        rise = max(1, self.plan.warmup_steps // 10)
        order = _row_order(len(self.rows), self.seed, member)
        history = []
        for step in range(1, self.plan.steps + 1):
            rate = self.learning_rate * min(1.0, step / rise)
            for group in optimizer.param_groups:
                group["lr"] = rate
            self.model.zero_grad()
            batch = [self.rows[i] for i in islice(order, self.plan.batch_size)]
            loss = self._accumulate(batch)
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT_NORM))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise _diverged(member, _Step(step, loss, norm, self.learning_rate), batch)
            optimizer.step()
            history.append(_Step(step, loss, norm, rate))
            if step in self.plan.snapshot_steps:
                self._save(aside / f"step-{step:06d}")
            reporter.advance()
        return history

    def _save(self, folder: Path) -> None:
        with _storage_errors(folder):
            self.model.save_pretrained(str(folder), save_embedding_layers=False)

    def _accumulate(self, rows: list[EncodedRow]) -> float:
        """Add the gradient of the rows' mean loss to the parameters; return that loss."""
        device = next(self.model.parameters()).device
        total = 0.0
        boundary = position_boundary(base_model(self.model).config)
        lengths = [row.n_tokens for row in rows]
        for places in plan_batches(lengths, self.max_batch_tokens, boundary=boundary):
            batch = collate([rows[i] for i in places], self.pad_id, device)
            if (
                self.trunk is not None and self.trunk.folder is not None
            ):  # else nothing is gained by stopping midway
                batch = self.trunk.run(batch)
            loss: Tensor = sample_losses(self.model, batch).sum() / len(rows)
            loss.backward()
            total += float(loss.detach())
        return total


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Turn what is raised where a file cannot be written into a message for the user."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"The snapshots in {folder} could not be written: {error}. Make room there, then start again; "
            "members that are complete stay."
        ) from error


def _row_order(n_rows: int, seed: int, member: int) -> Iterator[int]:
    """Yield row places forever, each pass in another random order; a member's order depends on seed and member."""
    digest = hashlib.sha256(f"warm-up order\0{seed}\0{member}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    while True:
        yield from torch.randperm(n_rows, generator=generator).tolist()


def _diverged(member: int, at: _Step, rows: list[EncodedRow]) -> CheckFailedError:
    what = f"loss {at.loss}" if not math.isfinite(at.loss) else f"gradient norm {at.gradient_norm}"
    indices = sorted(row.row_index for row in rows)
    if at.step == 1:
        return CheckFailedError(
            f"The model gives {what} on the first rows of the warm-up ({_shown(indices)}), before anything was learned. "
            "Look for NaN in its weights, and try --dtype float32; --view-source single needs no warm-up and marks "
            "such rows one by one, with --no-check."
        )
    return CheckFailedError(
        f"The warm-up diverged: {what} at step {at.step} of member {member} ({_shown(indices)}), at learning rate "
        f"{at.learning_rate:g}. Pass a lower one, such as --learning-rate {at.learning_rate / 10:g}, or --dtype float32 "
        "or bfloat16 if it was float16; or leave these rows out if their text is strange."
    )


def _shown(indices: list[int], limit: int = 8) -> str:
    return "rows " + ", ".join(map(str, indices[:limit])) + (", ..." if len(indices) > limit else "")


def _summary(history: list[_Step]) -> str:
    tenth = max(1, len(history) // 10)
    first = sum(s.loss for s in history[:tenth]) / tenth
    last = sum(s.loss for s in history[-tenth:]) / tenth
    return (
        f"loss {first:.3f} over the first {tenth} steps, {last:.3f} over the last {tenth} of {len(history)}, "
        "each on rows of its own."
    )
