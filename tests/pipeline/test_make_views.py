"""Tests gradscore.run.make_views: what cannot go together is refused before any work."""

from pathlib import Path

import pytest

from gradscore.config import ModelConfig, RunConfig
from gradscore.errors import ConfigError
from gradscore.run.make_views import needs_adapter
from tests.model.folders import save_llama


def test_an_adapter_beside_full_checkpoints_is_refused(tmp_path: Path) -> None:
    """It was once ignored without a word."""
    save_llama(tmp_path / "full")
    model = ModelConfig(view_source="checkpoints", checkpoints=str(tmp_path / "full"), adapter="some/adapter")
    with pytest.raises(
        ConfigError, match="--adapter some/adapter has no place on --checkpoints that are full models"
    ):
        needs_adapter(RunConfig(model=model))
