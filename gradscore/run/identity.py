"""What makes two runs the same run: everything that changes a number."""

from pathlib import Path
from typing import Any

from gradscore import __version__
from gradscore.config import ModelConfig, RunConfig, to_mapping
from gradscore.data.read import RowSource
from gradscore.measures import parse_measures
from gradscore.model.checkpoints import checkpoint_views
from gradscore.model.fingerprint import fingerprint_files, fingerprint_folder
from gradscore.model.load import LoadedModel

_CHANGES_NO_NUMBER = (
    ("model", "device"),
    ("model", "cache_trunk"),
    ("gradients", "max_batch_tokens"),
    ("gradients", "check"),
)


def run_identity(
    config: RunConfig,
    source: RowSource,
    loaded: LoadedModel,
    data_fingerprint: str,
    reference_fingerprint: str | None = None,
) -> dict[str, Any]:
    """Return everything that changes numbers; a run with an equal identity can be continued."""
    mapping = to_mapping(config)
    for section, name in _CHANGES_NO_NUMBER:
        del mapping[section][name]
    mapping["data"]["dataset"] = source.record.dataset
    mapping["scores"]["measures"] = list(parse_measures(config.scores.measures))
    mapping["scores"]["quality"] = _fingerprint_of_file(config.scores.quality)
    return {
        **{section: mapping[section] for section in ("data", "model", "gradients", "scores")},
        "model_fingerprint": loaded.fingerprint,
        "adapter_fingerprints": _adapter_fingerprints(config.model),
        "chat_template_fingerprint": _fingerprint_of_file(config.data.chat_template),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "data_fingerprint": data_fingerprint,
        "reference_fingerprint": reference_fingerprint,
        "n_source_rows": source.record.n_rows,
        "version": __version__,
    }


def _fingerprint_of_file(path: str | None) -> str | None:
    return None if path is None else fingerprint_files([Path(path)])


def _adapter_fingerprints(config: ModelConfig) -> list[str]:
    folders = [] if config.adapter is None else [config.adapter]
    if config.checkpoints is not None:
        folders += [str(view.path) for view in checkpoint_views(config.checkpoints)]
    return [fingerprint_folder(Path(folder)) if Path(folder).is_dir() else folder for folder in folders]
