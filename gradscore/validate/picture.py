"""`auroc.png`: every column with its interval, and beside it column by kind of fault as a heat map."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from gradscore.table.aside import written_aside
from gradscore.validate.evaluate import ALL, ColumnResult, Evaluation

INCHES_PER_COLUMN = 0.32
DOTS_PER_INCH = 130


def draw(evaluation: Evaluation, quality: ColumnResult | None) -> Figure:
    """Return the figure, best column on top; quality, if there is one, is marked by a star."""
    candidates = [*([quality] if quality else []), *evaluation.columns, evaluation.control]
    shown = [column for column in candidates if column.auroc[ALL] is not None]
    names = [_label(column, quality) for column in shown]
    kinds = list(evaluation.counts)
    height = 1.9 + INCHES_PER_COLUMN * len(shown)
    # A figure of its own, not pyplot's: nothing is registered, nothing needs a screen.
    figure = Figure(figsize=(11, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 3], sharey=True)
    _draw_intervals(left, shown)
    left.set_yticks(range(len(shown)), names)
    image = _draw_kinds(right, shown, kinds)
    labels = [f"{kind} ({evaluation.counts[kind]})" for kind in kinds]
    right.set_xticks(range(len(kinds)), labels, rotation=45, ha="right", rotation_mode="anchor")
    figure.colorbar(image, ax=right, label="AUROC", fraction=0.04)
    figure.suptitle(
        f"Do faulty rows score worse? {evaluation.counts[ALL]} planted faults, {evaluation.n_sound} rows as they were"
    )
    return figure


def write_picture(evaluation: Evaluation, quality: ColumnResult | None, path: Path) -> None:
    """Write the figure as PNG.

    Raises:
        StorageError: the file cannot be written.
    """
    figure = draw(evaluation, quality)
    with written_aside(path, what="the picture", safe="The scores are safe.") as aside:
        figure.savefig(aside, format="png", dpi=DOTS_PER_INCH)


def _label(column: ColumnResult, quality: ColumnResult | None) -> str:
    mark = " ★" if column is quality else " (direction chosen)" if column.is_direction_chosen else ""
    return column.name + mark


def _draw_intervals(axes: Axes, shown: Sequence[ColumnResult]) -> None:
    for place, column in enumerate(shown):
        estimate = column.auroc[ALL]
        assert estimate is not None, "columns without values are not drawn"
        colour = {"finds faults": "tab:blue", "ranks faults high": "tab:red"}.get(column.verdict, "tab:gray")
        axes.plot([estimate.low, estimate.high], [place, place], color=colour, linewidth=2)
        axes.plot([estimate.value], [place], "o", color=colour)
    axes.axvline(0.5, color="black", linewidth=0.8, linestyle="--")
    axes.set_xlim(0, 1)
    axes.set_xlabel("AUROC, 95 % interval (0.5: chance)\n★: its order was not fitted to these faults")


def _draw_kinds(axes: Axes, shown: Sequence[ColumnResult], kinds: Sequence[str]) -> AxesImage:
    values = np.array([[_value(column, kind) for kind in kinds] for column in shown])
    image = axes.imshow(values, cmap="RdBu", vmin=0, vmax=1, aspect="auto")
    for place in range(len(shown)):
        for at in range(len(kinds)):
            if np.isfinite(values[place, at]):
                is_dark = abs(values[place, at] - 0.5) > 0.35
                colour = "white" if is_dark else "black"
                axes.text(
                    at, place, f"{values[place, at]:.2f}", ha="center", va="center", color=colour, fontsize=8
                )
    return image


def _value(column: ColumnResult, kind: str) -> float:
    estimate = column.auroc[kind]
    return float("nan") if estimate is None else estimate.value
