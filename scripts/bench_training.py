"""Does training on the rows that a column prefers help? Fine-tunes on the top share by each column, and on matched random sets.

    python scripts/bench_training.py MODEL data.json --work DIR [--rows 240] [--keep 0.3] [--seeds 3]
    python scripts/bench_training.py MODEL data.json --work DIR --columns quality,gsnr --quality quality.json

1. A sample of the dataset is split into a pool and held-out rows; faults are planted into 20 % of the pool alone.
2. The pool is scored (`gradscore score`); a `quality` model is used if `--quality` names one that was
   fitted on other rows.
3. A LoRA on the upper layers is trained on every selection with the warm-up's own trainer, once per seed (order of
   the rows), and the mean loss of the clean held-out rows is taken after as many passes over the selection as over
   the whole pool (equal epochs), and after as many steps (equal steps).

Selections: the best `--keep` by each of `--columns`; random ones; random ones with the quantiles of the columns `--matched`
that the first column's selection has; everything; and two that no one has in practice, a random choice among the sound rows
of the pool and all of them. A column is ranked in the direction that its dictionary gives, or high first as `+NAME`, low
first as `-NAME`; `A>B` leaves out the worst `--leave-out` by A and ranks the others by B. Gains are falls of the held-out loss from the untrained model, in nats per token;
an interval is 1.96 standard errors over held-out rows and seeds of the difference to random of the same rows.
"""

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import torch

from gradscore.config import DataConfig, ModelConfig, RunConfig, ScoreConfig, TableConfig
from gradscore.data.batch import collate, plan_batches
from gradscore.data.read import read_rows
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.forward import sample_losses
from gradscore.model.trunk import Trunk, first_changing_layer
from gradscore.model.views import ViewSwitch
from gradscore.model.warmup import train_views
from gradscore.pipeline import score_dataset
from gradscore.records import OK, EncodedRow, SilentReporter
from gradscore.run.opening import open_data_and_model
from gradscore.table.read import read_table
from gradscore.validate.faults import choose_kinds
from gradscore.validate.plant import plant, planted_bytes, read_sample

CONTAMINATION = 0.2
LAYERS = "last:8"
BATCH_SIZE = 8
LEARNING_RATE = 5e-4
PASSES = 1
MAX_LENGTH = 256
MEASURES = "default,ifd,alignment"
MATCHED = "base_loss,ifd,n_target_tokens"


@dataclass(frozen=True)
class Trainer:
    """Trains a LoRA on some rows of the pool and measures the held-out loss."""

    model: torch.nn.Module
    trunk: Trunk
    pool: dict[int, EncodedRow]
    held_out: list[EncodedRow]
    pad_id: int
    work: Path

    def losses(self, rows: list[int], seed: int) -> dict[str, list[float]]:
        """Return the held-out losses after equally many passes and after equally many steps as on the whole pool."""
        n_steps = {
            "equal epochs": math.ceil(PASSES * len(rows) / BATCH_SIZE),
            "equal steps": math.ceil(PASSES * len(self.pool) / BATCH_SIZE),
        }
        first, last = n_steps.values()
        plan = ModelConfig(
            warmup_steps=first,
            update_interval=max(1, last - first),
            views=2 if last > first else 1,
            warmup_batch_size=BATCH_SIZE,
            learning_rate=LEARNING_RATE,
        )
        name = f"{abs(hash((tuple(rows), seed))):x}"
        views = train_views(
            self.model,
            [self.pool[i] for i in rows],
            config=plan,
            seed=seed,
            folder=self.work / "trained" / name,
            pad_id=self.pad_id,
            max_batch_tokens=1536,
            trunk=self.trunk,
        )
        by_step = {}
        with ViewSwitch(self.model, views) as switch:
            for view in views:
                switch.activate(view)
                by_step[view.step] = self.held_out_losses()
        return {name: by_step[steps] for name, steps in n_steps.items()}

    def held_out_losses(self) -> list[float]:
        """Return the loss of every held-out row under the model's present state."""
        losses = np.zeros(len(self.held_out))
        with torch.no_grad():
            for places in plan_batches([row.n_tokens for row in self.held_out], 1536):
                batch = self.trunk.run(collate([self.held_out[i] for i in places], self.pad_id))
                losses[places] = sample_losses(self.model, batch).numpy()
        return losses.tolist()


def write_pool(options: argparse.Namespace) -> tuple[Path, Path]:
    """Write the pool with its planted faults, and the held-out rows as they are."""
    data = DataConfig(dataset=options.dataset, sample=options.rows + options.held_out, seed=options.seed)
    rows, schema = read_sample(data)
    Random(options.seed).shuffle(rows)
    held_out, pool = rows[: options.held_out], rows[options.held_out :]
    planted = plant(pool, schema, choose_kinds(None), CONTAMINATION, options.seed)
    paths = options.work / "pool.jsonl", options.work / "held_out.jsonl"
    options.work.mkdir(parents=True, exist_ok=True)
    paths[0].write_bytes(planted_bytes(planted))
    lines = [json.dumps(row.content, ensure_ascii=False) + "\n" for row in held_out]
    paths[1].write_text("".join(lines), encoding="utf-8")
    return paths


def make_trainer(options: argparse.Namespace, pool: Path, held_out: Path) -> Trainer:
    """Return the trainer with both sets of rows encoded."""
    config = RunConfig(
        data=DataConfig(dataset=str(pool), max_length=MAX_LENGTH),
        model=ModelConfig(model=options.model, lora_layers=LAYERS, dtype=options.dtype),
    )
    source, encoder, loaded = open_data_and_model(config, SilentReporter())
    model = attach_adapter(loaded, config.model, options.seed)
    encoded = [e for row in read_rows(source, config.data) for e in encoder.encode(row)]
    other = replace(config, data=replace(config.data, dataset=str(held_out)))
    other_source, other_encoder, _ = open_data_and_model(other, SilentReporter())
    kept_out = [e for row in read_rows(other_source, other.data) for e in other_encoder.encode(row)]
    return Trainer(
        model=model,
        trunk=Trunk(model, first_changing_layer(lora_tensors(model)), options.work / "trunk"),
        pool={row.row_index: row for row in encoded if row.status == OK},
        held_out=[row for row in kept_out if row.status == OK],
        pad_id=loaded.pad_id,
        work=options.work,
    )


def score_pool(options: argparse.Namespace, pool: Path) -> pd.DataFrame:
    """Return the score table of the pool, with the faults beside it."""
    output = options.work / "scores.parquet"
    if not output.exists():
        score_dataset(
            RunConfig(
                data=DataConfig(dataset=str(pool), max_length=MAX_LENGTH),
                model=ModelConfig(
                    model=options.model,
                    dtype=options.dtype,
                    lora_layers=LAYERS,
                    cache_trunk=True,
                    views=3,
                    include_base=True,
                ),
                scores=ScoreConfig(measures=MEASURES, quality=options.quality),
                table=TableConfig(output=str(output)),
            )
        )
    frame = pd.read_parquet(output)
    faults = [json.loads(line)["fault"] for line in pool.read_text(encoding="utf-8").splitlines()]
    frame["fault"] = [faults[i] for i in frame["row_index"]]
    return frame[frame["status"] == OK]


def best(frame: pd.DataFrame, words: str, signs: dict[str, float], n: int, leave_out: float) -> list[int]:
    """Return the rows that a column prefers, or the second of two among what the first leaves; see the module."""
    *before, last = words.split(">")
    for column in before:
        frame = frame.loc[ranked(frame, column, signs)[: round((1 - leave_out) * len(frame))]]
    return sorted(frame.loc[ranked(frame, last, signs)[:n], "row_index"].tolist())


def ranked(frame: pd.DataFrame, word: str, signs: dict[str, float]) -> pd.Index:
    """Return the index of a frame in the order of a column, best first; rows without a value come last."""
    name = word.lstrip("+-")
    sign = {"+": 1.0, "-": -1.0}.get(word[0], signs[name])
    return (frame[name] * sign).sort_values(ascending=False, na_position="last", kind="stable").index


def matched(frame: pd.DataFrame, kept: list[int], column: str, rng: np.random.Generator) -> list[int]:
    """Return random rows with the quantiles that `kept` has in `column`: as many from each fifth of the pool."""
    fifths = pd.qcut(frame[column].rank(method="first"), 5, labels=False)
    chosen: list[int] = []
    for fifth in range(5):
        members = frame.loc[fifths == fifth, "row_index"].to_numpy()
        wanted = int(np.isin(members, kept).sum())
        chosen += rng.choice(members, wanted, replace=False).tolist()
    return sorted(chosen)


def selections(
    frame: pd.DataFrame, options: argparse.Namespace, signs: dict[str, float]
) -> dict[str, list[list[int]]]:
    """Return the rows of every selection, one list per seed."""
    n, seeds = round(options.keep * len(frame)), range(options.seeds)
    columns = options.columns.split(",")
    made = {f"top by {c}": [best(frame, c, signs, n, options.leave_out)] * options.seeds for c in columns}
    leader = made[f"top by {columns[0]}"][0]
    rngs = [np.random.default_rng([options.seed, seed]) for seed in seeds]
    everything = sorted(frame["row_index"].tolist())
    made["random"] = [sorted(rng.choice(everything, n, replace=False).tolist()) for rng in rngs]
    for column in filter(None, options.matched.split(",")):
        if frame[column].notna().all():
            made[f"random, {column} as {columns[0]}"] = [matched(frame, leader, column, rng) for rng in rngs]
    made["everything"] = [everything] * options.seeds
    sound = frame[frame["fault"].isna()]
    chosen = sound["row_index"].to_numpy()
    made["random sound rows"] = [sorted(rng.choice(chosen, n, replace=False).tolist()) for rng in rngs]
    made["sound rows only"] = [sorted(sound["row_index"].tolist())] * options.seeds
    return made


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("dataset")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=240)
    parser.add_argument("--held-out", type=int, default=60)
    parser.add_argument("--keep", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--columns",
        default="gsnr,base_loss,ifd,alignment",
        help="comma-separated; the first leads; quality needs --quality",
    )
    parser.add_argument("--leave-out", type=float, default=0.4)
    parser.add_argument("--matched", default=MATCHED, help="comma-separated columns, or '' for none")
    parser.add_argument(
        "--dtype", default="float32", help="bfloat16 is faster on a CPU that multiplies it (AMX)"
    )
    parser.add_argument("--quality", default=None, help="a quality.json that was fitted on other rows")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    """Write the pool, score it, train on every selection, and print the gains."""
    pool, held_out = write_pool(options)
    frame = score_pool(options, pool)
    dictionary = read_table(options.work / "scores.parquet").metadata["columns"]
    signs = {entry["name"]: -1.0 if entry["better"] == "low" else 1.0 for entry in dictionary}
    trainer = make_trainer(options, pool, held_out)
    before = np.array(trainer.held_out_losses())
    done = options.work / "results.json"
    results = json.loads(done.read_text()) if done.exists() else {}
    chosen = selections(frame, options, signs)
    for name, lists in chosen.items():
        for seed, rows in enumerate(lists):
            if f"{name}/{seed}" not in results:
                results[f"{name}/{seed}"] = trainer.losses(rows, seed)
                done.write_text(json.dumps(results))
    report(frame, chosen, results, before)


def report(
    frame: pd.DataFrame,
    chosen: dict[str, list[list[int]]],
    results: dict[str, dict[str, list[float]]],
    before: np.ndarray,
) -> None:
    """Print the gain of every selection, its share of the gain on everything, and its lead over random."""
    faulty = set(frame.loc[frame["fault"].notna(), "row_index"])
    for when in ("equal epochs", "equal steps"):
        gains = {
            name: np.stack([before - results[f"{name}/{s}"][when] for s in range(len(lists))])
            for name, lists in chosen.items()
        }
        print(f"\n{when}: {len(before)} held-out rows, loss before training {before.mean():.3f}\n")
        print("| selection | rows | faulty | gain, nats per token | of everything's | lead over random |")
        print("|---|---|---|---|---|---|")
        for name, lists in chosen.items():
            share = np.mean([np.mean([row in faulty for row in rows]) for rows in lists])
            total = gains["everything"].mean()
            lead = gains[name].mean(0) - gains["random"].mean(0)  # per held-out row
            between = (gains[name] - gains["random"]).mean(1)
            error = math.sqrt(lead.var(ddof=1) / len(lead) + between.var(ddof=1) / len(between))
            print(
                f"| {name} | {len(lists[0])} | {share:.0%} | {gains[name].mean():.4f} "
                f"| {gains[name].mean() / total:.0%} | {lead.mean():+.4f} ± {1.96 * error:.4f} |"
            )


if __name__ == "__main__":
    main()
