"""Turn rows into tokens with their target mask.

A token is a target if it has at least one character in a target span: a token that straddles the edge of
an answer has to be predicted to give the answer. The first token of a sequence is never one, since nothing
predicts it. Truncation on the left takes the beginning-of-text token away as well.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from gradscore.config import DataConfig
from gradscore.data.alone import AnswerFrame
from gradscore.data.conversation import UnusableRowError
from gradscore.data.converse import sides_of, to_conversation
from gradscore.data.render import Rendered, Renderer
from gradscore.data.schemas import Schema
from gradscore.data.spans import Span
from gradscore.errors import UnsupportedError
from gradscore.records import NO_TARGET_TOKENS, OK, TOO_LONG, EncodedRow, Row, invalid

NO_IDS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
NO_MASK: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)


class Encoder:
    """Rows of one dataset to tokens of one model."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, config: DataConfig, max_length: int, schema: Schema
    ) -> None:
        """Prepare for a dataset of this schema, `max_length` being the longest sequence in tokens.

        Raises:
            UnsupportedError: the tokenizer cannot tell which characters its tokens stand for.
            DatasetError: the chat template cannot be read.
        """
        if not tokenizer.is_fast:
            raise UnsupportedError(
                f"The tokenizer {type(tokenizer).__name__} is a slow one, without character offsets, so target "
                "tokens cannot be marked. Use a model with a fast tokenizer (a tokenizer.json file)."
            )
        self.renderer = Renderer(tokenizer, config)
        self.max_length = max_length
        self.sides = sides_of(schema, config)
        self.tokenizer = tokenizer
        self._schema = schema
        self._truncate = config.truncate
        self.opening_ids = _opening_ids(tokenizer)
        """What the tokenizer puts before plain text by itself, such as a beginning-of-text token."""

    @property
    def has_prompts(self) -> bool:
        """Whether rows have something to answer: all schemas but plain text."""
        return self._schema.name != "text"

    def encode(self, row: Row) -> list[EncodedRow]:
        """Return the row as tokens: one record, or one per side of a preference pair with `--side both`.

        A row that cannot be used gives a record whose status says why; nothing is raised for one row.
        """
        return [self._encode_side(row, side) for side in self.sides]

    def render(self, row: Row, side: str | None) -> Rendered:
        """Return the text of one side of a row.

        Raises:
            UnusableRowError: the row cannot be read or rendered.
        """
        if row.problem is not None:
            raise UnusableRowError(row.problem)
        return self.renderer.render(to_conversation(row.content, self._schema, side))

    def answer_frame(self) -> AnswerFrame | None:
        """Return what goes around answers when their instruction is left out; None if nothing can.

        Plain text has no instruction, and some templates refuse an empty user turn.
        """
        if not self.has_prompts:
            return None
        try:
            frame = self.renderer.frame()
        except UnusableRowError:
            return None
        opening, between = (
            list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            for text in (frame.opening, frame.between)
        )
        if frame.needs_opening and opening[:1] != self.opening_ids[:1]:
            opening = [*self.opening_ids, *opening]
        return AnswerFrame(tuple(opening), tuple(between), self.max_length) if opening else None

    def _encode_side(self, row: Row, side: str | None) -> EncodedRow:
        try:
            ids, mask = self._tokenise(self.render(row, side))
        except UnusableRowError as problem:
            return _record(row, side, invalid(str(problem)), NO_IDS, NO_MASK)
        n_tokens = len(ids)
        mask[:1] = False
        is_long = n_tokens > self.max_length
        if is_long and self._truncate == "drop":
            # The length is kept, so that one can see what --max-length would take; the tokens are not.
            return EncodedRow(
                row.row_index, row.row_key, TOO_LONG, NO_IDS, NO_MASK, n_tokens, int(mask.sum()),
                category=row.category, side=side,
            )  # fmt: skip
        if is_long:
            kept = (
                slice(n_tokens - self.max_length, None)
                if self._truncate == "left"
                else slice(self.max_length)
            )
            ids, mask = ids[kept].copy(), mask[kept].copy()
            mask[:1] = False
        status = OK if mask.any() else NO_TARGET_TOKENS
        return _record(row, side, status, ids, mask, truncated=is_long)

    def _tokenise(self, rendered: Rendered) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        try:
            encoding = self.tokenizer(
                rendered.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        except (TypeError, UnicodeEncodeError) as error:  # half of a surrogate pair is no character
            raise UnusableRowError(f"the text cannot be tokenised ({error})") from error
        ids: list[int] = list(encoding["input_ids"])
        if rendered.is_plain:
            ends = self.tokenizer.eos_token_id
            ids += [ends] if ends is not None and ids and ids[-1] != ends else []
            mask = np.full(len(ids), bool(rendered.spans))
        else:
            mask = target_mask(np.asarray(encoding["offset_mapping"], dtype=np.int64), rendered.spans)
        has_opening = ids[:1] == self.opening_ids[:1]
        opening = self.opening_ids if rendered.needs_opening and not has_opening else []
        mask = np.concatenate([np.zeros(len(opening), dtype=np.bool_), mask])
        return np.asarray([*opening, *ids], dtype=np.int64), mask


def target_mask(offsets: NDArray[np.int64], spans: tuple[Span, ...]) -> NDArray[np.bool_]:
    """Return which tokens have a character in one of the spans, [t], from their character ranges, [t, 2].

    Some tokenizers trim white space from the range they report, down to an empty range at its end; such a
    token belongs to the span in which it ends.
    """
    starts, ends = offsets.reshape(-1, 2).T
    mask = np.zeros(len(starts), dtype=np.bool_)
    for start, end in spans:
        has_character = (starts < end) & (ends > start) & (starts < ends)
        is_trimmed = (starts == ends) & (ends > start) & (ends <= end)
        mask |= has_character | is_trimmed
    return mask


def _opening_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids that the tokenizer puts before plain text by itself, such as a beginning-of-text token."""
    bare = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    full: list[Any] = list(tokenizer("a")["input_ids"])
    at = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    return full[:at]


def _record(
    row: Row,
    side: str | None,
    status: str,
    ids: NDArray[np.int64],
    mask: NDArray[np.bool_],
    *,
    truncated: bool = False,
) -> EncodedRow:
    return EncodedRow(
        row.row_index,
        row.row_key,
        status,
        ids,
        mask,
        n_tokens=len(ids),
        n_target_tokens=int(mask.sum()),
        truncated=truncated,
        category=row.category,
        side=side,
    )
