"""Read Parquet files, folders written by `datasets.save_to_disk`, and anything `datasets.load_dataset` finds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradscore.data.raw_row import RawRow
from gradscore.errors import DatasetError

BATCH_ROWS = 1_000


def open_parquet(path: Path) -> Any:
    """Return the open Parquet file.

    Raises:
        DatasetError: it is not a Parquet file, or is cut off.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise DatasetError(
            f"{path} is no readable Parquet file: {error}. Write it again, or correct its suffix."
        ) from error


def read_parquet(path: Path) -> Iterator[RawRow]:
    """Yield the rows of a Parquet file, a thousand in memory at a time."""
    for batch in open_parquet(path).iter_batches(batch_size=BATCH_ROWS):
        for content in batch.to_pylist():
            yield RawRow(content)


def is_saved_dataset(folder: Path) -> bool:
    """Return whether the folder was written by `datasets.save_to_disk`."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def load_saved(folder: Path, split: str) -> Any:
    """Return the dataset of a save_to_disk folder, memory-mapped.

    Raises:
        DatasetError: the folder is damaged, or has no such split.
    """
    import datasets

    try:
        loaded = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise DatasetError(
            f"{folder} looks like a saved dataset but cannot be loaded: {error}. Save it again."
        ) from error
    if not isinstance(loaded, datasets.DatasetDict):
        return loaded
    if split not in loaded:
        raise DatasetError(
            f"{folder} has no split {split!r}; its splits are: {', '.join(loaded)}. Pass one of them as --split."
        )
    return loaded[split]


def load_by_name(name: str, *, subset: str | None, split: str, data_files: str | None) -> Any:
    """Return a dataset from the Hub, from its local cache, or from a plain folder of data files.

    Raises:
        DatasetError: it does not exist, cannot be reached, or has no such subset, split or file.
    """
    import datasets

    files = [part.strip() for part in data_files.split(",")] if data_files else None
    try:
        return datasets.load_dataset(name, subset, split=split, data_files=files)
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        asked = f"{name!r} (split {split!r}, subset {subset!r}, data files {data_files!r})"
        raise DatasetError(
            f"The dataset {asked} could not be loaded: {str(error)[:500]}. It is no file here, and the Hub or its "
            "cache did not give it. Check the name, --split, --subset, --data-files and the network, or download "
            "the file and pass its path."
        ) from error


def read_dataset(dataset: Any) -> Iterator[RawRow]:
    """Yield the rows of a loaded dataset in order."""
    for content in dataset.with_format(None):
        yield RawRow(content)
