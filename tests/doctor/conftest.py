"""The tiny model and dataset of the pipeline's tests."""

from pathlib import Path

import pytest

from tests.model.folders import save_llama
from tests.pipeline.runs import CONTEXT, alpaca_rows, write_jsonl


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_llama(tmp_path_factory.mktemp("doctor") / "model", max_position_embeddings=CONTEXT)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("doctor") / "rows.jsonl", alpaca_rows(20))
