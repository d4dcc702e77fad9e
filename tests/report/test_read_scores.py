"""Tests gradscore.read_scores and its pictures: the frame, the metadata, axes, and text that stays text."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pandas as pd
import pytest

import gradscore
from gradscore.errors import TableError
from tests.report.tables import make_table
from tests.table.rows import scored, write_table

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def test_the_frame_is_what_pandas_reads_and_the_metadata_the_footer(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    scores = gradscore.read_scores(path)
    pd.testing.assert_frame_equal(scores.frame, pd.read_parquet(path))
    assert scores.metadata["noise_floor"] == 0.5
    assert scores.dictionary.loc["loss", "unit"] == "nats per target token"
    assert scores.profile["gsnr_median"] == 20.5
    assert repr(scores) == f"Scores('{path}': 40 rows, 40 scored, {len(scores.table.schema)} columns)"


def test_html_holds_the_quartiles_and_escapes_the_name(tmp_path: Path) -> None:
    folder = tmp_path / "<script>"
    folder.mkdir()
    shown = gradscore.read_scores(make_table(folder))._repr_html_()
    assert "<script>" not in shown
    assert "20.5" in shown


def test_pictures_are_axes_and_draw_on_those_given(tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    plot = gradscore.read_scores(make_table(tmp_path)).plot
    axes = plt.subplots()[1]
    assert plot.scatter("loss", "gsnr", axes=axes) is axes
    assert [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [0.5]
    assert sum(patch.get_height() for patch in plot.histogram("gsnr").containers[-1].patches) > 0
    assert len(plot.layers().lines[0].get_xdata()) == 3
    assert [label.get_text() for label in plot.by_category().get_yticklabels()] == [
        "<b>bold</b>",
        "(none)",
        "plain",
    ]


def test_every_row_is_in_the_histogram(tmp_path: Path) -> None:
    axes = gradscore.read_scores(make_table(tmp_path)).plot.histogram("grad_norm")
    tops = [[patch.get_height() for patch in container.patches] for container in axes.containers]
    assert sum(map(sum, tops)) == 40


def test_a_column_without_values_or_that_is_not_there_is_named(tmp_path: Path) -> None:
    rows = [scored(i, gsnr=None) for i in range(4)]
    plot = gradscore.read_scores(write_table(tmp_path / "s.parquet", rows)).plot
    with pytest.raises(TableError, match="No row has a value in gsnr"):
        plot.histogram()
    with pytest.raises(TableError, match="no numeric column category; it has: row_index"):
        plot.histogram("category")
    with pytest.raises(TableError, match="holds no layer norms"):
        plot.layers()


def test_importing_the_package_loads_nothing_for_it() -> None:
    code = "import gradscore, sys; print({'numpy', 'pandas', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="has no attribute 'read_score'"):
        gradscore.read_score  # type: ignore[attr-defined]  # noqa: B018
