"""One pass over all chosen rows before any work: what they are, and which of them the model is trained on."""

import hashlib
import heapq
import random
from dataclasses import replace
from typing import NamedTuple

from gradscore.config import RunConfig
from gradscore.data.encode import Encoder
from gradscore.data.preview import COUNTED, count_row
from gradscore.data.read import RowSource, read_rows
from gradscore.data.select import choose
from gradscore.errors import DatasetError
from gradscore.model.warmup import plan_warmup
from gradscore.records import OK, EncodedRow

DETAILED_ROWS = 1000
"""Rows whose layer norms are kept view by view, for the picture of layers and views: 4 bytes each per layer and view."""


class Survey(NamedTuple):
    """What one pass over all chosen rows found; the same for every shard."""

    training_rows: list[EncodedRow]
    """What warm-up, self-check and calibration draw from: all usable rows of a small dataset; of a large one as many as the
    longest warm-up can visit, at random."""
    counts: dict[str, int]
    """How the rows fared that were drawn for it, usable or not, as in `data.preview`."""
    fingerprint: str
    """Hash of the content of all chosen rows."""
    detailed: frozenset[str]
    """Keys of the rows whose layer norms are kept view by view: the smallest, which are random since keys are hashes."""


def survey(config: RunConfig, source: RowSource, encoder: Encoder) -> Survey:
    """Return what one pass over all chosen rows finds.

    Raises:
        DatasetError: no row has a target token that can be scored.
    """
    data = replace(config.data, shard=None)
    choice = choose(source.record.n_rows, data)
    indices = [i for i in range(choice.last + 1) if choice.has(i)]
    longest = plan_warmup(len(indices), replace(config.model, members=1, cross_fit=False))
    wanted = max(longest.rows_trained, config.gradients.calibration_rows)
    if len(indices) > wanted:
        indices = random.Random(config.data.seed).sample(indices, wanted)
    trained = set(indices)
    content = hashlib.blake2b(digest_size=16)
    rows: list[EncodedRow] = []
    keys: list[str] = []
    counts = dict.fromkeys(COUNTED, 0)
    for row in read_rows(source, data):
        content.update(row.row_key.encode())
        keys.append(row.row_key)
        if len(keys) > 2 * DETAILED_ROWS:
            keys = heapq.nsmallest(DETAILED_ROWS, keys)
        if row.row_index in trained:
            for encoded in encoder.encode(row):
                count_row(counts, encoded)
                rows += [encoded] if encoded.status == OK and encoded.side != "rejected" else []
    if not rows:
        raise DatasetError(
            f"None of {len(trained)} rows of {source.record.dataset} has a target token that can be scored. "
            "Look at them with `gradscore preview`."
        )
    detailed = frozenset(heapq.nsmallest(DETAILED_ROWS, keys))
    return Survey(rows, counts, f"blake2b:{content.hexdigest()}", detailed)
