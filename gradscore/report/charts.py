"""The pictures of the page as Vega-Lite charts: data in, chart out. Nothing is read or computed from a table here.

Charts carry no colours of the page: text, grid and background come from `CONFIG`, so one chart serves light and
dark. Field names are fixed words; text of the dataset occurs as values only, which Vega draws as text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

KEPT, DROPPED, UNDECIDED = "#2f7ed8", "#9aa5b1", "#e8871e"
PALETTE = ["#2f7ed8", "#e8871e", "#3aa17e", "#c2558f", "#8a6fd1", "#9aa5b1"]
HEIGHT = 240


def _config(text: str, faint: str, background: str) -> dict[str, Any]:
    axis = {
        "labelColor": text,
        "titleColor": text,
        "gridColor": faint,
        "domainColor": faint,
        "tickColor": faint,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
    }
    return {
        "background": background,
        "font": "system-ui, 'Segoe UI', Roboto, 'Noto Sans CJK SC', 'PingFang SC', sans-serif",
        "view": {"stroke": "transparent"},
        "axis": axis,
        "legend": {
            "labelColor": text,
            "titleColor": text,
            "orient": "bottom",
            "columns": 3,
            "labelLimit": 160,
        },
        "title": {"color": text, "anchor": "start", "fontSize": 13, "subtitleColor": text},
        "text": {"color": text},
        "range": {"category": PALETTE},
    }


CONFIG = {
    "light": _config("#1f2933", "#dfe4ea", "#ffffff"),
    "dark": _config("#e4e7eb", "#3b4754", "#1b222b"),
}

Records = Sequence[Mapping[str, Any]]


def distribution(
    bins: Records,
    x: str,
    rows: str,
    labels: Sequence[str],
    *,
    is_log: bool,
    rules: Records = (),
    colours: Sequence[str] = (),
) -> alt.Chart | alt.LayerChart:
    """Return a histogram stacked by label, with a vertical line for each rule (value, name)."""
    scale = alt.Scale(type="log", nice=False) if is_log else alt.Scale(zero=False, nice=False)
    palette = alt.Scale(domain=list(labels), range=list(colours or PALETTE[: len(labels)]))
    colour = (
        alt.Color("label:N", title=None, sort=list(labels), scale=palette)
        if len(labels) > 1
        else alt.value(KEPT)
    )
    bars = (
        alt.Chart(_data(bins))
        .mark_bar(binSpacing=0.5)
        .encode(
            x=alt.X(
                "start:Q", bin="binned", title=x, scale=scale, axis=alt.Axis(labelOverlap=True, tickCount=8)
            ),
            x2="end:Q",
            y=alt.Y("rows:Q", title=rows, stack="zero"),
            color=colour,
            tooltip=[
                alt.Tooltip("start:Q", title="≥", format=".4g"),
                alt.Tooltip("end:Q", title="<", format=".4g"),
                alt.Tooltip("label:N", title=" "),
                alt.Tooltip("rows:Q", title=rows),
            ],
        )
    )
    return _framed(bars, rules, HEIGHT)


def scatter(
    x: tuple[str, str], y: tuple[str, str], names: Mapping[str, str], *, is_log: bool, rules: Records = ()
) -> alt.LayerChart | alt.Chart:
    """Return sampled rows as points, coloured by what becomes of them, with a horizontal line for each rule.

    Args:
        x: field of the shared data set `rows`, and its title.
        y: the same for the other axis.
        names: shown names of kept, dropped, undecided, row, category.
        is_log: whether x is on a log scale.
        rules: horizontal lines, each with value and name.
    """
    scale = alt.Scale(type="log", nice=False) if is_log else alt.Scale(zero=False)
    points = (
        alt.Chart(alt.NamedData(name="rows"))
        .mark_point(filled=True, size=28, opacity=0.6)
        .encode(
            x=alt.X(f"{x[0]}:Q", title=x[1], scale=scale, axis=alt.Axis(labelOverlap=True, tickCount=8)),
            y=alt.Y(f"{y[0]}:Q", title=y[1], scale=alt.Scale(zero=False)),
            color=_two("verdict", names["kept"], names["dropped"], [KEPT, DROPPED], alt.Color),
            shape=_two("sure", names["decided"], names["undecided"], ["circle", "cross"], alt.Shape),
            tooltip=[
                alt.Tooltip("row:Q", title=names["row"]),
                alt.Tooltip("label:N", title=names["category"]),
                alt.Tooltip(f"{y[0]}:Q", title=y[1], format=".4g"),
                alt.Tooltip(f"{x[0]}:Q", title=x[1], format=".4g"),
                alt.Tooltip("verdict:N", title=" "),
                alt.Tooltip("sure:N", title=" "),
            ],
        )
    )
    return _framed(points, rules, 280, axis="y")


def _two(field: str, first: str, second: str, values: list[str], channel: Any) -> Any:
    # Symbols in the legend of shapes have no colour of their own and would be black on black.
    legend = alt.Legend(symbolFillColor=DROPPED, symbolStrokeColor=DROPPED)
    legend = legend if channel is alt.Shape else alt.Legend()
    scale = alt.Scale(domain=[first, second], range=values)
    return channel(f"{field}:N", title=None, scale=scale, legend=legend)


def heat_map(cells: Records, x: str, y: str, value: str, rows_top_down: Sequence[str]) -> alt.Chart:
    """Return layers against a grouping of rows, coloured by the relative norm, the last layer on top."""
    return (
        alt.Chart(_data(cells))
        .mark_rect()
        .encode(
            x=alt.X("group:O", title=x, sort=None, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("layer:O", title=y, sort=list(rows_top_down), axis=alt.Axis(labelOverlap=True)),
            color=alt.Color(
                "norm:Q",
                title=value,
                scale=alt.Scale(type="log", scheme="viridis", nice=False),
                legend=alt.Legend(format=".2~g"),
            ),
            tooltip=[
                alt.Tooltip("layer:N", title=y),
                alt.Tooltip("group:N", title=x),
                alt.Tooltip("norm:Q", title=value, format=".3g"),
            ],
        )
        .properties(width="container", height=max(160, min(480, 14 * len(rows_top_down))))
    )


def categories(records: Records, x: str, names: Mapping[str, str], rules: Records = ()) -> alt.LayerChart:
    """Return the quartiles of the ranking score of each category as a bar with its median."""
    base = alt.Chart(_data(records)).encode(
        y=alt.Y("category:N", title=None, sort=None, axis=alt.Axis(labelLimit=140)),
        tooltip=[
            alt.Tooltip("category:N", title=names["category"]),
            alt.Tooltip("rows:Q", title=names["rows"]),
            alt.Tooltip("kept:Q", title=names["kept"], format=".0%"),
            alt.Tooltip("median:Q", title=names["median"], format=".4g"),
        ],
    )
    bars = base.mark_bar(size=12, opacity=0.55, color=KEPT).encode(
        x=alt.X("low:Q", title=x, scale=alt.Scale(zero=False)), x2="high:Q"
    )
    middle = base.mark_tick(thickness=3, size=16, color=KEPT).encode(x="median:Q")
    height = max(80, 26 * len(records))
    return alt.layer(bars, middle, *_rules(rules, "x")).properties(width="container", height=height)


def intervals(records: Records, x: str, domain: tuple[float, float], rules: Records = ()) -> alt.LayerChart:
    """Return named values between `low` and `high` as points with bars, one per line."""
    base = alt.Chart(_data(records)).encode(
        y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=190)),
        tooltip=[alt.Tooltip("name:N", title=" "), alt.Tooltip("shown:N", title=x)],
    )
    bars = base.mark_rule(strokeWidth=3, opacity=0.45, color=KEPT).encode(
        x=alt.X("low:Q", title=x, scale=alt.Scale(domain=list(domain)), axis=alt.Axis(tickCount=5)),
        x2="high:Q",
    )
    points = base.mark_point(filled=True, size=70, opacity=1, color=KEPT).encode(x="value:Q")
    height = max(80, 26 * len(records))
    return alt.layer(bars, points, *_rules(rules, "x")).properties(width="container", height=height)


def _data(records: Records) -> alt.InlineData:
    return alt.InlineData(values=[dict(record) for record in records])


def _rules(rules: Records, axis: str) -> list[alt.Chart]:
    if not rules:
        return []
    data = alt.Chart(_data(rules))
    place = {axis: alt.X("value:Q") if axis == "x" else alt.Y("value:Q")}
    tooltip = [alt.Tooltip("name:N", title=" "), alt.Tooltip("value:Q", title="=", format=".4g")]
    line = data.mark_rule(strokeDash=[5, 4], strokeWidth=2, color=UNDECIDED).encode(**place, tooltip=tooltip)
    shift: dict[str, Any] = (
        {"dx": 4, "align": "left", "y": 10} if axis == "x" else {"dy": -6, "align": "left", "x": 6}
    )
    text = data.mark_text(fontSize=11, baseline="middle", **shift).encode(**place, text="name:N")
    return [line, text]


def _framed(chart: alt.Chart, rules: Records, height: int, axis: str = "x") -> alt.Chart | alt.LayerChart:
    layered = alt.layer(chart, *_rules(rules, axis)) if rules else chart
    return layered.properties(width="container", height=height)
