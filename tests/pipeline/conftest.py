"""A tiny model folder and a small dataset, made once, and the table of an undisturbed run over them."""

from pathlib import Path

import pandas as pd
import pytest

from tests.model.folders import save_llama
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
