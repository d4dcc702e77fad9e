"""A small run over the tiny model, opened as the doctor opens it, and rows written by hand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gradscore.config import RunConfig
from gradscore.data.encode import Encoder
from gradscore.doctor.probe import prepare_in_small
from gradscore.doctor.rows import RowPass, pass_over_rows
from gradscore.records import EncodedRow, SilentReporter
from gradscore.run.opening import Opened, open_data_and_model
from gradscore.scores.sweep import Sweep
from tests.pipeline.runs import score_config


def opened(**options: Any) -> tuple[RunConfig, Opened, RowPass]:
    """Return a configuration, what it opens, and the pass over its rows."""
    config = score_config(**options)
    found = open_data_and_model(config, SilentReporter())
    return config, found, pass_over_rows(found.source, config.data, found.encoder)


@contextmanager
def small_sweep(**options: Any) -> Iterator[tuple[RunConfig, Sweep, RowPass, Opened]]:
    """Yield the sweep of the small run, in a folder that is gone afterwards."""
    config, found, rows = opened(**options)
    with TemporaryDirectory() as folder:
        sweep, _ = prepare_in_small(config, rows.kept, found, Path(folder))
        yield config, sweep, rows, found


def row(ids: Sequence[int], targets: Sequence[int], *, truncated: bool = False) -> EncodedRow:
    """Return an encoded row with these tokens, and targets at these places."""
    mask = np.zeros(len(ids), dtype=bool)
    mask[list(targets)] = True
    return EncodedRow(
        0, "0" * 32, "ok", np.asarray(ids, dtype=np.int64), mask, len(ids), int(mask.sum()), truncated
    )


def encoder_of(tokenizer: Any, **data: Any) -> Encoder:
    """Return an encoder of alpaca rows."""
    from gradscore.config import DataConfig
    from gradscore.data.schemas import recognise

    config = DataConfig(**data)
    return Encoder(tokenizer, config, 256, recognise(["instruction", "output"], config))
