"""Tests doctor/past.py: finished runs of the same model are found, others are not."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from gradscore.doctor.past import PastRun, past_runs
from tests.doctor.cases import small_sweep
from tests.doctor.test_estimate import FLAT
from tests.pipeline.runs import score


@pytest.fixture(scope="module")
def finished(model: Path, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("past") / "earlier.parquet"
    score(model=model, dataset=dataset, output=output, limit=6, max_batch_tokens=1)
    (output.parent / "other.parquet").write_bytes(b"no table")
    return output


def look(model: Path, dataset: Path, output: Path | None, **options: Any) -> tuple[PastRun, ...]:
    """Return the past runs that a doctor of these options finds beside `output`."""
    beside = {} if output is None else {"output": output}
    with small_sweep(model=model, dataset=dataset, max_batch_tokens=1, **beside, **options) as (
        config,
        sweep,
        _,
        found,
    ):
        return past_runs(config, found.loaded, sweep, FLAT)


def test_an_earlier_run_is_estimated_anew_and_held_against_what_it_took(
    finished: Path, model: Path, dataset: Path
) -> None:
    (run,) = look(model, dataset, finished.with_name("next.parquet"), views=5)
    tokens = sum(row["n_tokens"] for row in _rows(finished))
    assert run.table == str(finished)
    assert run.n_rows == 6
    assert run.estimated_seconds == 3 * tokens  # its own three views, not the five of now
    assert run.took_seconds > 0
    assert run.ratio == run.estimated_seconds / run.took_seconds


def _rows(table: Path) -> list[dict[str, Any]]:
    return pd.read_parquet(table).to_dict("records")


@pytest.mark.parametrize("options", [{"lora_rank": 2}, {"parameters": "attention"}, {"engine": "loop"}])
def test_a_run_that_cost_otherwise_is_left_out(
    finished: Path, model: Path, dataset: Path, options: dict[str, Any]
) -> None:
    assert look(model, dataset, finished, **options) == ()


def test_without_an_output_none_is_looked_for(model: Path, dataset: Path) -> None:
    assert look(model, dataset, None) == ()


def test_a_run_that_was_interrupted_is_left_out(
    finished: Path, model: Path, dataset: Path, tmp_path: Path
) -> None:
    table = pq.read_table(finished)
    metadata = json.loads(table.schema.metadata[b"gradscore"])
    metadata["timing"]["rows_scored"] -= 1
    pq.write_table(
        table.replace_schema_metadata({b"gradscore": json.dumps(metadata)}), tmp_path / "cut.parquet"
    )
    assert look(model, dataset, tmp_path / "next.parquet") == ()
    shutil.copy(finished, tmp_path)
    assert len(look(model, dataset, tmp_path / "next.parquet")) == 1


def test_options_that_an_earlier_release_did_not_have_had_their_default(
    finished: Path, model: Path, dataset: Path, tmp_path: Path
) -> None:
    table = pq.read_table(finished)
    metadata = json.loads(table.schema.metadata[b"gradscore"])
    del metadata["config"]["scores"]["sketch"]
    footer = {b"gradscore": json.dumps(metadata)}
    pq.write_table(table.replace_schema_metadata(footer), tmp_path / "old.parquet")
    assert len(look(model, dataset, tmp_path / "next.parquet")) == 1
    metadata["config"]["scores"]["unheard_of"] = 1
    footer = {b"gradscore": json.dumps(metadata)}
    pq.write_table(table.replace_schema_metadata(footer), tmp_path / "old.parquet")
    assert look(model, dataset, tmp_path / "next.parquet") == ()


def test_the_ratio_is_estimated_over_taken() -> None:
    run = PastRun("a", 1, took_seconds=4.0, estimated_seconds=2.0)
    assert run.ratio == 0.5
    assert replace(run, estimated_seconds=4.0).ratio == 1.0
