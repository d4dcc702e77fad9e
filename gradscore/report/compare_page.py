"""The picture and the page of two tables compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from gradscore.report.charts import CONFIG, DROPPED, KEPT
from gradscore.report.compare import TableComparison, sampled_places
from gradscore.report.make import PNG_SCALE, PNG_WIDTH, write_text
from gradscore.report.page import render_template
from gradscore.report.untrusted import visible
from gradscore.report.words import Words
from gradscore.table.aside import written_aside


def write_comparison(
    comparison: TableComparison, path: Path, texts: Mapping[int, tuple[tuple[str, str], ...]]
) -> None:
    """Write the comparison as a page (.html) or its picture (.png).

    Raises:
        StorageError: the file cannot be written.
    """
    chart = place_chart(comparison.by)
    rows = sampled_places(comparison)
    if path.suffix.lower() == ".png":
        alone = {**chart, "datasets": {"rows": rows}, "width": PNG_WIDTH, "height": PNG_WIDTH}
        with written_aside(path, what="the picture", safe="The score tables are untouched.") as temporary:
            temporary.write_bytes(vl_convert.vegalite_to_png(alone, scale=PNG_SCALE, config=CONFIG["light"]))
        return
    page = render_template(
        "compare.html.jinja",
        Words("en"),
        charts={"places": chart},
        rows=rows,
        left=visible(str(comparison.left.path), 200),
        right=visible(str(comparison.right.path), 200),
        agreement=comparison.agreement,
        differences=[visible(line, 300) for line in comparison.agreement.differences],
        by=comparison.by,
        movers=comparison.movers,
        texts=texts,
    )
    write_text(path, page)


def place_chart(by: str) -> dict[str, Any]:
    """Return places in one table against places in the other as Vega-Lite; on the diagonal nothing moved."""
    diagonal = (
        alt.Chart(alt.InlineData(values=[{"left": 0, "right": 0}, {"left": 1, "right": 1}]))
        .mark_line(color=DROPPED, strokeDash=[5, 4])
        .encode(x="left:Q", y="right:Q")
    )
    points = (
        alt.Chart(alt.NamedData(name="rows"))
        .mark_point(filled=True, size=28, opacity=0.55, color=KEPT)
        .encode(
            x=alt.X("left:Q", title=f"place by {by} in A, 0 lowest"),
            y=alt.Y("right:Q", title=f"place by {by} in B"),
            tooltip=[
                alt.Tooltip("row:Q", title="row"),
                alt.Tooltip("left_value:Q", title=f"{by} in A", format=".4g"),
                alt.Tooltip("right_value:Q", title=f"{by} in B", format=".4g"),
            ],
        )
    )
    chart: dict[str, Any] = (diagonal + points).properties(width="container", height=420).to_dict()
    return chart
