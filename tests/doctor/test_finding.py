"""Tests doctor/finding.py: shares become verdicts, and failures become one message."""

import pytest

from gradscore.doctor.finding import Diagnosis, Finding, refuse_failures, verdict_of_share
from gradscore.errors import CheckFailedError

GOOD = Finding("rows", "pass", "fine")
ODD = Finding("copies", "warn", "some", "Look.")
BAD = Finding("beginning", "fail", "3 of 3 rows begin twice", "Take one out.")


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.0, "pass"), (0.001, "warn"), (0.49, "warn"), (0.5, "fail")]
)
def test_some_rows_are_a_warning_and_most_rows_a_failure(share: float, verdict: str) -> None:
    assert verdict_of_share(share) == verdict


def test_warnings_are_not_refused() -> None:
    refuse_failures([GOOD, ODD])


def test_failures_are_refused_in_one_message() -> None:
    with pytest.raises(CheckFailedError) as error:
        refuse_failures([GOOD, BAD, ODD])
    assert "beginning: 3 of 3 rows begin twice. Take one out." in str(error.value)
    assert "--no-check" in str(error.value)
    assert "copies" not in str(error.value)


def test_a_diagnosis_knows_its_failures() -> None:
    assert Diagnosis((GOOD, BAD), (), {}).failures == (BAD,)
