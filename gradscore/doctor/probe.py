"""The run in small: the same model, adapter, engine and views, after two steps of warm-up, in a folder of its own.

Nothing is written into the user's run folder. The two steps only give the views their real form, so that their cost can
be measured. Gradients are checked elsewhere: on an adapter whose zeros are filled with small random numbers. After two
steps B is about 1e-4, and the gradient of A with it, so that an error in A would drown in B's.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from gradscore.config import RunConfig, to_mapping
from gradscore.model.adapter import lora_tensors
from gradscore.records import EncodedRow, SilentReporter
from gradscore.run.opening import Opened
from gradscore.run.prepare import prepare
from gradscore.scores.sweep import Sweep
from gradscore.table.run import RunFolder

STEP_ROWS = 2
FILL = 0.02
"""Standard deviation of what zeros are filled with: the gradients of A and B are then of about one size, and the
adapter's output some per cent of its layer's."""


def small_config(config: RunConfig) -> RunConfig:
    """Return the configuration with a warm-up of two steps and nothing that is only done for real rows."""
    model = replace(
        config.model,
        warmup_steps=1,
        update_interval=1,
        views=2 if config.model.view_source == "warmup" else config.model.views,
        members=1,
        cross_fit=False,
        warmup_batch_size=STEP_ROWS,
    )
    gradients = replace(config.gradients, check=False, layer_normalise=False)
    return replace(config, model=model, gradients=gradients)


def prepare_in_small(
    config: RunConfig, rows: Sequence[EncodedRow], opened: Opened, folder: Path
) -> tuple[Sweep, RunFolder]:
    """Return a sweep over the small run's views, and its run folder inside `folder`.

    Raises:
        GradscoreError: what the real run would end with too, such as options that do not fit the model.
    """
    small = small_config(config)
    run = RunFolder.open(folder / "small.parquet", {}, config_mapping=to_mapping(small))
    sweep, _ = prepare(small, opened, list(rows), run, SilentReporter())
    return sweep, run


@contextmanager
def filled_adapter(model: nn.Module, seed: int) -> Iterator[tuple[str, ...]]:
    """Fill adapter tensors that are all zero with small random numbers; yield their names, and undo it at the end."""
    zero = {name: tensor for name, tensor in lora_tensors(model).items() if not tensor.any()}
    generator = torch.Generator().manual_seed(seed % 2**63)
    try:
        with torch.no_grad():
            for tensor in zero.values():
                tensor.copy_(FILL * torch.randn(tensor.shape, generator=generator))
        yield tuple(zero)
    finally:
        with torch.no_grad():
            for tensor in zero.values():
                tensor.zero_()
