"""The pictures of a score table as matplotlib axes, for notebooks and papers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gradscore.errors import TableError, UnsupportedError
from gradscore.report.bins import bin_edges, is_skewed, short_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gradscore.report.read_scores import Scores


class Plots:
    """Pictures of one table; every method takes the axes to draw on, or makes its own, and returns them."""

    def __init__(self, scores: "Scores") -> None:
        self._scores = scores

    def histogram(self, column: str = "gsnr", *, axes: "Axes | None" = None) -> "Axes":
        """Return a histogram of a column, stacked by category, with the noise floor where it is gsnr.

        Raises:
            TableError: the table has no value in that column.
        """
        axes = _axes(axes)
        rows = self._rows(column)
        values = rows[column].to_numpy(dtype=np.float64)
        groups = list(self._by_category(rows))
        parts = [part[column].to_numpy() for _, part in groups]
        axes.hist(parts, bins=bin_edges(values).tolist(), stacked=True, label=[name for name, _ in groups])
        if is_skewed(values):
            axes.set_xscale("log")
        if column == "gsnr":
            for floor in self._floors():
                axes.axvline(floor, color="black", linestyle="--", linewidth=1)
        axes.set(xlabel=self._label(column), ylabel="rows")
        return _with_legend(axes, len(groups))

    def scatter(self, x: str = "loss", y: str = "gsnr", *, axes: "Axes | None" = None) -> "Axes":
        """Return one column against another, a colour per category, with error bars where the table has them.

        Raises:
            TableError: the table has no row with both values.
        """
        axes = _axes(axes)
        rows = self._rows(x, y)
        groups = list(self._by_category(rows))
        error = f"{y}_se"
        for name, part in groups:
            bars = part[error] if error in part and part[error].notna().all() else None
            axes.errorbar(
                part[x], part[y], yerr=bars, fmt="o", markersize=3, alpha=0.6, elinewidth=0.6, label=name
            )
        if is_skewed(rows[x].to_numpy(dtype=np.float64)):
            axes.set_xscale("log")
        if y == "gsnr":
            for floor in self._floors():
                axes.axhline(floor, color="black", linestyle="--", linewidth=1)
        axes.set(xlabel=self._label(x), ylabel=self._label(y))
        return _with_legend(axes, len(groups))

    def layers(self, *, axes: "Axes | None" = None) -> "Axes":
        """Return the median gradient norm of each layer, with the quartiles over rows as a band.

        Raises:
            TableError: the table holds no layer norms.
        """
        axes = _axes(axes)
        norms = self._scores.frame["layer_norms"].dropna()
        if norms.empty:
            raise TableError(
                f"{self._scores.table.path} holds no layer norms. Score with a release that writes them."
            )
        low, median, high = np.quantile(np.stack(norms.tolist()), [0.25, 0.5, 0.75], axis=0)
        places = np.arange(len(median))
        axes.fill_between(places, low, high, alpha=0.25)
        axes.plot(places, median, marker="o", markersize=3)
        names = list(self._scores.metadata["layer_names"])
        step = max(1, len(names) // 12)
        axes.set_xticks(places[::step], names[::step], rotation=45, ha="right")
        axes.set(ylabel="gradient norm, median and quartiles")
        return axes

    def by_category(self, column: str = "gsnr", *, axes: "Axes | None" = None) -> "Axes":
        """Return a box for each category (quartiles, whiskers, no outliers).

        Raises:
            TableError: the table has no value in that column.
        """
        axes = _axes(axes)
        groups = list(self._by_category(self._rows(column)))
        axes.boxplot(
            [part[column].to_numpy() for _, part in groups], orientation="horizontal", showfliers=False
        )
        axes.set_yticks(range(1, len(groups) + 1), [name for name, _ in groups])
        axes.set(xlabel=self._label(column))
        return axes

    def _rows(self, *columns: str) -> pd.DataFrame:
        frame = self._scores.frame
        unknown = [name for name in columns if name not in self._scores.table.numeric_columns]
        if unknown:
            raise TableError(
                f"The table has no numeric column {', '.join(unknown)}; it has: "
                f"{', '.join(self._scores.table.numeric_columns)}."
            )
        rows = frame.dropna(subset=list(columns))
        if rows.empty:
            raise TableError(f"No row has a value in {' and '.join(columns)}. Look at the column status.")
        return rows

    def _by_category(self, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
        labels = np.array([None if pd.isna(label) else label for label in rows["category"]], dtype=object)
        shown, order = short_labels(labels, "(none)", "(other)")
        for name in order:
            yield name, rows[shown == name]

    def _floors(self) -> list[float]:
        floor = self._scores.metadata.get("noise_floor")
        return [] if floor is None else [float(floor)]

    def _label(self, column: str) -> str:
        units = {entry["name"]: entry["unit"] for entry in self._scores.metadata.get("columns", [])}
        unit = units.get(column, "")
        return f"{column} ({unit})" if unit else column


def _axes(axes: "Axes | None") -> "Axes":
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise UnsupportedError(
            "Pictures in a notebook need matplotlib. Install it: pip install matplotlib."
        ) from error
    return plt.subplots(layout="constrained")[1]


def _with_legend(axes: "Axes", n_groups: int) -> "Axes":
    if n_groups > 1:
        axes.legend(fontsize=8)
    return axes
