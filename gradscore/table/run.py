"""The run folder: what a scoring run keeps beside its table, and the check that it is the same run.

For the table `scores.parquet`, or the folder table `scores/`, the run folder is `scores.run/`:

    config.yaml   the whole configuration, for replay
    run.json      the run's identity: everything that changes numbers
    views/        snapshots of the adapter (written by the model stage)
    parts/        finished rows while the run goes on; gone once the table is complete

Two runs with equal identity give equal numbers, so a second one continues the first. `run.json` is
written last: a run folder without it never held a finished row.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from gradscore.errors import TableError
from gradscore.table.aside import storage_error, written_aside
from gradscore.table.schema import METADATA_KEY

MANIFEST = "_manifest.json"
IDENTITY = "run.json"
CONFIG = "config.yaml"
NOT_A_TABLE = (".csv", ".tsv", ".json", ".jsonl", ".gz", ".run", ".pq", ".arrow")
"""Endings of other kinds of file, which would otherwise become the name of a folder."""
UNFINISHED_SUFFIX = ".partial"
"""Ends the name of a folder of views that is still being written."""
_SAFE = "Nothing was scored by this command yet, and earlier results are untouched."


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one scoring run, open for writing."""

    path: Path
    output: Path
    """The score table that the run will write."""
    identity: Mapping[str, Any]
    is_resumed: bool
    """True when an earlier run with the same identity left its folder."""

    @property
    def views(self) -> Path:
        """Folder of the saved views."""
        return self.path / "views"

    @property
    def parts(self) -> Path:
        """Folder of the rows finished so far."""
        return self.path / "parts"

    @classmethod
    def open(
        cls,
        output: str | Path,
        identity: Mapping[str, Any],
        *,
        config_mapping: Mapping[str, Any],
        overwrite: bool = False,
        resume: bool = True,
    ) -> "RunFolder":
        """Return the run folder of `output`, new or continued; a finished table stays until it is replaced.

        Args:
            output: the score table to write, a `.parquet` file or a folder.
            identity: nested plain values that change numbers; equal identity means the run is continued.
            config_mapping: the whole configuration, saved for replay.
            overwrite: replace a finished table, and drop parts and views of another identity.
            resume: False drops the parts of an earlier run; views of the same identity stay.

        Raises:
            TableError: a finished table or foreign files are in the way, or the folder holds work of a run
                with another identity; the message lists what differs.
            StorageError: the folder cannot be written.
        """
        output = Path(output).expanduser()
        path = run_folder_path(output)
        identity = json.loads(json.dumps(identity))  # compare what JSON keeps: tuples become lists
        require_free(output, overwrite)
        found = _read_identity(path)
        differences = [] if found is None else identity_differences(found, identity)
        if differences and not overwrite and _holds_work(path):
            raise TableError(_other_run_message(path, differences))
        try:
            if differences:
                shutil.rmtree(path)
            elif not resume:
                shutil.rmtree(path / "parts", ignore_errors=True)
            for folder in (path / "parts", path / "views"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, path, what="the run folder", safe=_SAFE) from error
        _write_text(path / CONFIG, yaml.safe_dump(_plain(config_mapping), sort_keys=False))
        _write_text(path / IDENTITY, json.dumps(identity, indent=2) + "\n")
        is_resumed = found is not None and not differences
        return cls(path=path, output=output, identity=identity, is_resumed=is_resumed)


def run_folder_path(output: Path) -> Path:
    """Return where the run folder of a score table is: `scores.run` beside `scores.parquet` or `scores/`."""
    stem = output.name.removesuffix(".parquet")
    return output.with_name(stem + ".run")


def _is_score_table(path: Path) -> bool:
    try:
        return METADATA_KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowInvalid, OSError):
        return False


def is_finished(output: Path) -> bool:
    """Return whether a complete table is at `output`: a file, or a folder with its manifest."""
    return output.is_file() or (output / MANIFEST).is_file()


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one flat one with dotted keys; an empty mapping is a value."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def identity_differences(
    old: Mapping[str, Any], new: Mapping[str, Any], names: tuple[str, str] = ("before", "now")
) -> list[str]:
    """Return one line per dotted key in which two identities differ: key, old value, new value."""
    before, after = flatten(old), flatten(new)
    absent = object()
    lines = []
    for key in sorted(before.keys() | after.keys()):
        left, right = before.get(key, absent), after.get(key, absent)
        if left != right:
            shown = ["(absent)" if value is absent else json.dumps(value) for value in (left, right)]
            lines.append(f"{key}: {shown[0]} {names[0]}, {shown[1]} {names[1]}")
    return lines


def require_free(output: str | Path, overwrite: bool) -> None:
    """Do nothing where a table may be written: the output is free, an empty folder, or may be replaced.

    Raises:
        TableError: a finished table or foreign files are in the way.
    """
    output = Path(output).expanduser()
    if output.suffix != ".parquet" and output.is_file():
        raise TableError(
            f"{output} is a file, but an output without the ending .parquet is written as a folder of parts. "
            "Give --output another name, or one that ends in .parquet."
        )
    if output.is_dir():
        if not any(output.iterdir()):
            return
        if output.suffix == ".parquet" or not (output / MANIFEST).is_file():
            raise TableError(
                f"The folder {output} exists and is not a finished score table, so it is never replaced. "
                "Give --output another name."
            )
    if output.suffix in NOT_A_TABLE:
        raise TableError(
            f"--output {output} ends in {output.suffix}, and a score table is Parquet. "
            "Give a name that ends in .parquet, or one without an ending for a folder of parts."
        )
    if output.is_file() and not _is_score_table(output):
        raise TableError(
            f"{output} exists and is not a score table, so it is never replaced. Give --output another name."
        )
    if is_finished(output) and not overwrite:
        raise TableError(
            f"A finished score table is already at {output}. "
            "Use it as it is, pass --overwrite to replace it, or give --output another name."
        )


def _read_identity(path: Path) -> dict[str, Any] | None:
    """Return the identity that a run folder was made with, or None where no run has been."""
    try:
        text = (path / IDENTITY).read_text(encoding="utf-8")
    except FileNotFoundError:
        if path.is_dir() and not {entry.name for entry in path.iterdir()} <= {
            "parts",
            "views",
            CONFIG,
            CONFIG + ".tmp",
            IDENTITY + ".tmp",
        }:
            raise TableError(
                f"{path} would be the run folder, but it holds files of another kind and no {IDENTITY}. "
                "Move it away, or give --output another name."
            ) from None
        return None
    except OSError as error:
        raise TableError(
            f"The run folder {path} cannot be opened: {error.strerror}. Move it away, or give --output another name."
        ) from error
    try:
        identity = json.loads(text)
    except json.JSONDecodeError:
        identity = None
    if not isinstance(identity, dict):
        raise TableError(
            f"{path / IDENTITY} is not the identity of a run (JSON object expected). "
            f"Delete the folder {path} to start anew, or give --output another name."
        )
    return identity


def _holds_work(path: Path) -> bool:
    """Return whether a run folder holds anything that took time: finished rows, or views saved as folders.

    A run that ended in a mistake of its options holds neither, and must not be in the way of its correction.
    """
    views = path / "views"
    has_views = views.is_dir() and any(
        entry.is_dir() and entry.suffix != UNFINISHED_SUFFIX for entry in views.iterdir()
    )
    return has_views or any((path / "parts").glob("*.parquet"))


def _other_run_message(path: Path, differences: list[str]) -> str:
    lines = "\n".join(f"  - {line}" for line in differences)
    return (
        f"{path} holds a run with other settings or data. What differs:\n{lines}\n"
        "Repeat the earlier settings to continue it, pass --overwrite to drop its results, "
        "or give --output another name."
    )


def _plain(value: Any) -> Any:
    """Return nested mappings and sequences as dicts and lists, which is all that plain YAML holds."""
    return json.loads(json.dumps(value))


def _write_text(path: Path, text: str) -> None:
    with written_aside(path, what=path.name, safe=_SAFE) as temporary:
        temporary.write_text(text, encoding="utf-8")
