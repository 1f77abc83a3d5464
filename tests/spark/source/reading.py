"""The source as Spark's workers call it, in this process and without a JVM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from headwater.spark.source.batch import BatchReader
from headwater.spark.source.options import SourceOptions
from headwater.spark.source.stream import StreamReader

TYPES: dict[str, t.DataType] = {
    "key": t.BinaryType(),
    "value": t.BinaryType(),
    "topic": t.StringType(),
    "partition": t.IntegerType(),
    "offset": t.LongType(),
    "timestamp": t.TimestampType(),
    "timestampType": t.IntegerType(),
    "headers": t.ArrayType(
        t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    ),
}


def options(bootstrap: str, /, **given: str) -> dict[str, str]:
    """`kafka_x_y` is the client setting x.y, `isolation_level` the option isolation.level."""
    found = {"kafka.bootstrap.servers": bootstrap}
    for name, value in given.items():
        dotted = name.startswith("kafka_") or name == "isolation_level"
        found[name.replace("_", ".") if dotted else name] = value
    return found


def schema(given: dict[str, str], value: t.DataType | None = None) -> t.StructType:
    types = {**TYPES, **({"value": value} if value is not None else {})}
    return t.StructType(
        [t.StructField(name, types[name]) for name in SourceOptions.of(given).columns]
    )


def read(bootstrap: str, /, value: t.DataType | None = None, **given: str) -> pa.Table:
    """A batch query's rows, in the order of partitions and offsets."""
    found = options(bootstrap, **given)
    reader = BatchReader(found, schema(found, value))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    return pa.Table.from_batches(batches, to_arrow_schema(schema(found, value), timezone="UTC"))


def values(bootstrap: str, /, **given: str) -> list[Any]:
    return sorted(read(bootstrap, **given).column("value").to_pylist())


def stream(bootstrap: str, /, **given: str) -> StreamReader:
    found = options(bootstrap, **{"startingOffsets": "earliest", **given})
    return StreamReader(found, schema(found))


def step(
    reader: StreamReader, start: dict[str, Any], limit: ReadLimit | None = None
) -> tuple[dict[str, Any], list[Any]]:
    """One micro-batch: where it ends, and its values."""
    end = reader.latestOffset(start, limit or ReadAllAvailable())
    return end, between(reader, start, end)


def between(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for task in reader.partitions(start, end):
        for batch in reader.read(task):
            found += batch.column("value").to_pylist()
    return sorted(found)


def produce(bootstrap: str, topic: str, records: Iterable[Any], **settings: Any) -> None:
    """Values, or dicts of what `Producer.produce` takes."""
    refused: list[Any] = []
    settings = {"on_delivery": lambda error, _: error and refused.append(error), **settings}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    for each in records:
        producer.produce(topic, **(each if isinstance(each, dict) else {"value": each}))
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not refused


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % n for n in range(start, start + count)]
