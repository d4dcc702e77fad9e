"""The three files of a filter run: kept rows, dropped rows, manifest; checked before any work is done."""

from dataclasses import dataclass
from pathlib import Path

from gradscore.config import EmitConfig
from gradscore.errors import ConfigError, StorageError
from gradscore.records import SourceRecord

FORMATS = ("jsonl", "json", "parquet", "csv", "tsv")


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the results go, and in which format the kept rows are written."""

    kept: Path
    format: str
    is_gzipped: bool

    @property
    def dropped(self) -> Path:
        """The dropped rows with their reasons: `kept.dropped.parquet` beside `kept.jsonl`."""
        return self.kept.with_name(self._stem + ".dropped.parquet")

    @property
    def manifest(self) -> Path:
        """What was done: `kept.manifest.json` beside `kept.jsonl`; written last."""
        return self.kept.with_name(self._stem + ".manifest.json")

    @property
    def _stem(self) -> str:
        name = self.kept.name.removesuffix(".gz") if self.is_gzipped else self.kept.name
        return name.rpartition(".")[0]


def plan_outputs(config: EmitConfig, source: SourceRecord, table: Path) -> Outputs:
    """Return where the results go.

    Raises:
        ConfigError: no output is given, its suffix names no format, or it is the source or the score table.
        StorageError: one of the files exists and may not be replaced, or their folder cannot be made.
    """
    known = ", ".join(f".{name}" for name in FORMATS)
    if config.output is None:
        raise ConfigError(f"No output was given. Pass --output with a file that ends in one of: {known}.")
    path = Path(config.output).expanduser()
    is_gzipped = path.suffix == ".gz"
    suffix = (Path(path.stem) if is_gzipped else path).suffix.removeprefix(".").lower()
    if suffix not in FORMATS or (is_gzipped and suffix == "parquet"):
        raise ConfigError(
            f"--output {config.output}: the suffix names no format that can be written. "
            f"Use one of: {known}; the text formats also with .gz."
        )
    if path.exists() and Path(source.dataset).exists() and path.samefile(source.dataset):
        raise ConfigError(
            f"--output {config.output} is the dataset that is filtered, which is never replaced. Give another name."
        )
    outputs = Outputs(path, suffix, is_gzipped)
    for file in (outputs.kept, outputs.dropped, outputs.manifest):
        if table.resolve() in (file.resolve(), *file.resolve().parents):
            raise ConfigError(
                f"{file} would replace the score table {table}, or lie in its folder. Give --output another name."
            )
    existing = [str(file) for file in (outputs.kept, outputs.dropped, outputs.manifest) if file.exists()]
    if existing and not config.overwrite:
        raise StorageError(
            f"Results are already there: {', '.join(existing)}. "
            "Pass --overwrite to replace them, or give --output another name."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder {path.parent} cannot be made: {error.strerror}. Give --output another place."
        ) from error
    return outputs
