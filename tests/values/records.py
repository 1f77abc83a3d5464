"""Rows as records of a topic, and what readers make of them: for the tests of sources and sinks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.pipelines.declarations import View
from headwater.pipelines.rows import as_records
from headwater.testing import values
from headwater.testing.values import Column, exact
from tests.spark.source.reading import read
from tests.values.known import Cell
from tests.values.stores import by_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


class Log:
    """A broker as Spark's jobs see it."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self._options = {"kafka.bootstrap.servers": bootstrap}

    def write(self, records: DataFrame, topic: str) -> None:
        writer = records.write.format("headwater").mode("append")
        writer.options(**self._options, topic=topic, atLeastOnce="true").save()

    def read(self, topic: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("headwater")
        return reader.options(**self._options, subscribe=topic, **options).load()

    def letters(self, topic: str) -> dict[int, str]:
        """Why each record, by the id in its JSON value, is a dead letter."""
        found = {}
        for row in self.read(topic, includeHeaders="true").collect():
            said = {each.key: bytes(each.value).decode() for each in row.headers}
            found[int(json.loads(bytes(row.value))["id"])] = said["__dlq.errors.message"]
        return found


def letters_of(bootstrap: str, topic: str) -> dict[int, str]:
    """Why each record, by the id in its key, is a dead letter; without Spark."""
    found = read(bootstrap, subscribe=topic, includeHeaders="true")
    said = [
        {h["key"]: h["value"] for h in headers} for headers in found.column("headers").to_pylist()
    ]
    keys = found.column("key").to_pylist()
    return {
        int(key): each["__dlq.errors.message"].decode()
        for key, each in zip(keys, said, strict=True)
    }


def frame_of(spark: SparkSession, columns: Sequence[Column]) -> DataFrame:
    return spark.createDataFrame(values.rows(columns), values.ddl(columns))


def as_topic(frame: DataFrame, *key: str) -> DataFrame:
    """What a view that goes to a topic writes."""
    view = View("hurting", lambda: None, to="topic:hurting", key=key or (values.ID,), place="here")
    return as_records(frame, view, updates=False)


def cells(columns: Sequence[Column]) -> list[Cell]:
    """Which value each of `values.rows` has, by its id."""
    found: list[Any] = [(each.name, value) for each in columns for value in exact(each.values)]
    return [*found, ("nothing", None)]


def wrong(
    columns: Sequence[Column], found: pa.Table, refused: Mapping[int, str]
) -> dict[Cell, str]:
    """The values that came neither as they were nor as a dead letter, and what became of them."""
    names = [values.ID, *(each.name for each in columns)]
    owner, seen = cells(columns), by_id(found, names)
    failed: dict[Cell, str] = {}
    for id, row in by_id(values.rows(columns), names).items():
        if id in refused:
            if id in seen or not refused[id]:
                failed[owner[id]] = f"refused as {refused[id]!r}, and there: {id in seen}"
        elif seen.get(id) != row:
            shown = [each for each in seen.get(id, ()) if each is not None]
            failed[owner[id]] = f"became {shown!r:.150}"
    assert set(seen) | set(refused) == set(range(len(owner))) | set(refused), "rows from nowhere"
    return failed
