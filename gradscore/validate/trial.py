"""The folder of a validation: the sample with its faults, and the configuration that scores it.

    rows.jsonl        the sample, with a column that says what was planted
    scores.parquet    its score table, made by the same steps as any other, with its run folder beside it

A run of the same command finds the same bytes and goes on where it stopped.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradscore.config import RunConfig, to_mapping
from gradscore.errors import ConfigError, TableError
from gradscore.quality.columns import SECTIONS_THAT_MATTER, described, with_needed_measures
from gradscore.quality.stored import read_quality
from gradscore.records import Reporter
from gradscore.table.aside import storage_error, written_aside
from gradscore.table.read import ScoreTable, read_table
from gradscore.table.run import is_finished
from gradscore.validate.faults import choose_kinds
from gradscore.validate.plant import PlantedSample, plant, planted_bytes, read_sample

ROWS, TABLE = "rows.jsonl", "scores.parquet"
SCORING = ("data", *SECTIONS_THAT_MATTER)
"""Sections of the configuration that change scores."""


@dataclass(frozen=True)
class Trial:
    """A sample with its faults, on disk, and how it is scored."""

    folder: Path
    sample: PlantedSample
    config: RunConfig
    """Of the scoring run over the sample."""
    asked: RunConfig
    """Of the validation."""
    is_scored: bool
    """True where the folder holds the finished table of the same rows and settings."""

    @property
    def table(self) -> Path:
        """The score table of the sample."""
        return self.folder / TABLE

    def described(self) -> dict[str, Any]:
        """Return what was planted in which rows, to be stored with the result."""
        return {
            "dataset": self.asked.data.dataset,
            "seed": self.asked.data.seed,
            "contamination": self.asked.validate.contamination,
            "counts": self.sample.counts,
            "messages": list(self.sample.messages),
            "source_row_index": list(self.sample.source_indices),
        }

    def fitted_on(self, table: ScoreTable) -> dict[str, Any]:
        """Return what a model fitted on this trial is about: data, model, settings, faults."""
        asked = to_mapping(self.asked)
        return {
            "dataset": self.asked.data.dataset,
            "language_model": table.metadata["model"],
            "rows": len(table),
            "faults": self.sample.counts,
            "contamination": self.asked.validate.contamination,
            "settings": {section: asked[section] for section in ("data", *SECTIONS_THAT_MATTER)},
        }


def plant_trial(config: RunConfig, reporter: Reporter) -> Trial:
    """Return the trial that a configuration asks for, after writing its rows into `config.validate.output`.

    Raises:
        GradscoreError: see `read_sample`; the folder holds a finished trial of other rows or settings; a file
            cannot be written.
    """
    folder = Path(str(config.validate.output)).expanduser()
    kinds = choose_kinds(config.validate.kinds)
    rows, schema = read_sample(config.data)
    sample = plant(rows, schema, kinds, config.validate.contamination, config.data.seed)
    scoring = _scoring_config(config, folder, sample)
    content = planted_bytes(sample)
    is_scored = not config.table.overwrite and _is_scored(folder, scoring, content)
    _write_rows(folder, content)
    for message in sample.messages:
        reporter.message(message)
    counts = ", ".join(f"{count} {kind}" for kind, count in sample.counts.items())
    reporter.message(f"Planted in {len(sample.contents)} rows: {counts}")
    if is_scored:
        reporter.message(f"{folder / TABLE} is the finished table of these rows; nothing is scored again.")
    return Trial(folder, sample, scoring, config, is_scored)


def _scoring_config(config: RunConfig, folder: Path, sample: PlantedSample) -> RunConfig:
    data = replace(
        config.data,
        dataset=str(folder / ROWS),
        schema=sample.schema.name,  # type: ignore[arg-type]  # the names of schemas are those of the option
        split="train",
        subset=None,
        data_files=None,
        limit=None,
        sample=None,
        shard=None,
    )
    # What quality is made of costs little beside the views, and without it there would be little to judge.
    scores = replace(config.scores, measures=",".join(filter(None, [config.scores.measures, "quality"])))
    if scores.quality is not None:
        scores = with_needed_measures(scores, read_quality(scores.quality))
    return RunConfig(
        data=data,
        model=config.model,
        gradients=config.gradients,
        scores=scores,
        table=replace(config.table, output=str(folder / TABLE)),
    )


def _is_scored(folder: Path, scoring: RunConfig, content: bytes) -> bool:
    """Return whether the folder holds the finished table of these rows and settings.

    Raises:
        TableError: it holds that of others, which must not be mixed up with these.
    """
    if not is_finished(folder / TABLE):
        return False
    found = read_table(folder / TABLE, columns=["row_index"]).metadata
    asked = to_mapping(scoring)
    differing = [section for section in SCORING if found["config"][section] != asked[section]]
    model = None if scoring.scores.quality is None else described(read_quality(scoring.scores.quality))
    if found["quality"] != json.loads(json.dumps(model)):
        differing.append("the content of --quality")
    if not (folder / ROWS).is_file() or (folder / ROWS).read_bytes() != content:
        differing.insert(0, "rows")
    if differing:
        raise TableError(
            f"{folder} holds a finished validation of another kind; what differs: {', '.join(differing)}. "
            "Give another --output, or pass --overwrite to replace it."
        )
    return True


def _write_rows(folder: Path, content: bytes) -> None:
    path = folder / ROWS
    if folder.exists() and not folder.is_dir():
        raise ConfigError(
            f"--output {folder} is a file, and a validation needs a folder. Give another --output."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, path, what="the sample", safe="Nothing was scored yet.") from error
    with written_aside(path, what="the sample with its faults", safe="Nothing was scored yet.") as aside:
        aside.write_bytes(content)
