"""One pass over all chosen rows before any work: what they are, and which of them the model is trained on."""

import hashlib
import random
from dataclasses import replace

from gradscore.config import RunConfig
from gradscore.data.encode import Encoder
from gradscore.data.preview import COUNTED, count_row
from gradscore.data.read import RowSource, read_rows
from gradscore.data.select import choose
from gradscore.errors import DatasetError
from gradscore.model.warmup import plan_warmup
from gradscore.records import OK, EncodedRow


def survey(
    config: RunConfig, source: RowSource, encoder: Encoder
) -> tuple[list[EncodedRow], dict[str, int], str]:
    """Return the rows that warm-up, self-check and calibration draw from, and a hash of all chosen rows' content.

    Between them stands how the rows fared that were drawn, usable or not, counted as in `data.preview`. All are the
    same for every shard. The former are all usable rows of a small dataset; of a large one as many as the longest
    warm-up can visit, at random.
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
    counts = dict.fromkeys(COUNTED, 0)
    for row in read_rows(source, data):
        content.update(row.row_key.encode())
        if row.row_index in trained:
            for encoded in encoder.encode(row):
                count_row(counts, encoded)
                rows += [encoded] if encoded.status == OK and encoded.side != "rejected" else []
    if not rows:
        raise DatasetError(
            f"None of {len(trained)} rows of {source.record.dataset} has a target token that can be scored. "
            "Look at them with `gradscore preview`."
        )
    return rows, counts, f"blake2b:{content.hexdigest()}"
