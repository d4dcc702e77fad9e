"""Short ways to score and filter with few options, and to compare two score tables."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gradscore.config import SECTIONS, RunConfig, from_mapping
from gradscore.pipeline import FilterOutcome, ScoreOutcome, filter_dataset, score_dataset
from gradscore.records import SilentReporter

CONTEXT = 256
"""Most tokens that the tiny model takes."""

WARMUP = {"warmup_steps": 3, "update_interval": 1, "views": 3, "learning_rate": 0.01}
"""A warm-up of five steps, at a rate that moves B away from zero in so few."""

SCORE_SECTIONS = ("data", "model", "gradients", "scores", "table")
FILTER_SECTIONS = ("filter", "emit")

SCORES = ("loss", "loss_first", "loss_last", "grad_norm", "grad_norm_first", "grad_norm_last")
MOMENTS = ("gsnr", "gsnr_unbiased", "gsnr_se")


class Listener(SilentReporter):
    """A reporter that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        """Remember the line."""
        self.said.append(text)


def settings(sections: tuple[str, ...], options: Mapping[str, Any]) -> RunConfig:
    """Return a configuration from field names alone; a path is taken as text."""
    mapping: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        section = next(s for s in sections if name in {f.name for f in dataclasses.fields(SECTIONS[s])})
        mapping.setdefault(section, {})[name] = str(value) if isinstance(value, Path) else value
    return from_mapping(mapping)


def score_config(**options: Any) -> RunConfig:
    """Return the configuration of a scoring run, with the tiny warm-up unless other views are asked for."""
    if options.get("view_source", "warmup") == "warmup":
        options = {**WARMUP, **options}
    return settings(SCORE_SECTIONS, options)


def score(reporter: Listener | None = None, **options: Any) -> ScoreOutcome:
    """Score a dataset with the given options."""
    return score_dataset(score_config(**options), reporter)


def filter(**options: Any) -> FilterOutcome:
    """Filter a scored dataset with the given options."""
    return filter_dataset(settings(FILTER_SECTIONS, options))


def read(table: Path) -> pd.DataFrame:
    """Return a score table as any reader of Parquet would."""
    return pd.read_parquet(table)


def alpaca_rows(count: int) -> list[dict[str, str]]:
    """Return instruction rows of many lengths, no two alike, in three categories."""
    return [
        {
            "instruction": f"Say the {'very ' * (i % 5)}number {i}",
            "input": f"from {i * 3}" if i % 3 == 0 else "",
            "output": f"It is {i}" + " and more" * (i * 7 % 11),
            "kind": "abc"[i % 3],
        }
        for i in range(count)
    ]


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the rows as JSON Lines and return the path."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def assert_same_scores(
    found: pd.DataFrame, expected: pd.DataFrame, *, rtol: float = 1e-5, moments_rtol: float = 1e-3
) -> None:
    """Require the same rows in the same order, with equal scores but for rounding.

    GSNR divides by a difference of nearly equal gradients, which costs it the digits that they share; hence its
    wider tolerance. With `rtol=0, moments_rtol=0` every bit must agree.
    """
    exact = [
        c
        for c in expected.columns
        if c
        not in (*SCORES, *MOMENTS, "gsnr_spread", "loss_drop", "layer_norms", "view_layer_norms", "sketch")
    ]
    pd.testing.assert_frame_equal(found[exact], expected[exact])
    for names, tolerance in ((SCORES, rtol), (MOMENTS, moments_rtol)):
        for name in names:
            pd.testing.assert_series_equal(found[name], expected[name], rtol=tolerance, atol=0)
    # A difference of two losses is as exact as they are.
    drop_atol = rtol * expected["loss"].max()
    pd.testing.assert_series_equal(found["loss_drop"], expected["loss_drop"], rtol=0, atol=drop_atol)
    for a, b in zip(found["layer_norms"], expected["layer_norms"], strict=True):
        if b is None:
            assert a is None
        else:
            np.testing.assert_allclose(a, b, rtol=max(rtol, 1e-6) if rtol else 0)
