"""A row without its instruction: the same target tokens behind an empty user turn.

What an instruction is worth shows in the loss with it beside the loss without it, over exactly the same tokens. So
the answer is not rendered and tokenised again: its tokens are taken from the row as it is, and in front of them goes
what the chat template writes before the answer to an empty user turn. That frame is the same for every row. Nothing
at all in front would leave the first token without a loss, and put a chat model where it has never been.
"""

from dataclasses import dataclass, replace

import numpy as np

from gradscore.records import EncodedRow


@dataclass(frozen=True)
class AnswerFrame:
    """What a template writes around answers to empty user turns, as tokens."""

    opening: tuple[int, ...]
    """Before the first answer; at least one token."""
    between: tuple[int, ...]
    """Between the end of an answer and the beginning of the next."""
    max_tokens: int
    """Longest row."""

    def alone(self, row: EncodedRow) -> EncodedRow | None:
        """Return the row without its instruction; of several answers each keeps its own empty turn.

        None where the row has no token before its answer that could be left out, as when the left truncation took
        the prompt away, or where it would be longer than the longest row.
        """
        if row.target_mask[1:].all():
            return None
        starts, ends = _runs(row)
        pieces, masks = [], []
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            frame = self.opening if number == 0 else self.between
            pieces += [np.asarray(frame, dtype=np.int64), row.input_ids[start:end]]
            masks += [np.zeros(len(frame), dtype=np.bool_), np.ones(end - start, dtype=np.bool_)]
        ids = np.concatenate(pieces)
        if len(ids) > self.max_tokens:
            return None
        return replace(row, input_ids=ids, target_mask=np.concatenate(masks), n_tokens=len(ids))


def _runs(row: EncodedRow) -> tuple[list[int], list[int]]:
    """Return first and past-the-last position of each unbroken run of target tokens: the answers."""
    edges = np.diff(row.target_mask.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
