"""Rows reach Spark as they are, by way of a file or of the plan."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.views.tables import frames

ROW = """a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g BOOLEAN, h STRING, i BINARY, j DATE,
    k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(38,18), n DECIMAL(5,2), o ARRAY<STRING>,
    p STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>, q MAP<STRING, BIGINT>"""
UTC = datetime.UTC
OLD, FAR = datetime.datetime(1, 1, 1, 0, 0, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
ROWS: list[tuple[Any, ...]] = [
    (None,) * 17,
    (
        *(-128, -32768, -(2**31), -(2**63), float("-inf"), -0.0, False, "", b""),
        *(OLD.date(), OLD.replace(tzinfo=UTC), OLD, decimal.Decimal("-1e-18"), decimal.Decimal(0)),
        *([], {"x": None, "y": []}, []),
    ),
    (
        *(127, 32767, 2**31 - 1, 2**63 - 1, float("nan"), 5e-324, True, "ü\0😀", b"\0\xff"),
        *(FAR.date(), FAR.replace(tzinfo=UTC), FAR, decimal.Decimal("9" * 20), None),
        *([None, ""], {"x": 1, "y": [None, {"z": None}, {"z": "z"}]}, [("k", None), ("", 1)]),
    ),
    (
        *(0, 0, 0, 0, 0.1, 0.1, None, "x" * 50_000, None, datetime.date(1582, 10, 10)),
        *(datetime.datetime(1582, 10, 10, tzinfo=UTC), datetime.datetime(1899, 1, 1)),
        *(decimal.Decimal("0.1"), decimal.Decimal("-999.99"), None, None, None),
    ),
]


@pytest.mark.parametrize("folder", ["orders@2", "a b", "[x]{y,z}*?", "%40\\b", "ü:#"])
def test_rows_reach_spark_by_a_file_in_any_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
):
    """The folder of a version that is being built is called VIEW@2; people call theirs what they like."""
    monkeypatch.setattr(frames, "LARGE_BYTES", 0)
    rows, row = pa.table({"a": [1, 2]}), StructType.fromDDL("a BIGINT")
    frame = frames.frame_of(spark, rows, row, tmp_path / folder / "rows.parquet")
    assert frame.toArrow().sort_by("a").column("a").to_pylist() == [1, 2]


@pytest.mark.parametrize("large_bytes", [0, 1 << 40])
def test_no_value_is_another_one_after_its_way_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_bytes: int
):
    monkeypatch.setattr(frames, "LARGE_BYTES", large_bytes)
    row = StructType.fromDDL(ROW)
    schema = to_arrow_schema(row, timezone="UTC")
    columns = zip(*ROWS, strict=True)
    rows = pa.table(
        [pa.array(list(each), field.type) for each, field in zip(columns, schema, strict=True)],
        names=[f"c{n}" for n in range(len(schema))],
    )
    frame = frames.frame_of(spark, rows, row, tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").exists() == (large_bytes == 0)
    found = frame.toArrow()
    given = rows.rename_columns(row.names).cast(schema)
    assert [repr(each) for each in as_text(found)] == [repr(each) for each in as_text(given)]


def as_text(rows: pa.Table) -> list[dict[str, Any]]:
    """Times as numbers: Python's know fewer."""
    for n, kind in enumerate(rows.schema.types):
        if pa.types.is_temporal(kind):
            number = pa.int32() if pa.types.is_date(kind) else pa.int64()
            rows = rows.set_column(n, rows.column_names[n], rows.column(n).cast(number))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found
