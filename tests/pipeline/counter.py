"""Counts the rows that a run scores, and stops it in the middle."""

from typing import Any

import pytest

from gradscore.scores.sweep import Sweep

ROWS_PER_BATCH = {"max_batch_tokens": 150}
"""Batches of one to three rows, so that there is a middle to stop in."""


class Counter:
    """Counts the rows that are scored, and stops a run after some batches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.batches_left: int | None = None
        self.error: BaseException = KeyboardInterrupt()
        score_batch = Sweep._score_batch

        def counted(sweep: Sweep, rows: list[Any]) -> list[Any]:
            if self.batches_left == 0:
                raise self.error
            if self.batches_left is not None:
                self.batches_left -= 1
            self.rows += [row.row_index for row in rows]
            return score_batch(sweep, rows)

        monkeypatch.setattr(Sweep, "_score_batch", counted)
