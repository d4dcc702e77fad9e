"""A quality model in a scoring run: what it needs is turned on, and what it was not made for is said."""

from dataclasses import replace

from gradscore.config import RunConfig, to_mapping
from gradscore.model.load import LoadedModel
from gradscore.quality.columns import differences, with_needed_measures
from gradscore.quality.model import QualityModel
from gradscore.quality.stored import read_quality
from gradscore.records import Reporter


def open_quality(config: RunConfig) -> tuple[RunConfig, QualityModel | None]:
    """Return the model that `--quality` names, and the configuration with the measures that it needs.

    Raises:
        TableError: the file is no quality model, or needs columns that this release does not have.
    """
    if config.scores.quality is None:
        return config, None
    model = read_quality(config.scores.quality)
    return replace(config, scores=with_needed_measures(config.scores, model)), model


def warn_of_differences(
    config: RunConfig, model: QualityModel, loaded: LoadedModel, reporter: Reporter
) -> None:
    """Say what differs from the run that the model was fitted on, since its columns may have another scale here."""
    found = differences(model, loaded.fingerprint, to_mapping(config))
    if found:
        reporter.message(
            f"Warning: quality was fitted with other settings: {', '.join(found)}. Its columns may have another scale "
            "here, so its probabilities may be off. Run `gradscore validate` with these settings."
        )
