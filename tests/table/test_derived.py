"""Tests table/derived.py: derived columns are in the table, its dictionary and its order, file or folder."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gradscore.records import SilentReporter
from gradscore.table.derived import Derived
from gradscore.table.parts import PartWriter
from gradscore.table.read import read_table
from gradscore.table.run import RunFolder
from gradscore.table.schema import Column
from tests.table.rows import IDENTITY, metadata, scored

HALVED = Derived(
    (Column("half", pa.float64(), "half of the loss", "", "", ">= 0", better="low"),),
    ("loss",),
    lambda columns: {"half": columns["loss"] / 2},
)


@pytest.mark.parametrize("name", ["s.parquet", "s"])
def test_a_derived_column_is_in_the_table_and_described(tmp_path: Path, name: str) -> None:
    run = RunFolder.open(tmp_path / name, IDENTITY, config_mapping={})
    writer = PartWriter(run, SilentReporter())
    writer.add([scored(2), scored(0), scored(1, status="too_long")])
    path = writer.finish(metadata(), {(i, None) for i in range(3)}, [HALVED])
    table = read_table(path)
    np.testing.assert_array_equal(table.numbers("half"), [1.0, np.nan, 2.0])
    assert table.arrow["half"].null_count == 1
    assert table.schema.names[-4:] == ["half", "layer_norms", "view_layer_norms", "sketch"]
    assert {"name": "half", "better": "low"}.items() <= {
        key: value
        for entry in table.metadata["columns"]
        if entry["name"] == "half"
        for key, value in entry.items()
    }.items()
