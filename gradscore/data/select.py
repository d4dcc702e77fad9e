"""Which rows of a source a run works on: --limit first, then --sample of those, then the --shard of those."""

import random
from dataclasses import dataclass

from gradscore.config import DataConfig


@dataclass(frozen=True)
class Choice:
    """The chosen row indices, without listing them where a rule says them."""

    last: int
    """No row after this index is chosen, so that reading can stop there."""
    sample: frozenset[int] | None
    shard: int
    n_shards: int

    def has(self, row_index: int) -> bool:
        """Return whether the row is chosen."""
        in_sample = self.sample is None or row_index in self.sample
        return in_sample and row_index <= self.last and row_index % self.n_shards == self.shard


def choose(n_rows: int, config: DataConfig) -> Choice:
    """Return which of `n_rows` rows are chosen; the sample depends on n_rows, --limit, --sample and --seed alone.

    Rows are dealt to shards by index, so the shards of a sample are disjoint and together the sample.
    """
    n_first = n_rows if config.limit is None else min(n_rows, config.limit)
    sample = None
    last = n_first - 1
    if config.sample is not None and config.sample < n_first:
        # Python's own generator: its sample of a seed has stayed the same over versions, numpy's may not.
        sample = frozenset(random.Random(config.seed).sample(range(n_first), config.sample))
        last = max(sample)
    shard, n_shards = (int(part) for part in config.shard.split("/")) if config.shard else (0, 1)
    return Choice(last, sample, shard, n_shards)
