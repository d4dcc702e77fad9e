"""Which views make GSNR worth most: reliability and faults found, by how the views of a row are made.

    python scripts/bench_gsnr.py MODEL planted.jsonl --work DIR

`planted.jsonl` is the `rows.jsonl` of a `gradscore validate` folder: rows whose column `fault` says what was planted. Every
way of making views is run with two members that differ in the order of the rows (or, for dropout, in the draws).
Printed for each: quartiles of `gsnr` beside what pure noise would read, the rank correlation between the members,
how far their mean repeats (Spearman-Brown), and the AUROC of that mean for faulty rows scoring lower.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from gradscore.config import DataConfig, GradientConfig, ModelConfig, RunConfig
from gradscore.data.batch import Batch, collate, plan_batches
from gradscore.data.read import read_rows
from gradscore.gradients.choose import choose_reduction
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.dropout import set_dropout
from gradscore.model.trunk import Trunk, first_changing_layer
from gradscore.model.views import View, ViewSwitch, single_view
from gradscore.model.warmup import train_views
from gradscore.records import OK, EncodedRow, SilentReporter
from gradscore.run.opening import open_data_and_model
from gradscore.scores.basis import inner_products, view_basis
from gradscore.scores.moments import gsnr_floor, moments
from gradscore.validate.auroc import Draws, estimate_auroc

LAYERS = "last:8"
STEPS = 40
MEMBERS = 2
DROPOUT = 0.1
MOMENTUM, EPSILON = 0.9, 1e-12
WEIGHTS = r"layers\.(2[2-9])\..*(proj)(\.base_layer)?\.weight$"
"""The weight matrices under the adapter of `LAYERS`, in a model of 30 layers."""

EVEN, BASE = (10, 20, 30, 40), 0
FULL, SLOW, HOT, FOLDS = "2e-4", "5e-5", "1e-3", "2e-4, complementary halves"
WARMUPS = {
    FULL: ModelConfig(learning_rate=2e-4, members=MEMBERS, warmup_steps=2, update_interval=2, views=20),
    SLOW: ModelConfig(learning_rate=5e-5, members=MEMBERS, warmup_steps=10, update_interval=10, views=4),
    HOT: ModelConfig(learning_rate=1e-3, members=MEMBERS, warmup_steps=10, update_interval=10, views=4),
    FOLDS: ModelConfig(
        learning_rate=2e-4, members=MEMBERS, cross_fit=True, warmup_steps=10, update_interval=10, views=4
    ),
}


@dataclass(frozen=True)
class Way:
    """One way of making the views of a member."""

    name: str
    warmup: str = FULL
    steps: tuple[int, ...] = EVEN
    """Snapshots, 0 for the untrained model."""
    draws: int = 0
    """Dropout draws of the newest snapshot in place of snapshots."""
    token_halves: bool = False
    """Odd and even target tokens under the newest snapshot in place of snapshots."""
    weights: bool = False
    """Gradients of the weights under the adapter, projected, instead of the adapter's own."""


WAYS = (
    Way("even: steps 10, 20, 30, 40"),
    Way("even, and the untrained model", steps=(BASE, *EVEN)),
    Way("neighbours: 34, 36, 38, 40", steps=(34, 36, 38, 40)),
    Way("even, learning rate 5e-5", warmup=SLOW),
    Way("even, learning rate 1e-3", warmup=HOT),
    Way("even, members on complementary halves", warmup=FOLDS),
    Way("four dropout draws of step 40", steps=(40,), draws=4),
    Way("odd and even tokens at step 40", steps=(40,), token_halves=True),
    Way("even, weights instead of adapter", weights=True),
    Way("even, learning rate 5e-5, and the untrained model", warmup=SLOW, steps=(BASE, *EVEN)),
)


@dataclass(frozen=True)
class Bench:
    """The model, its rows, and the snapshots of all warm-ups."""

    model: torch.nn.Module
    trunk: Trunk
    rows: list[EncodedRow]
    pad_id: int
    views: dict[str, list[View]]
    adapter_engine: HooksEngine
    weight_engine: HooksEngine

    def batches(self) -> Iterator[tuple[list[int], Batch]]:
        """Yield the places of rows and the rows as a batch past the layers under the adapter."""
        for places in plan_batches([row.n_tokens for row in self.rows], 1024):
            yield places, self.trunk.run(collate([self.rows[i] for i in places], self.pad_id))

    def gradients(self, switch: ViewSwitch, way: Way, member: int, batch: Batch) -> list[SampleGradients]:
        """Return the gradients of a batch under the views of one member."""
        engine = self.weight_engine if way.weights else self.adapter_engine
        found = []
        for step in way.steps:
            switch.activate(
                single_view()
                if step == BASE
                else next(v for v in self.views[way.warmup] if (v.member, v.step) == (member, step))
            )
            if way.draws:
                for draw in range(way.draws):
                    torch.manual_seed(int(batch.rows[0].row_key[:7], 16) + member * way.draws + draw)
                    with set_dropout(self.model, DROPOUT):
                        found.append(engine.gradients(batch))
            elif way.token_halves:
                found += [engine.gradients(half) for half in token_halves(batch)]
            else:
                found.append(engine.gradients(batch))
        return found


def token_halves(batch: Batch) -> list[Batch]:
    """Return the batch twice, with every other target token of each row; a row with one target keeps it in both."""
    position = batch.target_mask.cumsum(1)
    single = batch.target_mask.sum(1, keepdim=True) < 2
    return [
        replace(batch, target_mask=batch.target_mask & ((position % 2 == odd) | single)) for odd in (0, 1)
    ]


def make_bench(options: argparse.Namespace) -> Bench:
    """Load the model, encode the rows, and train every warm-up that is not trained yet."""
    config = RunConfig(
        data=DataConfig(dataset=str(options.planted), max_length=options.max_length),
        model=ModelConfig(model=options.model, lora_layers=LAYERS, dtype=options.dtype),
    )
    source, encoder, loaded = open_data_and_model(config, SilentReporter())
    encoded = [e for row in read_rows(source, config.data) for e in encoder.encode(row)]
    rows = [row for row in encoded if row.status == OK]
    model = attach_adapter(loaded, config.model, 0)
    trunk = Trunk(model, first_changing_layer(lora_tensors(model)), options.work / "trunk")
    warmups = {WAYS[i].warmup for i in options.ways}
    views = {
        name: train_views(
            model,
            rows,
            config=warmup,
            seed=0,
            folder=options.work / f"warmup-{i}",
            pad_id=loaded.pad_id,
            max_batch_tokens=1536,
            trunk=trunk,
        )
        for i, (name, warmup) in enumerate(WARMUPS.items())
        if name in warmups
    }
    model.requires_grad_(False)
    engines = []
    for words in ("lora", WEIGHTS):
        parameters = counted_parameters(model, words)
        reduction = choose_reduction(GradientConfig(), parameters, 0)
        engines.append(HooksEngine(model, parameters, reduction))
    return Bench(model, trunk, rows, loaded.pad_id, views, *engines)


def gsnr_of(bench: Bench, way: Way) -> np.ndarray:
    """Return gsnr of every row under each member, [members, rows]."""
    values = np.full((MEMBERS, len(bench.rows)), np.nan)
    all_views = [view for views in bench.views.values() for view in views]
    with ViewSwitch(bench.model, all_views) as switch:
        for places, batch in bench.batches():
            for member in range(MEMBERS):
                gradients = bench.gradients(switch, way, member, batch)
                products = inner_products(view_basis(gradients))
                values[member, places] = moments(products, MOMENTUM, EPSILON).gsnr
    return values


def report(way: Way, values: np.ndarray, faults: np.ndarray) -> str:
    """Return one line of the table; a duplicate is a sound row by itself and counts as neither sound nor faulty."""
    n_views = way.draws or (2 if way.token_halves else len(way.steps))
    between = float(spearmanr(values[0], values[1]).statistic)
    low, middle, high = np.quantile(values[0], [0.25, 0.5, 0.75])
    mean = np.where(faults == "duplicate", np.nan, np.exp(np.log(values).mean(0)))
    is_faulty = np.array([fault not in (None, "duplicate") for fault in faults])
    auroc = estimate_auroc(mean, is_faulty, Draws.of(faults, 0))
    repeats = 2 * between / (1 + between)
    floor = gsnr_floor(n_views, MOMENTUM) or math.nan
    return (
        f"| {way.name} | {low:.2f} / {middle:.2f} / {high:.2f} | {floor:.2f} | {between:.2f} | {repeats:.2f} "
        f"| {auroc.value:.2f} ({auroc.low:.2f} to {auroc.high:.2f}) |"
    )


def main() -> None:
    """Print one line for each way of making views."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("planted", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--dtype", default="float32", help="bfloat16 is faster on a CPU that multiplies it (AMX)"
    )
    parser.add_argument("--max-length", type=int, default=384)
    parser.add_argument(
        "--ways", default=",".join(map(str, range(len(WAYS)))), help="numbers in WAYS, from 0"
    )
    options = parser.parse_args()
    options.ways = [int(number) for number in options.ways.split(",")]
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    bench = make_bench(options)
    lines = [json.loads(line) for line in options.planted.read_text(encoding="utf-8").splitlines()]
    faults = np.array([lines[row.row_index]["fault"] for row in bench.rows], dtype=object)
    print(
        f"{len(faults)} rows, {sum(fault not in (None, 'duplicate') for fault in faults)} of them faulty\n\n"
        "| views | gsnr at the quartiles | of noise | between members | mean of two | AUROC (95 %) |\n"
        "|---|---|---|---|---|---|"
    )
    for i in options.ways:
        kept = options.work / f"gsnr-{i}.npy"
        if not kept.exists():
            np.save(kept, gsnr_of(bench, WAYS[i]))
        print(report(WAYS[i], np.load(kept), faults), flush=True)


if __name__ == "__main__":
    main()
