"""Which rows each member of a cross-fitted warm-up is trained on.

A row that was trained on looks learned whether it is sound or not; what a model says about a row that it never
saw is evidence. So rows are dealt to as many folds as there are members, and member m is trained on all but fold m
(cross-fitting; out-of-sample predictions as in Northcutt et al. 2021, arXiv:1911.00068, and, for memorisation,
Feldman & Zhang 2020, arXiv:2008.03703). The fold follows from the row's content alone: equal rows, whose copies would
otherwise give each other away, share it, and it is the same on every shard.
"""

from collections.abc import Sequence

from gradscore.config import ModelConfig
from gradscore.errors import DatasetError
from gradscore.records import EncodedRow


def fold_of(row_key: str, n_folds: int) -> int:
    """Return the fold of a row: the member with that number is never trained on it."""
    return int(row_key[:8], 16) % n_folds


def rows_of_members(rows: Sequence[EncodedRow], config: ModelConfig) -> list[list[EncodedRow]]:
    """Return the rows that each member is trained on: all of them, or all but its own fold.

    Raises:
        DatasetError: a member would have no row.
    """
    if not config.cross_fit:
        return [list(rows)] * config.members
    shown = [
        [row for row in rows if fold_of(row.row_key, config.members) != member]
        for member in range(config.members)
    ]
    if not all(shown):
        raise DatasetError(
            f"--cross-fit leaves a member without rows: {len(rows)} rows, dealt to {config.members} folds by their content, lie "
            "in one fold. Score more rows that differ, or leave out --cross-fit."
        )
    return shown
