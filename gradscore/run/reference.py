"""The trusted rows of `--reference`: read in any schema, and their mean gradients under every view, kept with the run."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from gradscore.config import DataConfig, RunConfig
from gradscore.data.encode import Encoder
from gradscore.data.read import category_of, open_source
from gradscore.data.schemas import recognise
from gradscore.errors import DatasetError
from gradscore.records import OK, EncodedRow, Reporter
from gradscore.scores.influence import Reference, ReferenceSum
from gradscore.scores.sweep import Sweep
from gradscore.table.aside import written_aside
from gradscore.table.run import RunFolder

FOLDER = "reference"
BY_CATEGORY = "by_category"


@dataclass(frozen=True)
class ReferenceRows:
    """Usable rows of the trusted set, and a hash of the content of all its rows."""

    rows: tuple[EncodedRow, ...]
    fingerprint: str


def read_reference(config: RunConfig, encoder: Encoder, reporter: Reporter) -> ReferenceRows | None:
    """Return the trusted rows, rendered and cut as the dataset's own; None where none were given.

    Raises:
        DatasetError: the reference cannot be read, or no row of it can be used.
    """
    if config.scores.reference is None:
        return None
    data = _its_data(config)
    try:
        source = open_source(data)
        schema = recognise(source.record.columns, data)
    except DatasetError as error:
        raise DatasetError(f"--reference {config.scores.reference} cannot be used. {error}") from error
    own = Encoder(encoder.tokenizer, data, encoder.max_length, schema)
    content = hashlib.blake2b(digest_size=16)
    rows: list[EncodedRow] = []
    for row in source.rows():
        content.update(row.row_key.encode())
        if data.category_field is not None:  # which the reference need not have
            row = replace(row, category=category_of(row.content, data.category_field))
        rows += [e for e in own.encode(row) if e.status == OK and e.side != "rejected"]
    if not rows:
        raise DatasetError(
            f"None of {source.record.n_rows} rows of the reference {source.record.dataset} has a target token. "
            f"Look at them with `gradscore preview --dataset {config.scores.reference}`."
        )
    categories = {row.category for row in rows if row.category is not None}
    reporter.message(
        f"Reference: {source.record.dataset}, {len(rows)} usable rows, schema {schema.name}, {len(categories)} categories"
    )
    return ReferenceRows(tuple(rows), f"blake2b:{content.hexdigest()}")


def _its_data(config: RunConfig) -> DataConfig:
    """Return how the reference is read: as the dataset, but for what belongs to the dataset's own file."""
    plain = DataConfig()
    return replace(
        config.data,
        dataset=config.scores.reference,
        split=plain.split,
        subset=plain.subset,
        data_files=plain.data_files,
        schema=plain.schema,
        columns=plain.columns,
    )


def with_reference(
    config: RunConfig, rows: ReferenceRows | None, sweep: Sweep, run: RunFolder, reporter: Reporter
) -> Sweep:
    """Return the sweep with what the trusted rows ask for, if there are any; see `reference_directions`."""
    if rows is None or sweep.measuring is None:
        return sweep
    references = reference_directions(config, rows, sweep, run, reporter)
    return replace(sweep, measuring=replace(sweep.measuring, references=references))


def reference_directions(
    config: RunConfig, rows: ReferenceRows, sweep: Sweep, run: RunFolder, reporter: Reporter
) -> dict[str, Reference]:
    """Return what the trusted rows ask for under every view, by its name; from the run folder if it is there.

    Raises:
        DatasetError: no trusted row has a finite gradient.
    """
    folder = run.path / FOLDER
    paths = {view.name: folder / f"{place:04d}.safetensors" for place, view in enumerate(sweep.views)}
    device = next(sweep.model.parameters()).device
    if all(path.exists() for path in paths.values()):
        return {name: _load(path, device) for name, path in paths.items()}
    sums = {view.name: ReferenceSum() for view in sweep.views}
    reporter.start("taking the reference's gradients", len(rows.rows))
    try:
        with sweep.switch:
            for batch in sweep.collated(rows.rows):
                for view in sweep.views:
                    gradients = sweep.scored_gradients(view, batch)
                    sums[view.name].add(gradients, [row.category for row in batch.rows])
                reporter.advance(len(batch))
    finally:
        reporter.finish()
    if not all(total.n_rows for total in sums.values()):
        raise DatasetError(
            f"No row of the reference {config.scores.reference} has a finite gradient. Try --dtype float32."
        )
    folder.mkdir(exist_ok=True)
    found = {name: total.mean(with_squares=config.scores.reference_adam) for name, total in sums.items()}
    for name, path in paths.items():
        with written_aside(path, what="the reference's gradients", safe="Nothing was scored yet.") as aside:
            save_file(
                _to_tensors(found[name]), aside, {BY_CATEGORY: json.dumps(list(found[name].by_category))}
            )
    return found


def _to_tensors(reference: Reference) -> dict[str, Tensor]:
    groups = {"overall": reference.overall, "squares": reference.mean_squares or ()}
    groups |= {f"category-{place}": parts for place, parts in enumerate(reference.by_category.values())}
    return {
        f"{name}/{place:06d}": part.contiguous()
        for name, parts in groups.items()
        for place, part in enumerate(parts)
    }


def _load(path: Path, device: torch.device) -> Reference:
    with safe_open(path, framework="pt", device=str(device)) as file:
        categories = json.loads(file.metadata()[BY_CATEGORY])
        parts: dict[str, list[Tensor]] = {}
        for name in sorted(file.keys()):
            parts.setdefault(name.split("/")[0], []).append(file.get_tensor(name))
    return Reference(
        overall=tuple(parts["overall"]),
        by_category={c: tuple(parts[f"category-{place}"]) for place, c in enumerate(categories)},
        mean_squares=tuple(parts["squares"]) if "squares" in parts else None,
    )
