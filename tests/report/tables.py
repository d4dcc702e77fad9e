"""Tables with their dataset, for the tests of report: scores that are known, texts that attack."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gradscore.config import DataConfig
from gradscore.data.read import open_source
from tests.table.rows import scored, write_table

ATTACKS = (
    "</script><script>window.attacked = 1</script>",
    "<img src=x onerror='window.attacked = 1'>",
    "</pre></details></td></table><h1>attacked</h1>",
    "{{ 7 * 7 }} <!-- ]]> ${7*7}",
    "left \u202e right \u2066 hidden \u200b nul \x00 half \ud800 line \u2028 end",
)

VIEWS = [{"name": f"member-0/step-{step:06d}", "member": 0, "step": step} for step in (10, 20)]


def make_table(folder: Path, n: int = 40, *, with_sketch: bool = True, **metadata: Any) -> Path:
    """Write a dataset of `n` rows and its table: gsnr falls from row to row, its error is 0.5, three categories."""
    dataset = folder / "rows.jsonl"
    texts = [ATTACKS[i % len(ATTACKS)] if i < 10 else f"text of row {i}" for i in range(n)]
    kinds = ["<b>bold</b>", "plain", None]
    with dataset.open("w") as stream:
        for i, text in enumerate(texts):
            stream.write(json.dumps({"instruction": f"say {i}", "output": text}) + "\n")
    source = open_source(DataConfig(dataset=str(dataset)))
    generator = np.random.default_rng(0)
    rows = [
        scored(
            row.row_index,
            row_key=row.row_key,
            category=kinds[row.row_index % 3],
            gsnr=float(n - row.row_index),
            gsnr_se=0.5,
            loss=1.0 + row.row_index / n,
            grad_norm=float(generator.lognormal()),
            layer_norms=tuple(generator.uniform(1, 2, 3).tolist()),
            view_layer_norms=tuple(generator.uniform(1, 2, 6).tolist()) if row.row_index % 2 else None,
            sketch=tuple(generator.normal(size=16).tolist()) if with_sketch else None,
        )
        for row in source.rows()
    ]
    values: dict[str, Any] = {"layer_names": ["layer 0", "layer 1", "layer 2"], "views": VIEWS, **metadata}
    return write_table(folder / "scores.parquet", rows, source=asdict(source.record), **values)
