"""`hw.stream` by a registry: values of confluent-kafka's serializers, without a schema by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import StructType

import headwater as hw
from headwater.schemas import kinds
from headwater.schemas.client import RegistryClient
from headwater.schemas.lookup import RegistryLookup
from headwater.schemas.values.codecs import Codecs
from headwater.schemas.values.protobuf import ProtobufCodec
from headwater.spark.row_schemas.protobuf import protobuf_schema
from tests.spark.run.desk import QUIET, Desk
from tests.views.tables.test_running import declared, finish, select

NewName = Callable[[], str]
ONE = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "total", "type": "double"}]}  # fmt: skip
TWO = {"type": "record", "name": "Order", "fields": [
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "id", "type": "int"}, {"name": "total", "type": "float"}]}  # fmt: skip
BROKEN = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "total", "type": "string"}]}  # fmt: skip
PARCEL = """syntax = "proto3";
message Parcel { int64 id = 1; double total = 2; repeated string tags = 3; }
"""
CUSTOMER = {"title": "Customer", "type": "object", "required": ["id"], "properties": {
    "id": {"type": "integer"}, "total": {"type": "number"},
    "tags": {"type": "array", "items": {"type": "string"}}}}  # fmt: skip


@pytest.fixture
def client(registry: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry}) as found:
        yield found


def send(desk: Desk, topic: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": desk.bootstrap, **QUIET})
    for value in values:
        producer.produce(topic, key=b"k", value=value)
    assert producer.flush(30) == 0


def avro(client: SchemaRegistryClient, topic: str, schema: Any, *rows: Any) -> list[bytes]:
    write = AvroSerializer(client, json.dumps(schema))
    context = SerializationContext(topic, MessageField.VALUE)
    return [write(row, context) for row in rows]


def test_avro_needs_no_schema_and_goes_on_with_a_newer_one_until_it_breaks(
    desk: Desk, client: SchemaRegistryClient, registry: str, tmp_path: Path, new_name: NewName
):
    topic, shop = new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(topic, {}, partitions=1)
    send(desk, topic, *avro(client, topic, ONE, {"id": 1, "total": 1.5}, {"id": 2, "total": 2}))
    view = declared(lambda: hw.stream(topic), new_name(), key="id", to=f"sqlite:{shop}")
    finish(desk, view)
    rows = f'SELECT id, total FROM "{view.name}" ORDER BY id'
    assert select(shop, rows) == [(1, 1.5), (2, 2.0)]

    client.set_compatibility(f"{topic}-value", level="NONE")
    newer = avro(client, topic, TWO, {"id": 3, "total": 0.5, "note": "tea"})
    older = avro(client, topic, ONE, {"id": 4, "total": 4})
    plain = b'{"id": 5, "total": 5}'  # of somebody who does not know the registry
    broken = older[0][:-1]
    send(desk, topic, *newer, *older, plain, broken, b"\0\0\0\xff\xff\1")
    finish(desk, view)
    assert select(shop, rows) == [(1, 1.5), (2, 2.0), (3, 0.5), (4, 4.0), (5, 5.0)]
    letters = desk.records(view.dead_letters)
    reasons = [dict(each.headers() or [])["__dlq.errors.message"] for each in letters]
    assert [
        b"no Avro of its schema" in each or b"no schema has the id" in each for each in reasons
    ] == [
        True,
        True,
    ]

    send(desk, topic, *avro(client, topic, BROKEN, {"id": 6, "total": "much"}))
    desk.begin(view, once=True)
    desk.step_until(lambda: "cannot read it" in desk.said[-1], "the difference")
    assert "/fields/1/type" in desk.said[-1]
    assert len(select(shop, rows)) == 5


def test_protobuf_and_json_schema_become_columns(
    desk: Desk, client: SchemaRegistryClient, registry: str, tmp_path: Path, new_name: NewName
):
    parcels, customers = new_name(), new_name()
    for topic in (parcels, customers):
        desk.log.ensure_topic(topic, {}, partitions=1)
    client.register_schema(f"{parcels}-value", Schema(PARCEL, "PROTOBUF"))
    row = {"id": 7, "total": 1.5, "tags": ["a", "b"]}
    with RegistryClient(registry) as asked:
        made = Codecs(RegistryLookup(asked)).encode(f"{parcels}-value", row)
    send(desk, parcels, made)
    context = SerializationContext(customers, MessageField.VALUE)
    send(desk, customers, JSONSerializer(json.dumps(CUSTOMER), client)(row, context))
    for topic in (parcels, customers):
        schema = (
            hw.stream(topic).drop("_key", "_topic", "_partition", "_offset", "_timestamp").schema
        )
        assert schema.simpleString() == "struct<id:bigint,total:double,tags:array<string>>"
        told = new_name()
        view = declared(lambda topic=topic: hw.stream(topic), told, key="id", to=f"topic:{told}")
        finish(desk, view)
        (found,) = desk.records(told)
        assert {n: v for n, v in json.loads(found.value()).items() if n in row} == row


def test_a_schema_that_is_given_wins(
    desk: Desk, client: SchemaRegistryClient, tmp_path: Path, new_name: NewName, registry: str
):
    topic, shop = new_name(), tmp_path / "shop.db"
    desk.log.ensure_topic(topic, {}, partitions=1)
    send(desk, topic, *avro(client, topic, ONE, {"id": 1, "total": 1.5}))
    view = declared(
        lambda: hw.stream(topic, schema="id STRING, total DOUBLE, extra INT"),
        new_name(),
        to=f"sqlite:{shop}",
    )
    finish(desk, view)
    assert select(shop, f'SELECT count(*) FROM "{view.name}"') == [(0,)]
    assert b"is 1, which is no string" in str(desk.records(view.dead_letters)[0].headers()).encode()
    view = declared(
        lambda: hw.stream(topic, schema="total DOUBLE, extra INT").select("total", "extra"),
        new_name(),
        to=f"sqlite:{shop}",
    )
    finish(desk, view)
    assert select(shop, f'SELECT total, extra FROM "{view.name}"') == [(1.5, None)]
    assert hw.stream(topic, options={"registry": ""}).columns[:2] == ["key", "value"]


def test_a_view_writes_what_a_stock_deserializer_reads(
    desk: Desk, client: SchemaRegistryClient, registry: str, new_name: NewName
):
    topic, told, rows = new_name(), new_name(), new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    send(desk, topic, *avro(client, topic, ONE, {"id": 1, "total": 1.5}, {"id": 1, "total": 2.5}))

    def typed() -> Any:
        return hw.stream(topic).selectExpr(
            "id",
            "CAST(total AS DECIMAL(30, 4)) AS price",
            "CAST('NaN' AS DOUBLE) AS odd",
            "TIMESTAMP '2026-01-02 03:04:05.678901Z' AS at",
            "DATE '2026-01-02' AS day",
            "X'00FF' AS seal",
            "array(total, NULL) AS both",
            "named_struct('a', CAST(NULL AS STRING)) AS inner",
        )

    def latest() -> Any:
        return hw.table(topic, key="id").select("id", "total")

    views = [
        declared(typed, told, to=f"topic:{told}", options={"format": "avro"}),
        declared(latest, rows, key="id", to=f"topic:{rows}", options={"format": "avro"}),
    ]
    finish(desk, *views)
    read = AvroDeserializer(client)
    found = [
        read(each.value(), SerializationContext(told, MessageField.VALUE))
        for each in desk.records(told)
    ]
    assert [each["price"] for each in found] == [Decimal("1.5000"), Decimal("2.5000")]
    assert math.isnan(found[0]["odd"])
    assert found[0]["at"] == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert (found[0]["day"], found[0]["seal"]) == (date(2026, 1, 2), b"\0\xff")
    assert (found[0]["both"], found[0]["inner"]) == ([1.5, None], {"a": None})
    last = desk.records(rows)[-1]
    assert last.key() == b"1"
    context = SerializationContext(rows, MessageField.VALUE)
    assert read(last.value(), context) == {"id": 1, "total": 2.5}


def typed_rows(topic: str) -> Any:
    return hw.stream(topic).selectExpr(
        "id",
        "CAST(total AS DECIMAL(30, 4)) AS price",
        "CAST(total * 1e300 AS DOUBLE) AS large",
        "TIMESTAMP '2026-01-02 03:04:05.678901Z' AS at",
        "DATE '2026-01-02' AS day",
        "X'00FF' AS seal",
        "array(total, 0.5D) AS both",
        "map('a', id) AS counts",
        "named_struct('a', CAST(NULL AS STRING), 'b', true) AS inner",
        "CAST(NULL AS STRING) AS nothing",
    )


def test_a_view_writes_protobuf_that_a_stock_deserializer_reads(
    desk: Desk, client: SchemaRegistryClient, registry: str, new_name: NewName
):
    topic, told = new_name(), new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    send(desk, topic, *avro(client, topic, ONE, {"id": 2**60, "total": 1.5}))
    options = {"format": "protobuf"}
    finish(desk, declared(lambda: typed_rows(topic), told, to=f"topic:{told}", options=options))
    text = client.get_latest_version(f"{told}-value").schema.schema_str
    message = message_of(text)
    read = ProtobufDeserializer(message, {"use.deprecated.format": False}, client)
    (found,) = desk.records(told)
    row = read(found.value(), SerializationContext(told, MessageField.VALUE))
    assert (row.id, row.price, row.large) == (2**60, "1.5000", 1.5e300)
    assert row.at.ToDatetime(tzinfo=UTC) == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert (row.day, row.seal, list(row.both)) == ("2026-01-02", b"\0\xff", [1.5, 0.5])
    assert dict(row.counts) == {"a": 2**60}
    assert (row.inner.HasField("a"), row.inner.b, row.HasField("nothing")) == (False, True, False)

    # A column that comes in the middle gets a number that none has had, and the others keep theirs.
    row = StructType.fromDDL("new STRING, price DECIMAL(30, 4), id BIGINT")
    fields = message_of(protobuf_schema(row, message.DESCRIPTOR.name, [text])).DESCRIPTOR.fields
    before = {each.name: each.number for each in message.DESCRIPTOR.fields}
    assert {each.name: each.number for each in fields} == {
        "new": max(before.values()) + 1,
        "price": before["price"],
        "id": before["id"],
    }


def test_a_view_writes_json_that_its_schema_allows(
    desk: Desk, client: SchemaRegistryClient, registry: str, new_name: NewName
):
    topic, told = new_name(), new_name()
    desk.log.ensure_topic(topic, {}, partitions=1)
    send(desk, topic, *avro(client, topic, ONE, {"id": 2**60, "total": 1.5}))
    options = {"format": "json-schema"}
    finish(desk, declared(lambda: typed_rows(topic), told, to=f"topic:{told}", options=options))
    (found,) = desk.records(told)
    read = JSONDeserializer(None, schema_registry_client=client)
    row = read(found.value(), SerializationContext(told, MessageField.VALUE))
    assert (row["id"], row["price"], row["large"]) == (2**60, 1.5, 1.5e300)
    assert row["at"] == "2026-01-02T03:04:05.678901Z"
    assert (row["day"], row["seal"], row["both"]) == ("2026-01-02", "AP8=", [1.5, 0.5])
    assert (row["counts"], row["inner"]) == ({"a": 2**60}, {"a": None, "b": True})
    assert b'"price":1.5000,' in found.value()  # with all its digits
    # And back: columns of a view over it, without a schema by hand.
    columns = hw.stream(told).schema
    assert columns["at"].dataType.simpleString() == "timestamp"
    assert columns["counts"].dataType.simpleString() == "map<string,bigint>"


def message_of(text: str) -> Any:
    codec = ProtobufCodec(kinds.parse("PROTOBUF", text, (), is_new=False))
    return GetMessageClass(codec.message())
