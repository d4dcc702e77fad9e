"""The benchmark that decides whether the scores find good data: planted faults, real labels, and training.

    python scripts/bench_selection.py planted MODEL DATA_FOLDER --work DIR     # faults, at two contaminations
    python scripts/bench_selection.py labels MODEL DATA_FOLDER --work DIR      # correct answers, judges' scores
    python scripts/bench_selection.py training MODEL DATA_FOLDER --work DIR    # see bench_training.py

`DATA_FOLDER` holds the public sets under the names of `SETS` and `LABELLED`. Every part scores with an adapter on the
upper eight layers, keeps its tables in `--work`, and goes on from them when started again.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bench_training
import numpy as np
import pandas as pd
from scipy.stats import rankdata

from gradscore.config import DataConfig, ModelConfig, RunConfig, ScoreConfig, TableConfig, ValidateConfig
from gradscore.pipeline import score_dataset, validate_dataset
from gradscore.records import OK
from gradscore.table.read import read_table
from gradscore.validate.auroc import Draws, estimate_auroc, with_interval

LAYERS = "last:8"
CONTAMINATIONS = (0.1, 0.3)
SETS = {
    # The columns of quality were chosen on draws from the first three; the last two took no part.
    "alpaca_en": "llamafactory/alpaca_en_demo.json",
    "alpaca_zh": "llamafactory/alpaca_zh_demo.json",
    "v1_sft": "llamafactory/v1_sft_demo.jsonl",
    "glaive": "llamafactory/glaive_toolcall_en_demo.json",
    "gsm8k_test": "gsm8k_test.jsonl",
}


@dataclass(frozen=True)
class Labelled:
    """A data set with a verdict on every row that does not come from a language model's loss."""

    path: str
    label: str
    is_binary: bool
    category: str | None


LABELLED = {
    "gsm8k": Labelled("derived/gsm8k_solutions_labeled.jsonl", "is_correct", True, "model"),
    "prometheus": Labelled("derived/prometheus_vicuna_scored.jsonl", "gpt4_score", False, "category"),
    "oda_judge": Labelled("derived/oda_judge_scored_even.jsonl", "judge_mean", False, None),
}


def run_config(options: argparse.Namespace, dataset: Path, output: Path, category: str | None) -> RunConfig:
    """Return the configuration that every part scores with."""
    return RunConfig(
        data=DataConfig(
            dataset=str(dataset),
            sample=options.rows,
            seed=options.seed,
            max_length=options.max_length,
            category_field=category,
        ),
        model=ModelConfig(
            model=options.model,
            dtype=options.dtype,
            lora_layers=LAYERS,
            cache_trunk=True,
            views=2,
            members=options.members,
            cross_fit=options.members > 1,
            include_base=True,
        ),
        scores=ScoreConfig(measures=options.measures),
        table=TableConfig(output=str(output)),
    )


def planted(options: argparse.Namespace) -> None:
    """Print, for each set and contamination, how every column and `quality` find the planted faults."""
    for name, path in SETS.items():
        if name not in options.sets.split(","):
            continue
        for contamination in CONTAMINATIONS:
            folder = options.work / f"{name}-{contamination}"
            config = run_config(options, options.data / path, folder / "unused", None)
            asked = ValidateConfig(output=str(folder), contamination=contamination)
            validate_dataset(replace(config, table=TableConfig(), validate=asked))
            result = json.loads((folder / "validation.json").read_text(encoding="utf-8"))
            _print_planted(f"{name}, {contamination:.0%} faulty", result)


def _print_planted(title: str, result: dict[str, Any]) -> None:
    kinds = list(result["columns"][0]["auroc"])
    counts = {"all": sum(n for kind, n in result["rows"].items() if kind != "sound"), **result["rows"]}
    print(f"\n{title}: {result['rows']['sound']} sound rows\n")
    print(f"| column | {' | '.join(f'{kind} ({counts[kind]})' for kind in kinds)} |")
    print(f"|---|{'---|' * len(kinds)}")
    quality = [] if result["quality"] is None else [{**result["quality"], "name": "**quality**"}]
    for column in quality + result["columns"]:
        cells = [_cell(column["auroc"].get(kind), with_interval=kind == "all") for kind in kinds]
        print(f"| {column['name']} | {' | '.join(cells)} |")
    print("\n" + "\n".join(result["lines"]))


def _cell(found: dict[str, float] | None, *, with_interval: bool) -> str:
    if found is None:
        return ""
    interval = f" ({found['low']:.2f} to {found['high']:.2f})" if with_interval else ""
    return f"{found['value']:.2f}{interval}"


def labels(options: argparse.Namespace) -> None:
    """Print how every column agrees with the labels of each set."""
    for name, labelled in LABELLED.items():
        if name not in options.sets.split(","):
            continue
        dataset, output = options.data / labelled.path, options.work / f"{name}.parquet"
        if not output.exists():
            score_dataset(run_config(options, dataset, output, labelled.category))
        frame = pd.read_parquet(output)
        rows = [json.loads(line) for line in dataset.read_text(encoding="utf-8").splitlines()]
        truth = np.array([_number(rows[i].get(labelled.label)) for i in frame["row_index"]])
        usable = (frame["status"] == OK).to_numpy() & np.isfinite(truth)
        print(f"\n{name}: {usable.sum()} rows, label {labelled.label}\n")
        print(
            f"| column | better | {'AUROC' if labelled.is_binary else 'rank correlation'} (95 %) |\n|---|---|---|"
        )
        lines = [
            (
                estimate.value,
                f"| {column} | {better or 'not said'} | {estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f}) |",
            )
            for column, better, values in _columns(output, frame)
            for estimate in [
                _agreement(values[usable], truth[usable], labelled.is_binary, better, options.seed)
            ]
            if estimate is not None
        ]
        print("\n".join(line for _, line in sorted(lines, reverse=True)))


def _columns(output: Path, frame: pd.DataFrame) -> list[tuple[str, str, np.ndarray]]:
    entries = read_table(output).metadata["columns"]
    wanted = [
        e for e in entries if e["type"] in ("double", "int64") and e["name"] not in ("row_index", "n_views")
    ]
    return [(e["name"], e["better"], frame[e["name"]].to_numpy(dtype=float)) for e in wanted]


def _agreement(values: np.ndarray, truth: np.ndarray, is_binary: bool, better: str, seed: int) -> Any:
    """Return AUROC of sound above faulty, or Spearman's correlation, in the column's direction, with its interval."""
    has = np.isfinite(values)
    if has.sum() < 20 or np.ptp(values[has]) == 0:
        return None
    worth = values * (-1 if better == "low" else 1)
    if is_binary:
        strata = np.array([None if good else "wrong" for good in truth.astype(bool)], dtype=object)
        return estimate_auroc(worth, ~truth.astype(bool), Draws.of(strata, seed))
    worth, truth = worth[has], truth[has]
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(truth), (1000, len(truth)))
    drawn = np.array([_spearman(worth[draw], truth[draw]) for draw in draws])
    return with_interval(_spearman(worth, truth), drawn)


def _spearman(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def training(options: argparse.Namespace) -> None:
    """Train on what each column prefers; see `bench_training`."""
    quality = options.work.parent / "planted" / "v1_sft-0.1" / "quality.json"
    bench_training.run(
        argparse.Namespace(
            **vars(options),
            dataset=str(options.data / SETS["alpaca_en"]),
            held_out=60,
            keep=0.3,
            seeds=3,
            leave_out=0.4,
            matched=bench_training.MATCHED,
            columns=("quality,quality>+base_loss,quality>+n_target_tokens," if quality.exists() else "")
            + "gsnr,base_loss,ifd,alignment,+n_target_tokens",
            quality=str(quality) if quality.exists() else None,
        )
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def main() -> None:
    """Run one part."""
    parts: dict[str, Callable[[argparse.Namespace], None]] = {
        "planted": planted,
        "labels": labels,
        "training": training,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=list(parts))
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--max-length", type=int, default=320)
    parser.add_argument("--measures", default="all")
    parser.add_argument("--members", type=int, default=2, help="more than one are cross-fitted")
    parser.add_argument(
        "--dtype", default="float32", help="bfloat16 is faster on a CPU that multiplies it (AMX)"
    )
    parser.add_argument("--sets", default=",".join([*SETS, *LABELLED]), help="of the part, comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    parts[options.part](options)


if __name__ == "__main__":
    main()
