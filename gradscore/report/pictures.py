"""Which pictures a study has: for each a name, a title, a sentence and its chart."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradscore.report import charts
from gradscore.report.bins import binned, is_skewed, short_labels
from gradscore.report.columns import LENGTH
from gradscore.report.confounds import random_overlap
from gradscore.report.directions import direction_pictures
from gradscore.report.picture import Picture, Records
from gradscore.report.study import Study
from gradscore.report.untrusted import visible
from gradscore.report.words import Words

SCATTER_ROWS = 2_000
MAX_CATEGORIES = 12


def pictures_of(study: Study, words: Words) -> tuple[list[Picture], Records]:
    """Return the pictures of a study, and the sampled rows that the scatter plots share."""
    pictures = [
        *_cut_pictures(study, words),
        *_distributions(study, words),
        *_category_pictures(study, words),
        *_scatters(study, words),
        *_confound_pictures(study, words),
        *direction_pictures(study, words),
    ]
    return pictures, _sampled_rows(study, words)


def column_title(name: str, words: Words) -> str:
    """Return a column's name as an axis shows it, with its unit where it is known by heart."""
    return words.or_else(f"column.{name}", name)


def _cut_pictures(study: Study, words: Words) -> Iterator[Picture]:
    decisions = study.decisions
    ranked = decisions.rank > 0
    kept = np.where(decisions.keep, words("kept"), words("dropped")).astype(object)
    score = decisions.score[ranked]
    if not len(score):
        return
    order = [words("kept"), words("dropped")]
    rules = [] if study.cut.value is None else [{"value": study.cut.value, "name": words("cut")}]
    if study.config.by == "gsnr" and study.config.normalize == "none":
        rules += _floor(study, words)
    title = column_title(study.config.by, words)
    if study.config.normalize != "none":
        title = words("normalised", name=title, how=study.config.normalize)
    chart = charts.distribution(
        list(binned(score, kept[ranked], order)),
        title,
        words("rows"),
        order,
        is_log=is_skewed(score),
        rules=rules,
        colours=(charts.KEPT, charts.DROPPED),
    )
    yield Picture("cut", "cut", words("picture.cut"), words("picture.cut.note"), chart)


def _distributions(study: Study, words: Words) -> Iterator[Picture]:
    labels, order = _labels(study, words)
    for name in [*(column.name for column in study.columns), LENGTH]:
        values = study.table.numbers(name)
        valid = np.isfinite(values)
        if not valid.any():
            continue
        column = next((column for column in study.columns if column.name == name), None)
        meaning = words.or_else(f"meaning.{name}", "" if column is None else column.meaning)
        yield Picture(
            f"distribution-{name}",
            "distributions",
            name,
            meaning,
            charts.distribution(
                list(binned(values[valid], labels[valid], order)),
                column_title(name, words),
                words("rows"),
                order,
                is_log=is_skewed(values[valid]),
                rules=_floor(study, words) if name == "gsnr" else [],
            ),
            is_detail=column is not None and column.is_detail,
        )


def _category_pictures(study: Study, words: Words) -> Iterator[Picture]:
    if len({*study.decisions.category.tolist()}) < 2:
        return
    ranked = study.decisions.rank > 0
    frame = pd.DataFrame(
        {
            "category": [_category(label, words) for label in study.decisions.category[ranked]],
            "value": study.decisions.value[ranked],
            "kept": study.decisions.keep[ranked],
        }
    )
    records = []
    for name, rows in frame.groupby("category", sort=False):
        low, median, high = np.quantile(rows["value"], [0.25, 0.5, 0.75]).tolist()
        kept = float(rows["kept"].mean())
        records.append(
            {
                "category": str(name),
                "rows": len(rows),
                "low": low,
                "median": median,
                "high": high,
                "kept": kept,
            }
        )
    records = sorted(records, key=lambda record: -record["rows"])[:MAX_CATEGORIES]
    names = {key: words(key) for key in ("category", "rows", "kept", "median")}
    by = column_title(study.config.by, words)
    chart = charts.categories(records, by, names, _floor(study, words) if study.config.by == "gsnr" else [])
    note = words("picture.categories.note", n=len(records), of=frame["category"].nunique())
    yield Picture("categories", "distributions", words("picture.categories", by=study.config.by), note, chart)


def _scatters(study: Study, words: Words) -> Iterator[Picture]:
    by = study.config.by
    names = {key: words(key) for key in ("kept", "dropped", "decided", "undecided", "row", "category")}
    shown = [column.name for column in study.columns]
    for name in ("loss", "grad_norm", LENGTH, "gsnr"):
        if name == by or name not in (*shown, LENGTH):
            continue
        values = study.table.numbers(name)
        chart = charts.scatter(
            (name, column_title(name, words)),
            (by, column_title(by, words)),
            names,
            is_log=is_skewed(values[np.isfinite(values)]),
            rules=_floor(study, words) if by == "gsnr" else [],
        )
        correlation = study.correlations.get(name)
        note = (
            ""
            if correlation is None
            else words(
                "picture.scatter.note", rho=correlation.rho, low=correlation.low, high=correlation.high
            )
        )
        title = words("picture.scatter", y=by, x=name)
        yield Picture(f"scatter-{name}", "scatters", title, note, chart)


def _confound_pictures(study: Study, words: Words) -> Iterator[Picture]:
    if study.correlations:
        records: Records = [
            {
                "name": name,
                "value": found.rho,
                "low": found.low,
                "high": found.high,
                "shown": f"{found.rho:.2f} [{found.low:.2f}, {found.high:.2f}]",
            }
            for name, found in study.correlations.items()
        ]
        title = words("picture.correlations", by=study.config.by)
        chart = charts.intervals(records, words("rank_correlation"), (-1, 1), [{"value": 0, "name": ""}])
        yield Picture("correlations", "confounds", title, words("picture.correlations.note"), chart)
    if study.overlaps:
        n = int((study.decisions.rank > 0).sum())
        n_kept = int((study.decisions.keep & (study.decisions.rank > 0)).sum())
        share, low, high = random_overlap(n_kept, n)
        records = [
            {
                "name": words("highest" if each.is_highest else "lowest", name=each.column),
                "value": each.share,
                "low": each.share,
                "high": each.share,
                "shown": f"{each.share:.0%}",
            }
            for each in study.overlaps
        ]
        shown = f"{share:.0%} [{low:.0%}, {high:.0%}]"
        records.append({"name": words("random"), "value": share, "low": low, "high": high, "shown": shown})
        chart = charts.intervals(records, words("overlap"), (0, 1))
        note = words("picture.overlaps.note", share=share, low=low, high=high)
        yield Picture("overlaps", "confounds", words("picture.overlaps"), note, chart)


def _sampled_rows(study: Study, words: Words) -> Records:
    ranked = np.flatnonzero(study.decisions.rank > 0)
    if len(ranked) > SCATTER_ROWS:
        ranked = np.sort(np.random.default_rng(0).choice(ranked, SCATTER_ROWS, replace=False))
    names = [LENGTH, *(column.name for column in study.columns)]
    verdict = np.where(study.decisions.keep[ranked], words("kept"), words("dropped")).astype(object)
    sure = np.where(study.cut.undecided[ranked], words("undecided"), words("decided")).astype(object)
    values: Mapping[str, NDArray[np.float64]] = {name: study.table.numbers(name)[ranked] for name in names}
    wanted = {study.config.by, "loss", "grad_norm", LENGTH, "gsnr"}
    return [
        {
            "row": int(study.decisions.row_index[position]),
            "label": _category(study.decisions.category[position], words),
            "verdict": str(verdict[place]),
            "sure": str(sure[place]),
            **{
                name: float(f"{values[name][place]:.5g}")
                for name in names
                if name in wanted and np.isfinite(values[name][place])
            },
        }
        for place, position in enumerate(ranked)
    ]


def _labels(study: Study, words: Words) -> tuple[NDArray[np.object_], list[str]]:
    shown = np.array([_category(label, words) for label in study.decisions.category], dtype=object)
    return short_labels(shown, words("none"), words("other"))


def _category(label: str | None, words: Words) -> str:
    return words("none") if label is None else visible(label, 40)


def _floor(study: Study, words: Words) -> Records:
    floor = study.table.metadata.get("noise_floor")
    return [] if floor is None else [{"value": floor, "name": words("noise_floor")}]


def shown_chart(picture: Picture, rows: Records) -> dict[str, Any]:
    """Return a chart with its shared rows in it, for drawing it alone."""
    chart: dict[str, Any] = picture.chart.to_dict(context={"pre_transform": False})
    return {**chart, "datasets": {**chart.get("datasets", {}), "rows": rows}}
