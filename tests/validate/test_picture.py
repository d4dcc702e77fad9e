"""Tests validate/picture.py: every column with values is drawn once, and the file is a picture."""

from pathlib import Path

import numpy as np

from gradscore.validate.evaluate import evaluate
from gradscore.validate.picture import draw, write_picture
from tests.validate.marked import labels, marked

FAULTS = labels(40, 3)
ROWS = marked(
    FAULTS, {"loss": np.arange(52.0), "gsnr": np.full(52, np.nan), "ifd": np.ones(52)}, {"loss": "low"}
)


def test_columns_with_values_and_the_control_are_named() -> None:
    evaluation = evaluate(ROWS, "0.5", 0)
    figure = draw(evaluation, None)
    left, right = figure.axes[:2]
    names = [label.get_text() for label in left.get_yticklabels()]
    assert sorted(names) == ["ifd (direction chosen)", "loss", "random"]
    bottom, top = left.get_ylim()
    assert bottom > top, "the best column stands on top"
    assert right.get_xticklabels()[0].get_text() == "all (12)"
    unseen = draw(evaluation, evaluation.columns[0])
    assert unseen.axes[0].get_yticklabels()[0].get_text().endswith(" ★")


def test_the_file_is_a_picture(tmp_path: Path) -> None:
    write_picture(evaluate(ROWS, "0.5", 0), None, tmp_path / "auroc.png")
    assert (tmp_path / "auroc.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["auroc.png"]
