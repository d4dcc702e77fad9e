"""One instruction with its answer, before it becomes a row of the demo dataset."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """An instruction, the text it works on (may be empty), and the answer."""

    instruction: str
    input: str
    output: str
