"""What verify computes a view from is what the view itself makes of the same records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.views.tables.decoder import Table
from headwater.views.tables.replay import Kept, rows

RECORD = "topic STRING, key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"


def kept(
    spark: SparkSession, *records: tuple[str | None, Any], partitions: int = 1
) -> list[tuple[Any, ...]]:
    """Records a second apart, in the partitions in turn, the last one first."""
    people = Table("people", StructType.fromDDL("id BIGINT, name STRING"), ("id",))
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    listed = [
        (
            "people",
            _bytes(key),
            _bytes(value),
            partitions - 1 - n % partitions,
            n // partitions,
            moment + timedelta(seconds=n),
        )
        for n, (key, value) in enumerate(records)
    ]
    keep = Kept()
    found = rows(spark.createDataFrame(listed, RECORD), people, keep).collect()
    keep.forget()
    return sorted(tuple(row) for row in found)


def _bytes(value: Any) -> bytearray | None:
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    return None if text is None else bytearray(text.encode())


def test_rows_of_a_table_that_was_emptied_do_not_come_back(spark: SparkSession):
    emptied = {"op": "t", "before": None, "after": None}
    row = {"id": 2, "name": "Bea"}
    assert kept(spark, ("1", {"id": 1, "name": "Ann"}), (None, emptied), ("2", row)) == [(2, "Bea")]


def test_a_row_that_moved_to_another_key_is_not_under_the_old_one(spark: SparkSession):
    ann, moved = {"id": 1, "name": "Ann"}, {"id": 2, "name": "Ann"}
    change = {"op": "u", "before": ann, "after": moved}
    assert kept(spark, ("1", ann), ("2", change)) == [(2, "Ann")]
    back = {"op": "u", "before": moved, "after": ann}
    assert kept(spark, ("1", ann), ("2", change), ("1", back)) == [(1, "Ann")]


def test_what_cannot_be_read_leaves_the_row_before_it(spark: SparkSession):
    ann = {"id": 1, "name": "Ann"}
    bad = [("1", "no json"), ("1", {"id": "x"}), (None, {"name": "Eve"}), (None, None)]
    assert kept(spark, ("1", ann), *bad) == [(1, "Ann")]
    assert kept(spark, ("1", ann), ("1", None)) == []


def test_what_the_changes_are_like_makes_no_difference_to_the_rows(spark: SparkSession):
    """What is not there is left out of the plan; a change does the same alone and beside others."""
    ann, bea, cat = ({"id": n, "name": name} for n, name in enumerate(("Ann", "Bea", "Cat"), 1))
    began = [("9", {"id": 9, "name": "Zoe"}), (None, {"op": "t", "before": None, "after": None})]
    moved = [("1", ann), ("4", {"op": "u", "before": ann, "after": {"id": 4, "name": "Ann"}})]
    plain, in_doubt = [("2", bea)], [("no", "json"), ("3", json.dumps(cat)[:-1] + ', "id": 3}')]
    for before in ([], began):
        for doubt in ([], in_doubt):
            found = kept(spark, *before, *moved, *plain, *doubt)
            assert found == [(2, "Bea"), *([(3, "Cat")] if doubt else []), (4, "Ann")]


def test_in_several_partitions_the_latest_change_is_the_one_that_counts(spark: SparkSession):
    names = [("1", {"id": 1, "name": name}) for name in ("Ann", "Anna", "Annie")]
    assert kept(spark, *names, partitions=2) == [(1, "Annie")]
    assert kept(spark, *names[:2], partitions=2) == [(1, "Anna")]
