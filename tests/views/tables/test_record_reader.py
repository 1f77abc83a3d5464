"""Records read column by column: what that says, Spark says as well, and the rest is read one by one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DoubleType, LongType, ShortType, StringType, StructType

from headwater.spark.source.tail import Piece
from headwater.views.tables import record_reader as module
from headwater.views.tables.decoder import Table
from headwater.views.tables.envelopes import table_reader
from headwater.views.tables.follower import all_said_of, read_once
from headwater.views.tables.record_reader import Read, TableReader
from tests.views.tables.test_envelopes import KEYS, ODD, VALUES, batch_of, compare
from tests.views.tables.test_envelopes import envelopes as forms

EASY = (
    StructType()
    .add("id", LongType())
    .add("small", ShortType())
    .add("x", DoubleType())
    .add("ok", BooleanType())
    .add("name", StringType())
)


def test_every_value_and_form_is_read_in_columns_as_spark_reads_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    """In blocks of one record, so that none is read otherwise because of its neighbours."""
    monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(module, "BLOCK", 1)
    key = b'{"id": 9, "a": 9, "b": "k"}'
    rows = [f'{{"a": 7, "b": "y", "{name}": {value}}}' for name in "xab" for value in VALUES]
    values = [("pair", key, form.encode()) for row in rows for form in forms(row)]
    values += [("text", key, f'{{"id": {value}, "name": "n"}}'.encode()) for value in VALUES]
    values += [(topic, key, value.encode()) for value in ODD for topic in ("pair", "text")]
    gone = b'{"op": "d", "before": {"name": "x", "a": null}, "after": null}'
    values += [("text", each, value) for each in KEYS for value in (None, gone)]
    halves = [r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\\ud83d\ude00", r"\ude00\ud83d", r"\ud83dx"]
    values += [("text", key, f'{{"id": "{half}"}}'.encode()) for half in [*halves, r"\u00e9\u0000"]]
    twice = ['{"a": 1, "b": "", "z": 1, "z": 2}', '{"a": 1, "b": "", "z": {"y": 1, "y": [{}]}}']
    values += [("pair", key, each.encode()) for each in twice]
    compare(spark, values)


# ---- blocks of many, against one by one ---------------------------------------------------------------

NUMBERS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries(
    {"id": NUMBERS},
    optional={
        "small": st.integers(-(2**15), 2**15 - 1) | st.none(),
        "x": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5),
        "ok": st.booleans() | st.none(),
        "name": st.text(max_size=5),
        "other": st.lists(st.none(), max_size=2),
    },
)
ENVELOPES = st.fixed_dictionaries(
    {"op": st.sampled_from(["c", "u", "d", "r", "t"])},
    optional={"before": ROWS | st.none(), "after": ROWS | st.none()},
)
RECORDS = st.lists(ROWS | ENVELOPES | st.none() | st.just({}), min_size=1, max_size=40)


def read(reader: TableReader, records: list[tuple[Any, ...]], many: int) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", many)
        patch.setattr(module, "BLOCK", 16)
        return reader(batch_of(records))


@settings(max_examples=150, deadline=None)
@given(RECORDS, st.booleans())
def test_blocks_say_what_the_records_say_one_by_one(values: list[Any], ascii_only: bool):
    reader = table_reader(Table("t", EASY, ("id",), required=("name",)), utc=True)
    records = [
        (
            b"%d" % n,
            None if value is None else json.dumps(value, ensure_ascii=ascii_only).encode(),
            "t",
            n % 2,
            n,
            n,
        )
        for n, value in enumerate(values)
    ]
    by_one, by_column = read(reader, records, 10**9), read(reader, records, 1)
    assert by_column.changes.schema.equals(by_one.changes.schema)
    assert repr(by_column.changes.sort_by("o").to_pylist()) == repr(by_one.changes.to_pylist())
    assert sorted(by_column.doubtful, key=lambda r: r[4]) == by_one.doubtful


def test_most_records_of_a_block_are_read_together():
    """And those that say little by themselves, among them."""
    reader = table_reader(Table("t", EASY, ("id",)), utc=True)
    columns = reader.columns
    assert columns is not None
    rows = [{"id": n, "name": "ü", "x": n + 0.5} for n in range(300)]
    values = [json.dumps({"op": "u", "before": None, "after": row}).encode() for row in rows]
    values += [json.dumps({"op": "d", "before": row}).encode() for row in rows]
    values += [None, b'{"id": 1, "x": 0}']
    found = columns(pa.array(values, pa.binary()))
    assert found is not None and found.read.to_pylist() == [True] * 600 + [False] * 2
    assert columns(pa.array([*values, b'{"id": "1"}'], pa.binary())) is None


def test_views_share_what_was_read_of_a_table_only_if_they_say_the_same_of_it():
    """One that lets a column be null would hand on to the others rows that these must not have."""
    piece = Piece({("t", 0): 0}, {("t", 0): 1}, [batch_of([(b"1", b'{"id": 1}', "t", 0, 0, 0)])])
    lenient, strict = Table("t", EASY, ("id",)), Table("t", EASY, ("id",), required=("name",))

    def by(table: Table) -> Read:
        return read_once(piece, all_said_of(table, utc=True), table_reader(table, utc=True))

    assert by(lenient).changes.num_rows == 1 and not by(lenient).doubtful
    assert by(replace(lenient, derived=("id + 1",))) is by(lenient)
    assert by(strict).changes.num_rows == 0 and len(by(strict).doubtful) == 1
