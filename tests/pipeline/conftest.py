"""A tiny model folder and a small dataset, made once, and the table of an undisturbed run over them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.model.folders import save_llama
from tests.pipeline.counter import ROWS_PER_BATCH, Counter
from tests.pipeline.runs import CONTEXT, alpaca_rows, read, score, write_jsonl


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("tiny") / "model", max_position_embeddings=CONTEXT)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("data") / "rows.jsonl", alpaca_rows(20))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, model: Path, dataset: Path) -> Path:
    """The table of a run with the default tiny settings; its run folder with the views lies beside it."""
    output = tmp_path_factory.mktemp("finished") / "scores.parquet"
    score(model=model, dataset=dataset, output=output)
    return output


@pytest.fixture(scope="session")
def expected(finished: Path) -> pd.DataFrame:
    return read(finished)


@pytest.fixture(scope="session")
def undisturbed(model: Path, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    output = tmp_path_factory.mktemp("undisturbed") / "s.parquet"
    score(model=model, dataset=dataset, output=output, **ROWS_PER_BATCH)
    return read(output)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


@pytest.fixture
def interrupted(counter: Counter, model: Path, dataset: Path, tmp_path: Path) -> dict[str, Any]:
    """The options of a run that was interrupted after three batches; its views and those rows are on disk."""
    options = {"model": model, "dataset": dataset, "output": tmp_path / "s.parquet", **ROWS_PER_BATCH}
    counter.batches_left = 3
    with pytest.raises(KeyboardInterrupt):
        score(**options)
    counter.batches_left = None
    return options
