"""Tests doctor/examine.py: what a broken model or dataset leaves to be said."""

from pathlib import Path

import torch

from gradscore.doctor.examine import examine_model
from gradscore.doctor.finding import Verdict
from tests.doctor.cases import opened
from tests.pipeline.runs import Listener, write_jsonl


def examine(
    model: Path, dataset: Path, *, poison: bool = False, **options: object
) -> tuple[dict[str, Verdict], dict[str, object]]:
    """Return the verdict of each line by its name, and the numbers."""
    config, found, rows = opened(model=model, dataset=dataset, **options)
    if poison:
        with torch.no_grad():
            next(found.loaded.model.parameters())[:] = float("nan")
    findings, numbers = examine_model(config, rows, found, Listener())
    return {finding.name: finding.verdict for finding in findings}, numbers


def test_a_sound_model_passes_every_line_and_is_estimated(model: Path, dataset: Path) -> None:
    verdicts, numbers = examine(model, dataset)
    assert list(verdicts) == [
        "weights",
        "finite",
        "engine",
        "coverage",
        "fresh adapter",
        "padding",
        "determinism",
        "time",
        "past runs",
        "memory",
        "disk",
    ]
    assert set(verdicts.values()) == {"pass"}
    assert float(str(numbers["seconds"])) > 0


def test_a_model_with_nan_in_its_weights_fails_and_is_not_estimated(model: Path, dataset: Path) -> None:
    verdicts, numbers = examine(model, dataset, poison=True)
    assert verdicts["weights"] == "fail"
    assert verdicts["gradients"] == "fail"
    assert "time" not in verdicts
    assert numbers == {}


def test_without_a_usable_row_gradients_cannot_be_examined(model: Path, tmp_path: Path) -> None:
    empty = write_jsonl(tmp_path / "empty.jsonl", [{"instruction": "Say nothing", "output": ""}] * 3)
    verdicts, numbers = examine(model, empty)
    assert verdicts == {"weights": "pass", "gradients": "fail"}
    assert numbers == {}


def test_folds_that_leave_a_member_without_rows_fail_as_the_run_would(model: Path, tmp_path: Path) -> None:
    """The run in small has one member and no folds, so that the doctor passed what score then refused."""
    one = write_jsonl(tmp_path / "one.jsonl", [{"instruction": "Say one", "output": "one"}])
    verdicts, numbers = examine(model, one, cross_fit=True, members=2)
    assert verdicts == {"weights": "pass", "gradients": "fail"}
    assert numbers == {}
