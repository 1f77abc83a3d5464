"""Values that name a folder of a Delta table (option partition_by): as they were, or refused in words."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.client.position import Position
from headwater.views.targets.contract import Applied, Kind, Misfit, Shape
from headwater.views.targets.delta.target import DeltaTarget

MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)
KEPT = [
    *((pa.string(), text) for text in (None, " ", "a/b=%", "..", "\\'\"\n", "x" * 253, "ü" * 42)),
    *((pa.decimal128(20, 2), Decimal(text)) for text in ("-1.00", "0.00", "123456789012345678.91")),
    *((pa.int64(), number) for number in (-(2**63), 2**63 - 1)),
    (pa.timestamp("us", "UTC"), MOMENT),
    (pa.date32(), dt.date(1, 1, 1)),
    (pa.bool_(), False),
]
REFUSED = [
    *((pa.string(), text) for text in ("", "x" * 254, "ü" * 43, "/" * 100)),
    *((pa.decimal128(38, 18), Decimal(text)) for text in ("-0.5", "-1.5")),
]
NO_FOLDERS = [pa.binary(), pa.float64(), pa.float32(), pa.list_(pa.string())]


def target_of(folder: Path, kind: pa.DataType) -> DeltaTarget:
    schema = pa.schema([("id", pa.int64()), ("c", kind)])
    shape = Shape("v", schema, ("id",), Kind.UPSERT, 1, {"partition_by": "c"})
    return DeltaTarget(f"delta:{folder}/t", shape)


def row_of(kind: pa.DataType, value: Any) -> pa.RecordBatch:
    columns = [pa.array([1], pa.int64()), pa.array([value], kind), pa.array([False])]
    return pa.RecordBatch.from_arrays(columns, names=["id", "c", "_deleted"])


@pytest.mark.parametrize(("kind", "value"), KEPT)
def test_a_value_that_names_a_folder_comes_back_as_it_was(
    tmp_path: Path, kind: pa.DataType, value: Any
):
    target = target_of(tmp_path, kind)
    target.create()
    epoch = target.claim()
    for batch in (0, 1):
        part = target.stage(batch, 0, iter([row_of(kind, value)]))
        assert not part.refused
        target.commit(Applied(batch, epoch, Position({})), [part])
    with target.reading() as (_, batches):
        assert [each for batch in batches for each in batch["c"].to_pylist()] == [value]


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_a_value_that_would_come_back_otherwise_is_refused(
    tmp_path: Path, kind: pa.DataType, value: Any
):
    target = target_of(tmp_path, kind)
    target.create()
    (refused,) = target.stage(0, 0, iter([row_of(kind, value)])).refused
    assert "partition_by" in refused.reason


@pytest.mark.parametrize("kind", NO_FOLDERS)
def test_a_type_whose_values_make_no_folders_is_refused_when_the_view_begins(
    tmp_path: Path, kind: pa.DataType
):
    with pytest.raises(Misfit, match="names of folders"):
        target_of(tmp_path, kind).create()


def test_a_column_that_is_not_there_makes_no_folders(tmp_path: Path):
    shape = Shape("v", pa.schema([("id", pa.int64())]), ("id",), options={"partition_by": "day"})
    with pytest.raises(Misfit, match="partition_by names day"):
        DeltaTarget(f"delta:{tmp_path}/t", shape).create()
