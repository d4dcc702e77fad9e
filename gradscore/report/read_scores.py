"""A finished table in a notebook: a pandas frame, its metadata, and pictures as matplotlib axes."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradscore.report.columns import score_columns
from gradscore.report.profile import profile_of
from gradscore.report.untrusted import visible
from gradscore.table.read import ScoreTable, read_table

if TYPE_CHECKING:
    import pandas as pd

    from gradscore.report.axes import Plots


@dataclass(frozen=True)
class Scores:
    """A score table to look at: `.frame`, `.metadata`, `.dictionary`, `.plot`, `.profile`."""

    table: ScoreTable

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """All columns as a pandas frame, missing scores as NaN."""
        return self.table.arrow.to_pandas()

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The footer of the table: configuration, model, views, noise floor, versions."""
        return self.table.metadata

    @property
    def dictionary(self) -> "pd.DataFrame":
        """What each column means, its unit, direction and range."""
        import pandas as pd

        return pd.DataFrame(self.metadata["columns"]).set_index("name")

    @cached_property
    def profile(self) -> Mapping[str, float | None]:
        """The gradient profile by measure; None where the table cannot say."""
        return profile_of(self.table).values

    @property
    def plot(self) -> "Plots":
        """Pictures, each a method that returns matplotlib axes; they need matplotlib."""
        from gradscore.report.axes import Plots  # matplotlib is for those who draw

        return Plots(self)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        ok = int((self.table.texts("status") == "ok").sum())
        return f"Scores({str(self.table.path)!r}: {len(self)} rows, {ok} scored, {len(self.table.schema)} columns)"

    def _repr_html_(self) -> str:
        """Return the quartiles of each score as an HTML table, for a notebook."""
        names = [column.name for column in score_columns(self.table) if not column.is_detail]
        quartiles = self.frame[names].quantile([0.05, 0.25, 0.5, 0.75, 0.95]).T
        quartiles.columns = ["5 %", "25 %", "median", "75 %", "95 %"]
        floor = self.metadata.get("noise_floor")
        source = html.escape(visible(str(self.metadata["source"]["dataset"]), 200))
        noise = "" if floor is None else f"; noise floor of gsnr {floor:.3g}"
        return f"<p>{html.escape(repr(self))}<br>from {source}{noise}</p>" + quartiles.to_html(
            float_format="%.4g"
        )


def read_scores(path: str | Path) -> Scores:
    """Return the finished score table at `path`, ready to look at.

    Raises:
        TableError: nothing is there, or it is no finished table.
    """
    return Scores(read_table(path))
