"""A capture in Avro: the same rows as in JSON, by the schemas that lie in the log beside them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from headwater.capture.positions import read_topic
from headwater.spark.source.values.avro import AvroValues
from headwater.spark.source.values.schema import value_ddl
from tests.capture.postgres.running import Setting, eventually

COLUMNS = (
    "name text NOT NULL, total numeric(10,2), at timestamptz, day date, raw bytea, flag boolean, "
    "numbers int[], ratio float8, doc jsonb"
)
VALUES = (
    "'ä', 1.50, '2026-01-01 00:00:00+00', '2026-01-01', '\\x00ff', true, '{1,NULL}', 'NaN', "
    "'{\"a\": 1}'"
)
ROW = {
    "name": "ä",
    "total": "1.50",
    "at": "2026-01-01T00:00:00Z",
    "day": 20454,
    "raw": b"\0\xff",
    "flag": True,
    "numbers": [1, None],
    "ratio": "nan",
    "doc": '{"a": 1}',
}


def schemas(setting: Setting) -> dict[int, dict[str, Any]]:
    """Number → subject and schema, as the topic has them."""
    found = read_topic(setting.bootstrap, f"{setting.name}.avro-schemas")
    return {json.loads(key or b"")["id"]: json.loads(value or b"") for key, value in found}


def raw(setting: Setting, table: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """So many committed records of the topic's one partition, as they are."""
    reader = Consumer(
        {
            "bootstrap.servers": setting.bootstrap,
            "group.id": "avro",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        reader.assign([TopicPartition(f"{setting.name}.{table}", 0, 0)])

        def enough() -> bool:
            messages = reader.consume(100, 0.05)
            found.extend((m.key(), m.value()) for m in messages if m.error() is None)
            return len(found) >= count

        eventually(f"{count} records", enough)
    finally:
        reader.close()
    return found


def decoded(known: dict[int, dict[str, Any]], data: bytes | None) -> Any:
    if data is None:
        return None
    schema = json.loads(known[int.from_bytes(data[1:5], "big")]["schema"])
    return fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None)


def test_rows_in_avro_are_those_of_json_through_snapshot_stream_and_a_new_column(
    setting: Setting,
) -> None:
    setting.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, {COLUMNS})", f"INSERT INTO t VALUES (1, {VALUES})"
    )
    with setting.running(setting.config("t", format="avro", partitions=1)) as runner:
        setting.execute(
            f"INSERT INTO t VALUES (2, {VALUES})",
            "ALTER TABLE t ADD COLUMN more int DEFAULT 5",
            "UPDATE t SET name = 'b' WHERE id = 2",
            "DELETE FROM t WHERE id = 1",
            "TRUNCATE t",
        )
        setting.caught_up(runner)
    known = schemas(setting)
    found = raw(setting, "t", 6)
    values = [decoded(known, value) for _, value in found]
    keys = [decoded(known, key) for key, _ in found]
    assert keys == [{"id": n} for n in (1, 2, 2, 1, 1)] + [None]
    assert [v and v["op"] for v in values] == ["r", "c", "u", "d", None, "t"]
    for number, value in ((1, values[0]), (2, values[1])):
        after = {**value["after"], "ratio": str(value["after"]["ratio"])}
        assert after == {"id": number, **ROW}
    assert (values[2]["after"]["more"], values[2]["after"]["name"]) == (5, "b")
    assert values[1]["transaction"]["total_order"] == 1 and values[1]["source"]["table"] == "t"
    subjects = [one["subject"] for one in known.values()]
    assert sorted(subjects) == [f"{setting.name}.t-{kind}" for kind in ("key", "value", "value")]

    first = int.from_bytes((found[0][1] or b"")[1:5], "big")
    columns = value_ddl(known[first]["schema"], "confluent-avro")
    assert columns.count("STRUCT<`id`: INT") == 2, "Spark has a column for before and for after"
    kind = pa.struct({"op": pa.string(), "after": pa.struct({"id": pa.int32()})})
    reader = AvroValues(known[first]["schema"], kind, framed=True)
    column, bad = reader.convert(pa.array([found[0][1], found[1][1]]))
    assert not bad
    assert column.to_pylist() == [
        {"op": "r", "after": {"id": 1}},
        {"op": "c", "after": {"id": 2}},
    ]
