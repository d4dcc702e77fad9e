"""What several views cost when they share the layers under the adapter, against one plain LoRA training pass.

    python scripts/bench_views.py MODEL data.json                 # four views over the top quarter of the layers
    python scripts/bench_views.py MODEL data.json --layers last:8 --views 7

Plain training is the model's own forward with labels and a backward pass to a LoRA on all linear layers. Both run
on the same batches one after the other; the ratio is taken batch by batch and its median printed. Seconds are CPU
time on one thread, which other work on the machine disturbs least.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from gradscore.config import DataConfig, ModelConfig, RunConfig
from gradscore.data.batch import Batch, collate, plan_batches
from gradscore.data.read import read_rows
from gradscore.gradients.hooks import HooksEngine
from gradscore.gradients.parameters import counted_parameters
from gradscore.gradients.reduction import Reduction
from gradscore.model.adapter import attach_adapter, lora_tensors
from gradscore.model.trunk import Trunk, first_changing_layer
from gradscore.records import OK, SilentReporter
from gradscore.run.opening import open_data_and_model

TARGET = 1.7


def adapted_model(config: RunConfig) -> nn.Module:
    """Return the model with an adapter that is not zero, as after a warm-up."""
    _, _, loaded = open_data_and_model(config, SilentReporter())
    model = attach_adapter(loaded, config.model, config.data.seed)
    for name, tensor in lora_tensors(model).items():
        if "lora_B" in name:
            tensor.data.normal_(0, 0.01)
    return model


def plain_training(config: RunConfig) -> Callable[[Batch], None]:
    """Return a plain training pass to a LoRA on all linear layers."""
    model = adapted_model(config)
    for tensor in lora_tensors(model).values():
        tensor.requires_grad_(True)

    def run(batch: Batch) -> None:
        labels = batch.input_ids.masked_fill(~batch.target_mask, -100)
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}
        model(**inputs, labels=labels).loss.backward()
        model.zero_grad()

    return run


def shared_views(config: RunConfig, n_views: int) -> tuple[str, Callable[[Batch], None]]:
    """Return what is shared, in words, and a pass of all views over one batch."""
    model = adapted_model(config)
    trunk = Trunk(model, first_changing_layer(lora_tensors(model)))
    engine = HooksEngine(model, counted_parameters(model, "lora"), Reduction())

    def run(batch: Batch) -> None:
        midway = trunk.run(batch)
        for _ in range(n_views):
            engine.gradients(midway)

    return f"layers under {trunk.layer} shared", run


def main() -> None:
    """Print the cost of the views and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("dataset")
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--layers", default="last:25%")
    parser.add_argument("--views", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = DataConfig(dataset=options.dataset, limit=options.rows)
    whole = RunConfig(data=data, model=ModelConfig(model=options.model))
    upper = RunConfig(data=data, model=ModelConfig(model=options.model, lora_layers=options.layers))
    source, encoder, loaded = open_data_and_model(whole, SilentReporter())
    rows = [e for row in read_rows(source, data) for e in encoder.encode(row) if e.status == OK]
    shared, views = shared_views(upper, options.views)
    passes = {"plain training": plain_training(whole), f"{options.views} views": views}
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for places in plan_batches([row.n_tokens for row in rows], 1024):
        batch = collate([rows[i] for i in places], loaded.pad_id)
        for name, run in passes.items():
            started = time.process_time()
            run(batch)
            seconds[name].append(time.process_time() - started)
    plain, several = seconds.values()
    ratio = statistics.median(b / a for a, b in zip(plain, several, strict=True))
    print(f"{len(rows)} rows, {sum(row.n_tokens for row in rows)} tokens, {len(plain)} batches; {shared}")
    for name, taken in seconds.items():
        print(f"{name:20} {sum(taken):8.2f} CPU s")
    print(f"ratio {ratio:.2f} (target {TARGET} for four views over a quarter of the layers)")


if __name__ == "__main__":
    main()
