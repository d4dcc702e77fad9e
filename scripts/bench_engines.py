"""Time and memory of a scoring pass against a plain training pass over the same batches.

    python scripts/bench_engines.py                 # a random 16M-parameter Llama on the CPU, about 5 minutes
    python scripts/bench_engines.py --rows 64 --threads 1

For each batch every variant runs once, one after another, so that a change of the machine's speed hits all of
them; the ratio to plain training is taken batch by batch and its median is printed. Plain training is the model's
own forward with labels and a backward pass to the same parameters (LoRA, or all linear weights). Seconds are CPU
time on one thread, which other work on the machine disturbs least. Peak memory is what a
fresh process needs above the loaded model for the two longest batches.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.utils import logging

from gradscore.data.batch import Batch, collate, padding_share, plan_batches
from gradscore.gradients.engine import GradientEngine
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.loop import LoopEngine, requiring_grad
from gradscore.gradients.parameters import CountedParameter, counted_parameters
from gradscore.gradients.projection import Projections
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from gradscore.records import OK, EncodedRow

SHAPES = {"wide": (512, 1376, 4), "deep": (384, 1024, 6)}
"""Hidden size, intermediate size and layers; attention, which costs both passes alike, weighs more in the deep one."""

EXACT = Reduction()
NORMS = Reduction(projections=Projections(side=1))
SKETCH = Reduction(projections=Projections(side=16), exact_norms=False)
BOTH = Reduction(projections=Projections(side=16))

VARIANTS: dict[
    str, tuple[str, type[HooksEngine] | type[LoopEngine] | type[VmapEngine] | None, Reduction, float | None]
] = {
    # name: (counted parameters, engine or None for plain training, what is kept, target ratio)
    "lora, plain training": ("lora", None, EXACT, None),
    "lora, hooks": ("lora", HooksEngine, EXACT, 0.85),
    "lora, vmap": ("lora", VmapEngine, EXACT, None),
    "lora, loop": ("lora", LoopEngine, EXACT, None),
    "linear, plain training": ("linear", None, EXACT, None),
    "linear, hooks, norms": ("linear", HooksEngine, NORMS, 0.95),
    "linear, hooks, sketch": ("linear", HooksEngine, SKETCH, 0.75),
    "linear, hooks, norms and sketch": ("linear", HooksEngine, BOTH, None),
    "linear, loop, norms and sketch": ("linear", LoopEngine, BOTH, None),
}


def build_model(words: str, shape: str) -> nn.Module:
    """Return a random Llama of 16M parameters, with a LoRA adapter of rank 8 on all linear layers if counted."""
    torch.manual_seed(0)
    hidden, intermediate, layers = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=8192, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=hidden // 64, num_key_value_heads=hidden // 64, max_position_embeddings=2048,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval().requires_grad_(False)
    model.config.use_cache = False
    if words != "lora":
        return model
    adapted = get_peft_model(
        model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    ).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.02)
    return adapted.requires_grad_(False)


def make_batches(n_rows: int, max_tokens: int) -> list[Batch]:
    """Return batches of random rows whose lengths are spread like those of short instruction data."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(4.8, 0.6, n_rows).astype(int), 16, 700)
    rows = [_row(index, int(length), rng) for index, length in enumerate(lengths)]
    plan = plan_batches([row.n_tokens for row in rows], max_tokens)
    print(
        f"{n_rows} rows, {int(lengths.sum())} tokens, {len(plan)} batches of at most {max_tokens} tokens, "
        f"{padding_share(lengths.tolist(), plan):.1%} padding"
    )
    return [collate([rows[i] for i in places], pad_id=0) for places in plan]


def _row(index: int, length: int, rng: np.random.Generator) -> EncodedRow:
    mask = np.arange(length) >= length * 0.3
    return EncodedRow(
        index, f"{index:032x}", OK, rng.integers(1, 8192, length), mask, length, int(mask.sum())
    )  # fmt: skip


def plain_training(model: nn.Module, parameters: tuple[CountedParameter, ...]) -> Callable[[Batch], None]:
    """Return a function that does what a training step does up to the optimiser."""
    tensors = [model.get_parameter(parameter.name) for parameter in parameters]

    def step(batch: Batch) -> None:
        labels = batch.input_ids.masked_fill(~batch.target_mask, -100)
        with requiring_grad(tensors):
            model(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels
            ).loss.backward()
        for tensor in tensors:
            tensor.grad = None

    return step


def build(name: str, shape: str) -> Callable[[Batch], object]:
    """Return the function of one batch that a variant is."""
    words, engine_type, reduction, _ = VARIANTS[name]
    model = build_model(words, shape)
    parameters = counted_parameters(model, words)
    if engine_type is None:
        return plain_training(model, parameters)
    engine: GradientEngine = engine_type(model, parameters, reduction)
    return engine.gradients


def time_all(names: list[str], batches: list[Batch], repeats: int, shape: str) -> dict[str, list[float]]:
    """Return the seconds of every variant on every batch, interleaved."""
    steps = {name: build(name, shape) for name in names}
    for step in steps.values():
        step(batches[-1])
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for batch in batches:
            for name, step in steps.items():
                started = time.process_time()
                step(batch)
                seconds[name].append(time.process_time() - started)
    return seconds


def peak_megabytes(name: str, arguments: argparse.Namespace) -> float:
    """Return the peak resident memory of a fresh process that runs one variant, above that of the loaded model."""
    command = [sys.executable, __file__, "--threads", str(arguments.threads), "--rows", str(arguments.rows)]
    command += ["--max-tokens", str(arguments.max_tokens), "--shape", arguments.shape, "--only", name]
    return float(
        json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
        )
    )


def run_only(name: str, batches: list[Batch], shape: str) -> None:
    """Run one variant over the two longest batches and print how far memory rose above the loaded model."""
    step = build(name, shape)
    before = peak_kibibytes()
    for batch in batches[:2]:
        step(batch)
    print(json.dumps((peak_kibibytes() - before) / 1024))


def peak_kibibytes() -> int:
    """Return the peak resident memory of this process; Linux only, and not `ru_maxrss`, which a child inherits."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def main() -> None:
    """Print a table of ratios and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shape", choices=list(SHAPES), default="wide", help="of the 16M-parameter model")
    parser.add_argument(
        "--all", action="store_true", help="vmap and loop too, which disturb what runs after them"
    )
    parser.add_argument("--only", choices=list(VARIANTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    batches = make_batches(arguments.rows, arguments.max_tokens)
    if arguments.only:
        run_only(arguments.only, batches, arguments.shape)
        return
    names = [name for name in VARIANTS if arguments.all or name.split(", ")[1] not in ("vmap", "loop")]
    seconds = time_all(names, batches, arguments.repeats, arguments.shape)
    print(f"\n{'variant':34s} {'CPU s':>10s} {'ratio':>7s} {'target':>7s} {'peak MB':>8s}")
    for name, values in seconds.items():
        plain = seconds[name.split(",")[0] + ", plain training"]
        ratio = statistics.median(a / b for a, b in zip(values, plain, strict=True))
        target = VARIANTS[name][3]
        shown = f"{target:7.2f}" if target else " " * 7
        print(
            f"{name:34s} {sum(values) / arguments.repeats:10.2f} {ratio:7.2f} {shown} {peak_megabytes(name, arguments):8.0f}"
        )


if __name__ == "__main__":
    main()
