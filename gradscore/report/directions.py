"""The pictures of directions and layers, from samples of the table's list columns."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from gradscore.report import charts
from gradscore.report.bins import binned
from gradscore.report.cosines import HIGH, PairCosines, pair_cosines
from gradscore.report.picture import Picture, Records
from gradscore.report.profile import SAMPLED_ROWS
from gradscore.report.study import Study
from gradscore.report.words import Words
from gradscore.table.lists import sample_lists

HEALTHY_COSINE = 0.15


def direction_pictures(study: Study, words: Words) -> Iterator[Picture]:
    """Yield cosines of pairs, and norms by layer and score and by layer and view, as far as the table holds them."""
    cosines = _cosines(study)
    if cosines is not None:
        values = cosines.values
        labels = np.full(len(values), "x", dtype=object)
        rules = [
            {"value": HEALTHY_COSINE, "name": words("healthy")},
            {"value": HIGH, "name": words("homogeneous")},
        ]
        chart = charts.distribution(
            list(binned(values, labels, ["x"])),
            words("cosine"),
            words("pairs"),
            ["x"],
            is_log=False,
            rules=rules,
        )
        note = words("picture.cosines.note", n=len(values), error=cosines.error)
        yield Picture("pair-cosines", "directions", words("picture.cosines"), note, chart)
    layers = _layer_cells(study)
    if layers is not None:
        cells, names = layers
        axis = words("decile", by=study.config.by)
        chart = charts.heat_map(cells, axis, words("layer"), words("median_norm"), names)
        note = words("picture.layers.note")
        yield Picture("layers", "directions", words("picture.layers", by=study.config.by), note, chart)
    by_view = _view_cells(study)
    if by_view is not None:
        cells, names, n_rows = by_view
        chart = charts.heat_map(cells, words("view"), words("layer"), words("median_norm"), names)
        is_dropout = study.table.metadata["views"][-1].get("kind") == "dropout"
        note = words(f"picture.layer_views.note{'_dropout' if is_dropout else ''}", rows=n_rows)
        yield Picture("layers-by-view", "directions", words("picture.layer_views"), note, chart)


def _cosines(study: Study) -> PairCosines | None:
    _, sketches = sample_lists(study.table.path, "sketch", SAMPLED_ROWS)
    return pair_cosines(sketches) if len(sketches) else None


def _layer_cells(study: Study) -> tuple[Records, list[str]] | None:
    """Return the median norm of each layer within tenths of the ranking score, from a sample of rows."""
    indices, norms = sample_lists(study.table.path, "layer_norms", SAMPLED_ROWS)
    names = [str(name) for name in study.table.metadata.get("layer_names", [])]
    if not len(norms) or norms.shape[1] != len(names):
        return None
    value_of = pd.Series(study.decisions.value, index=study.decisions.row_index)
    values = value_of.reindex(indices).to_numpy(dtype=np.float64)
    valid = np.isfinite(values)
    n_groups = min(10, max(1, int(valid.sum()) // 5))
    groups = np.asarray(pd.qcut(pd.Series(values[valid]).rank(method="first"), n_groups, labels=False))
    cells = [
        {"layer": names[layer], "group": int(group) + 1, "norm": float(median)}
        for group in np.unique(groups)
        for layer, median in enumerate(np.median(norms[valid][groups == group], axis=0))
        if median > 0
    ]
    return cells, names[::-1]


def _view_cells(study: Study) -> tuple[Records, list[str], int] | None:
    """Return the median norm of each layer under each view, over the rows that have them, and how many these are."""
    if "view_layer_norms" not in study.table.schema.names:
        return None
    _, norms = sample_lists(study.table.path, "view_layer_norms", SAMPLED_ROWS)
    names = [str(name) for name in study.table.metadata.get("layer_names", [])]
    views = study.table.metadata.get("views", [])
    of_one_member = [view for view in views if view["member"] == views[0]["member"]]
    if not len(norms) or len(of_one_member) < 2 or norms.shape[1] != len(of_one_member) * len(names):
        return None
    medians = np.median(norms.reshape(len(norms), len(of_one_member), len(names)), axis=0)
    labels = [_view_label(str(view["name"])) for view in of_one_member]
    cells = [
        {"layer": names[layer], "group": labels[at], "norm": float(medians[at, layer])}
        for at in range(len(labels))
        for layer in range(len(names))
        if medians[at, layer] > 0
    ]
    return cells, names[::-1], len(norms)


def _view_label(name: str) -> str:
    """Return the name of a view as an axis shows it: `member-0/step-000020` is `step 20`."""
    return re.sub(r"-0*(\d+)$", r" \1", name.rpartition("/")[2])
