"""Right and fast on a GPU: parity with autograd, rows per second, memory, and what the profiler sees.

    python scripts/bench_gpu.py                  # one CUDA device, at most 8 minutes, nothing is downloaded
    python scripts/bench_gpu.py --smoke          # tiny sizes on any device, to see that the script runs

Random Llama-style models of about 0.1B and 1B parameters with a LoRA adapter of rank 16 on all linear layers, rows
of up to 512 tokens. Prints one JSON object per measurement; `docs/benchmarks.md` says what they mean.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from bench_engines import plain_training
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.utils import logging

from gradscore.data.batch import Batch, collate
from gradscore.gradients.engine import SampleGradients
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.loop import LoopEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from gradscore.gradients.vmap import VmapEngine
from gradscore.records import OK, EncodedRow

SECONDS_IN_ALL = 450.0
SIZES = {
    # name: hidden, intermediate, layers, heads, key-value heads, vocabulary
    "0.1B": (768, 2048, 12, 12, 4, 32_000),
    "1B": (2048, 5632, 22, 32, 4, 32_000),
    "smoke": (64, 128, 2, 4, 2, 512),
}
VOCABULARY = 5


def build_model(size: str, dtype: torch.dtype, device: str, attention: str) -> nn.Module:
    """Return a random model with a LoRA adapter whose B is not zero, frozen."""
    hidden, intermediate, layers, heads, key_value_heads, vocabulary = SIZES[size]
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=key_value_heads, max_position_embeddings=2048,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype).eval()
    model.config.use_cache = False
    adapted = get_peft_model(
        model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM")
    ).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.02)
    return adapted.requires_grad_(False)


def make_batch(n_rows: int, longest: int, vocabulary: int, device: str) -> Batch:
    """Return rows of between three quarters and all of `longest` tokens, a third of each prompt."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for index in range(n_rows):
        length = longest - (index * longest) // (4 * n_rows)
        ids = torch.randint(1, vocabulary, (length,), generator=generator).numpy()
        mask = torch.arange(length).numpy() >= length // 3
        rows.append(EncodedRow(index, f"{index:032x}", OK, ids, mask, length, int(mask.sum())))
    return collate(rows, pad_id=0, device=device)


def relative_error(found: SampleGradients, expected: SampleGradients) -> float:
    """Return the largest over rows of ||found - expected|| / ||expected||."""
    difference = found.minus(expected)
    return float((difference.inner(difference).sqrt() / expected.inner(expected).sqrt()).max())


def parity(size: str, device: str, longest: int) -> None:
    """Print how far both engines are from plain autograd in float32 and bfloat16, on four rows."""
    for dtype in (torch.float32, torch.bfloat16):
        model = build_model(size, dtype, device, "eager")
        parameters = counted_parameters(model, "lora")
        batch = make_batch(4, longest, SIZES[size][VOCABULARY], device)
        expected = LoopEngine(model, parameters, Reduction()).gradients(batch)
        for engine in (HooksEngine, VmapEngine):
            found = engine(model, parameters, Reduction()).gradients(batch)
            error = relative_error(found, expected)
            report(measure="parity", size=size, dtype=str(dtype), engine=engine.name, relative_error=error)
        del model


def speed(size: str, device: str, n_rows: int, longest: int, repeats: int) -> None:
    """Print rows per second and peak memory of a plain LoRA training step and of each engine, in bfloat16."""
    model = build_model(size, torch.bfloat16, device, "sdpa")
    parameters = counted_parameters(model, "lora")
    batch = make_batch(n_rows, longest, SIZES[size][VOCABULARY], device)
    training = plain_training(model, parameters)
    hooks = HooksEngine(model, parameters, Reduction())
    steps: dict[str, Callable[[Batch], object]] = {"plain LoRA training": training, "hooks": hooks.gradients}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    memory = {}
    for name, step in steps.items():  # the first call of each compiles kernels and is not counted
        reset_memory(device)
        step(batch)
        memory[name] = peak_gibibytes(device)
    for _ in range(repeats):
        for name, step in steps.items():
            synchronise(device)
            started = time.perf_counter()
            step(batch)
            synchronise(device)
            seconds[name].append(time.perf_counter() - started)
    for name, values in seconds.items():
        middle = sorted(values)[len(values) // 2]
        report(
            measure="speed",
            size=size,
            step=name,
            rows_per_second=n_rows / middle,
            peak_gibibytes=memory[name],
        )
    profile_engine(size, hooks, batch, device)


def profile_engine(size: str, engine: HooksEngine, batch: Batch, device: str) -> None:
    """Print the share of one pass in which the device works, and the operations that take most of it."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    synchronise(device)
    started = time.perf_counter()
    with profile(activities=activities) as profiler:
        engine.gradients(batch)
        synchronise(device)
    elapsed = time.perf_counter() - started
    events = profiler.key_averages()
    attribute = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    busy = sum(getattr(event, attribute) for event in events) / 1e6
    top = sorted(events, key=lambda event: -getattr(event, attribute))[:6]
    report(
        measure="profile", size=size, seconds=elapsed, device_busy=busy / elapsed,
        kernel_launches=sum(event.count for event in events if event.key == "cudaLaunchKernel"),
        top={event.key[:60]: round(getattr(event, attribute) / 1e6, 4) for event in top},
    )  # fmt: skip


def reset_memory(device: str) -> None:
    """Start counting peak memory anew."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gibibytes(device: str) -> float | None:
    """Return the peak memory since `reset_memory`, None where the device does not count it."""
    return torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None


def synchronise(device: str) -> None:
    """Wait until the device has done all its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def report(**values: object) -> None:
    """Print one measurement as a JSON object."""
    print(json.dumps(values), flush=True)


def main() -> None:
    """Run parity, then speed, small sizes first, as long as the time lasts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on any device")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not arguments.smoke:
        raise SystemExit("No CUDA device was found. Pass --smoke to try the script on the CPU.")
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    report(measure="device", name=name, torch=torch.__version__)
    started = time.perf_counter()
    if arguments.smoke:
        parity("smoke", device, 32)
        speed("smoke", device, 4, 32, 2)
        return
    parity("0.1B", device, 512)
    for size, n_rows in (("0.1B", 32), ("1B", 32)):
        if time.perf_counter() - started < SECONDS_IN_ALL:
            speed(size, device, n_rows, 512, 10)
    if time.perf_counter() - started < SECONDS_IN_ALL:
        parity("1B", device, 512)


if __name__ == "__main__":
    main()
