"""A copy of a sample of the user's rows with known faults in it; the user's own file is only read.

Kinds come in equal parts as far as the rows offer what they need. Faults are made from rows that stay intact,
so that the original of a duplicate and the row that is contradicted are in the sample too. The same dataset,
seed and options give the same bytes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from gradscore.config import DataConfig
from gradscore.data.read import open_source, read_rows
from gradscore.data.schemas import Schema, recognise
from gradscore.emit.formats import to_json
from gradscore.errors import DatasetError
from gradscore.records import Row
from gradscore.validate.answers import read_answer, read_question, with_answer
from gradscore.validate.faults import Exchange, FaultKind

FAULT_COLUMN = "fault"
DEFAULT_SAMPLE = 300
FEWEST_ROWS = 20
"""Rows that a sample needs; with fewer no interval says anything."""


@dataclass(frozen=True)
class PlantedSample:
    """Rows with known faults, in the order of the source."""

    contents: tuple[Mapping[str, Any], ...]
    """The rows: the dataset's own columns and `fault`, which is null for a row that was left as it is."""
    source_indices: tuple[int, ...]
    """Where each row stood in the user's dataset before anything was planted."""
    faults: tuple[str | None, ...]
    schema: Schema
    messages: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each kind of fault, in the order of the kinds."""
        return dict(Counter(fault for fault in self.faults if fault is not None))


def read_sample(config: DataConfig) -> tuple[list[Row], Schema]:
    """Return the rows that `--limit` and `--sample` choose (300 by default) and that have an answer.

    Raises:
        DatasetError: the dataset cannot be read, or fewer than 20 of the rows have an answer.
    """
    source = open_source(config)
    schema = recognise(source.record.columns, config)
    chosen = replace(config, sample=config.sample or DEFAULT_SAMPLE, shard=None)
    rows = [
        row
        for row in read_rows(source, chosen)
        if row.problem is None and read_answer(row.content, schema) is not None
    ]
    if len(rows) < FEWEST_ROWS:
        raise DatasetError(
            f"Faults are planted in at least {FEWEST_ROWS} rows that have an answer; of {source.record.dataset} "
            f"{len(rows)} such rows were chosen. Pass a larger --sample, a larger dataset, or look at the rows with "
            "`gradscore preview`."
        )
    return rows, schema


def plant(
    rows: Sequence[Row], schema: Schema, kinds: Sequence[FaultKind], contamination: float, seed: int
) -> PlantedSample:
    """Return the rows with faults in a share of `contamination` of them; the rows given are not changed.

    Raises:
        DatasetError: no fault that a row shows by itself could be planted.
    """
    rng = Random(seed)
    exchanges = [_exchange(place, row, schema) for place, row in enumerate(rows)]
    messages = _own_fault_column(rows)
    offered = [kind for kind in kinds if schema.name != "text" or not kind.needs_question]
    messages += [f"Not planted in plain text: {kind.name}." for kind in kinds if kind not in offered]
    places = _choose_places(exchanges, offered, round(len(rows) * contamination), rng)
    intact = [exchange for exchange in exchanges if exchange.place not in places]
    contents: list[Mapping[str, Any]] = []
    faults: list[str | None] = []
    for exchange, row in zip(exchanges, rows, strict=True):
        kind = places.get(exchange.place)
        planted = kind.plant(exchange, intact, rng) if kind else None
        content = row.content if planted is None else rows[planted.base.place].content
        if planted is not None and planted.answer != planted.base.answer:
            content = with_answer(content, schema, planted.answer)
        fault = kind.name if kind and planted else None
        contents.append({**content, FAULT_COLUMN: fault})
        faults.append(fault)
    messages += [
        f"Not planted: {kind.name} ({kind.meaning}); no row of the sample offers what it needs."
        for kind in offered
        if kind.name not in faults
    ]
    if not any(kind.name in faults for kind in offered if kind.is_in_row):
        raise DatasetError(
            f"No fault that a row shows could be planted in these {len(rows)} rows "
            f"({', '.join(sorted({fault for fault in faults if fault})) or 'none at all'} planted), so no score could be judged. "
            "Name other --kinds, or pass a larger --sample or --contamination."
        )
    indices = tuple(row.row_index for row in rows)
    return PlantedSample(tuple(contents), indices, tuple(faults), schema, tuple(messages))


def planted_bytes(sample: PlantedSample) -> bytes:
    """Return the sample as JSON lines.

    Raises:
        DatasetError: a row holds a value that has no JSON form.
    """
    rows = (Row(place, "", content) for place, content in enumerate(sample.contents))
    return b"".join(to_json(row) + b"\n" for row in rows)


def _exchange(place: int, row: Row, schema: Schema) -> Exchange:
    side = "chosen" if schema.name == "preference" else None
    question = read_question(row.content, schema, side) or ""
    return Exchange(place, question, read_answer(row.content, schema) or "", row.category)


def _own_fault_column(rows: Iterable[Row]) -> list[str]:
    if not any(row.content.get(FAULT_COLUMN) is not None for row in rows):
        return []
    return [
        f"The dataset has a column {FAULT_COLUMN!r} of its own; in the copy it says what was planted. "
        "Rows that it marks count as sound here, as all rows of yours do."
    ]


def _choose_places(
    exchanges: Sequence[Exchange], kinds: Sequence[FaultKind], n_faulty: int, rng: Random
) -> dict[int, FaultKind]:
    """Return which rows get which kind: in turn one row of each kind, drawn from those that can have it."""
    # Each kind tries the rows in an order of its own.
    free = {kind.name: rng.sample(list(exchanges), len(exchanges)) for kind in kinds}
    places: dict[int, FaultKind] = {}
    turn = 0
    while len(places) < n_faulty and any(free.values()):
        kind = kinds[turn % len(kinds)]
        turn += 1
        while free[kind.name]:
            exchange = free[kind.name].pop()
            others = [other for other in exchanges if other.place != exchange.place]
            # Its own generator, so that trying a row does not change what is planted later.
            if exchange.place not in places and kind.plant(exchange, others, Random(0)) is not None:
                places[exchange.place] = kind
                break
    return places
