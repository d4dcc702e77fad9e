"""What a check found, in words and with a verdict; and the whole diagnosis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradscore.data.preview import RowPreview
from gradscore.errors import CheckFailedError

Verdict = Literal["pass", "warn", "fail"]

MOST = 0.5
"""From this share on, what is wrong with single rows is a failure of the set-up and not of the rows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis."""

    name: str
    verdict: Verdict
    finding: str
    """What was found, with its numbers."""
    advice: str = ""
    """What to do about it; empty where there is nothing to do."""


@dataclass(frozen=True)
class Diagnosis:
    """All that was found about one model and one dataset."""

    findings: tuple[Finding, ...]
    shown: tuple[RowPreview, ...]
    """A few rows as the model sees them, with their targets."""
    numbers: dict[str, Any]
    """The numbers behind the lines: `rows` and, where they could be had, `estimate`."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The lines that failed."""
        return failures_of(self.findings)


def failures_of(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that failed."""
    return tuple(finding for finding in findings if finding.verdict == "fail")


def verdict_of_share(share: float) -> Verdict:
    """Return `pass` for none, `warn` for some rows, and `fail` where most of them are concerned."""
    return "pass" if share == 0 else "warn" if share < MOST else "fail"


def refuse_failures(findings: Sequence[Finding]) -> None:
    """Do nothing where no check failed.

    Raises:
        CheckFailedError: one did; all of them are listed.
    """
    failed = failures_of(findings)
    if failed:
        lines = "\n".join(f"  - {f.name}: {f.finding}. {f.advice}".rstrip() for f in failed)
        raise CheckFailedError(
            f"The scores would not mean what they say; nothing was scored:\n{lines}\n"
            "Look closer with `gradscore doctor` and the same options, or pass --no-check to score all the same."
        )
