"""The digest of a row that a view holds: another row has another one, and no change is passed over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DecimalType, LongType, StructType

from headwater.views.tables.algebra import Column, Scan
from headwater.views.tables.decoder import Table
from headwater.views.tables.digest import hashed
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import compiled
from headwater.views.tables.upkeep import Upkeep
from tests.views.tables.histories import Held

WIDE = pa.decimal128(20, 2)
DAY = timedelta(days=1)
LISTS = pa.list_(WIDE)
APART: dict[str, tuple[pa.DataType, list[Any]]] = {
    "wide decimals": (WIDE, [Decimal("0.00"), Decimal("-0.01"), None]),
    "the widest decimals": (pa.decimal128(38, 0), [0, -1, 1, 2**64, 2**64 + 1, None]),
    "intervals": (
        pa.duration("us"),
        [DAY + timedelta(microseconds=2), 2 * DAY + timedelta(microseconds=1), 0 * DAY, None],
    ),
    "lists": (LISTS, [None, [], [None], [None, None], [Decimal("0.00")], [Decimal("-0.01")]]),
    "structs": (pa.struct([("a", WIDE)]), [None, {"a": None}, {"a": 0}, {"a": -1}]),
    "both zeros": (pa.float64(), [0.0, -0.0, None]),
    "texts": (pa.string(), ["", "\0", "\0\0", "a" * 12, "a" * 12 + "\0", None]),
    "bytes": (pa.binary(), [b"", b"\0", b"\0\0", None]),
}


def digests(kind: pa.DataType, values: list[Any]) -> list[int]:
    rows = pa.table({"v0": pa.array(values, kind), "n": range(len(values))})
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        schema = pa.schema([("value", kind)])
        found = connection.sql(f"SELECT hash({hashed(schema)}) FROM rows ORDER BY n").fetchall()
    return [each for (each,) in found]


@pytest.mark.parametrize("name", APART)
def test_values_that_are_not_one_have_digests_that_are_not_one(name: str):
    kind, values = APART[name]
    assert len(set(digests(kind, values))) == len(values)


@given(st.sets(st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), min_size=2, max_size=20))
def test_no_two_wide_decimals_have_one_digest(values: set[Decimal]):
    assert len(set(digests(pa.decimal128(38, 0), list(values)))) == len(values)


ROW = StructType().add("id", LongType()).add("balance", DecimalType(20, 2))
MARKS = [("gone", pa.bool_()), ("emptied", pa.bool_()), ("m0", pa.int64())]
PLACES = [("p", pa.int32()), ("o", pa.int64()), ("ts", pa.int64())]


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_balance_that_falls_below_zero_by_the_least_is_in_the_view(
    tmp_path: Path, in_memory: bool
):
    columns = pa.schema([("c0", pa.int64()), ("c1", WIDE)])
    result = pa.schema([("id", pa.int64()), ("balance", WIDE)])
    program = compiled(Scan(1, 0, {1: "id", 2: "balance"}), {"id": Column(1)}, [ROW.names])
    plan = Plan("v", [Table("t", ROW, ("id",))], [columns], result, ("id",), program, "", None)
    upkeep, view = Upkeep(plan, tmp_path, in_memory), Held(("id",))

    def show(rows: Mapping[int, pa.Table]) -> pa.Table:
        return rows[0].rename_columns(result.names)

    try:
        for batch, balance in enumerate(("0.00", "-0.01", "0.00")):
            change = {"c0": 1, "c1": Decimal(balance), "gone": False, "emptied": False}
            change |= {"p": 0, "o": batch, "ts": batch}
            changes = pa.Table.from_pylist([change], pa.schema([*columns, *MARKS, *PLACES]))
            upkeep.apply(batch, lambda changes=changes: [changes], show, view.taking(batch))
            assert view.rows[1,]["balance"] == Decimal(balance)
    finally:
        upkeep.close()
