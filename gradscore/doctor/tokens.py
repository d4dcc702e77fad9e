"""Whether rows begin and end as the model knows it: one beginning-of-text token, and a stop token to be learned.

A doubled beginning nearly doubles the loss of small models, and an answer whose stop token is masked teaches a model
never to stop; templates and tokenizers have produced both, each correct by itself.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from gradscore.data.encode import Encoder
from gradscore.data.stop_tokens import stop_ids
from gradscore.doctor.finding import MOST, Finding
from gradscore.doctor.rows import of_rows
from gradscore.records import EncodedRow

NAMED = 3
"""Stop tokens that are named in a line."""


def token_findings(rows: Sequence[EncodedRow], encoder: Encoder, truncate: str) -> tuple[Finding, Finding]:
    """Return the lines about the first and the last tokens of usable rows; `truncate` is what long rows lost."""
    if not rows:
        unseen = "not seen: no row can be scored"
        return Finding("beginning", "warn", unseen), Finding("stop token", "warn", unseen)
    whole = [row for row in rows if not row.truncated]
    return (
        beginning_check(whole if truncate == "left" else rows, encoder),
        stop_check(rows if truncate == "left" else whole, encoder.tokenizer),
    )


def beginning_check(rows: Sequence[EncodedRow], encoder: Encoder) -> Finding:
    """Return whether rows that have their beginning open with one beginning-of-text token, and not two."""
    bos = encoder.tokenizer.bos_token_id
    if bos is None or not rows:
        return Finding(
            "beginning",
            "pass",
            "the tokenizer has no beginning-of-text token" if rows else "not seen: all rows lost it",
        )
    name = encoder.tokenizer.convert_ids_to_tokens(bos)
    doubled = sum(row.input_ids[:2].tolist() == [bos, bos] for row in rows)
    without = sum(row.input_ids[0] != bos for row in rows)
    if doubled:
        return Finding(
            "beginning",
            "fail" if doubled >= MOST * len(rows) else "warn",
            f"{of_rows(doubled, len(rows))} begin with {name} twice",
            f"Take {name} out of the chat template or of the rows: the model has never seen two of them.",
        )
    if without and bos in encoder.opening_ids:
        return Finding(
            "beginning",
            "warn",
            f"{of_rows(without, len(rows))} begin without {name}, which the tokenizer puts before plain text",
            "Nothing to do if you train with this template as it is; else let the template write {{ bos_token }}.",
        )
    says = (
        f"rows begin with one {name}" if not without else f"the tokenizer adds no {name}, and none is doubled"
    )
    return Finding("beginning", "pass", says)


def stop_check(rows: Sequence[EncodedRow], tokenizer: PreTrainedTokenizerBase) -> Finding:
    """Return whether the last target of rows that have their end is a stop token."""
    stops = stop_ids(tokenizer)
    if not rows:
        return Finding(
            "stop token",
            "warn",
            "all rows seen are cut off before their end",
            "Raise --max-length if the model allows it, or cut their beginning with --truncate left.",
        )
    last = [int(np.flatnonzero(row.target_mask)[-1]) for row in rows]
    ends = Counter(int(row.input_ids[at]) for row, at in zip(rows, last, strict=True))
    stopping = sum(count for token, count in ends.items() if token in stops)
    masked = sum(
        int(row.input_ids[at]) not in stops and not stops.isdisjoint(row.input_ids[at + 1 :].tolist())
        for row, at in zip(rows, last, strict=True)
    )
    names = ", ".join(
        str(tokenizer.convert_ids_to_tokens(token)) for token, _ in ends.most_common(NAMED) if token in stops
    )
    if stopping == len(rows):
        return Finding(
            "stop token", "pass", f"every answer that was not cut ends with {names}, which is a target"
        )
    if masked >= MOST * len(rows):
        return Finding(
            "stop token",
            "fail",
            f"in {of_rows(masked, len(rows))} a stop token follows the answer and is no target",
            "Let the template write it as part of the answer, without white space before it, or pass another --chat-template.",
        )
    return Finding(
        "stop token",
        "warn",
        f"in {of_rows(len(rows) - stopping, len(rows))} the last target is no stop token",
        "A model trained on this never learns to stop. Pass a --chat-template that ends answers with the end token.",
    )
