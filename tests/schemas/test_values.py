"""Values by their schemas, with confluent-kafka's serializers at the other end; and who shows them."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.browse.decoder import Decoder
from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.schemas import client as ours
from headwater.schemas.lookup import RegistryLookup, TopicLookup
from headwater.schemas.values.codecs import Codecs
from headwater.schemas.values.errors import NotOfItsSchema, SchemaNotFound
from headwater.testing import broker

MONEY = {"type": "record", "name": "Money", "namespace": "shop",
         "fields": [{"name": "cents", "type": "long"}]}  # fmt: skip
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": "shop.Money"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "rate", "type": {"type": "bytes", "logicalType": "decimal",
                                  "precision": 8, "scale": 3}},
        {"name": "seal", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "either", "type": ["null", "int", "shop.Money"], "default": None},
    ]}  # fmt: skip
ROW = {
    "id": 7,
    "total": {"cents": 995},
    "note": "tea",
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC),
    "rate": Decimal("12.500"),
    "seal": b"\0\xff",
    "tags": {"a": 1},
    "either": {"cents": 1},
}
SHOWN = ROW | {"at": "2026-01-02T03:04:05.678000+00:00", "rate": "12.500", "seal": "AP8="}
CUSTOMER = {"type": "object", "required": ["id"], "additionalProperties": False,
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}  # fmt: skip
PARCEL = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Parcel {
  enum Size { SMALL = 0; LARGE = 1; }
  int64 id = 1;
  optional string note = 2;
  Size size = 3;
  repeated Item items = 4;
  map<string, double> weights = 5;
  google.protobuf.Timestamp at = 6;
  bytes seal = 7;
  message Item { string name = 1; uint64 count = 2; }
}
"""


@pytest.fixture
def client(registry: str):
    with SchemaRegistryClient({"url": registry}) as found:
        yield found


@pytest.fixture
def codecs(registry: str):
    with ours.RegistryClient(registry) as asked:
        yield Codecs(RegistryLookup(asked))


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def avro_order(client: SchemaRegistryClient) -> Schema:
    client.register_schema("values-money", Schema(json.dumps(MONEY), "AVRO"))
    references = [SchemaReference("shop.Money", "values-money", 1)]
    return Schema(json.dumps(ORDER), "AVRO", references)


def test_avro_of_a_stock_serializer_is_read_and_ours_by_its_deserializer(client, codecs):
    context = value_of("values-orders")
    data = AvroSerializer(client, avro_order(client))(ROW, context)
    assert codecs.decode(data) == SHOWN
    made = codecs.encode("values-orders-value", SHOWN)
    assert AvroDeserializer(client)(made, context) == ROW
    named = SHOWN | {"either": {"int": 5}, "note": {"string": "x"}}
    found = AvroDeserializer(client)(codecs.encode("values-orders-value", named), context)
    assert (found["either"], found["note"]) == (5, "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "7"}, "the field id is '7', which is no long"),
        ({"id": 1 << 63}, "which is no long"),
        ({"total": {"cents": 1.5}}, "the field total.cents is 1.5, which is no long"),
        ({"total": {}}, "the field total.cents is missing"),
        ({"tags": {"a": "x"}}, "the field tags.a is 'x', which is no int"),
        ({"at": "yesterday"}, "the field at is 'yesterday', which is no timestamp-millis"),
        ({"colour": 1}, "the schema has no field colour"),
    ],
)
def test_a_value_that_avro_does_not_take_is_refused_with_the_field(client, codecs, change, said):
    client.register_schema("values-orders-value", avro_order(client))
    with pytest.raises(NotOfItsSchema, match=said):
        codecs.encode("values-orders-value", SHOWN | change)


def test_json_schema_both_ways(client, codecs):
    schema = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#",
                         "title": "Customer", **CUSTOMER})  # fmt: skip
    context = value_of("values-customers")
    data = JSONSerializer(schema, client)({"id": 7, "name": "Ada"}, context)
    assert codecs.decode(data) == {"id": 7, "name": "Ada"}
    made = codecs.encode("values-customers-value", {"id": 8})
    assert JSONDeserializer(schema, schema_registry_client=client)(made, context) == {"id": 8}
    with pytest.raises(NotOfItsSchema, match="at id: "):
        codecs.encode("values-customers-value", {"id": "x"})


def test_protobuf_both_ways_by_name_and_by_nested_message(client, codecs):
    client.register_schema("values-parcels-value", Schema(PARCEL, "PROTOBUF"))
    shown = {
        "id": 1 << 60, "note": None, "size": "LARGE", "weights": {"a": 1.5}, "seal": "AP8=",
        "items": [{"name": "tea", "count": 2}], "at": "2026-01-02T03:04:05.500Z",
    }  # fmt: skip
    made = codecs.encode("values-parcels-value", shown)
    assert made[5] == 0  # the first message
    assert codecs.decode(made) == shown
    # Of the messages within Parcel the first is that of the map.
    inner = made[:5] + bytes([4, 0, 2]) + b"\x0a\x03tea\x10\x02"
    assert codecs.decode(inner) == {"name": "tea", "count": 2}
    for body in (b"", b"\x02", b"\x02\x08", b"\x00\xff", bytes([80]) + b"\0" * 40):
        with pytest.raises(NotOfItsSchema):
            codecs.decode(made[:5] + body)


def test_bytes_that_name_no_schema_or_another_are_told_apart(client, codecs):
    client.register_schema("values-orders-value", avro_order(client))
    data = codecs.encode("values-orders-value", SHOWN)
    with pytest.raises(SchemaNotFound, match="no schema has the id 987654"):
        codecs.decode(b"\0" + (987654).to_bytes(4, "big") + data[5:])
    with pytest.raises(NotOfItsSchema, match="does not begin"):
        codecs.decode(b"\1" + data[1:])
    for end in range(5, len(data)):
        with pytest.raises(NotOfItsSchema):
            codecs.decode(data[:end])
    with pytest.raises(NotOfItsSchema, match="1 bytes follow"):
        codecs.decode(data + b"x")


def test_the_log_itself_tells_schemas_where_no_registry_is_named(client, kafka, codecs):
    client.register_schema("values-orders-value", avro_order(client))
    data = codecs.encode("values-orders-value", SHOWN)
    log = Log(kafka)
    try:
        assert Codecs(TopicLookup(log)).decode(data) == SHOWN
        shown = Decoder(log).decode(data)
        assert (shown.kind, shown.value) == ("avro", SHOWN)
        assert Decoder(log).decode(b"\0\1\2\3\4xyz").kind == "hex"
    finally:
        log.close()


def run(kafka: str, *words: str, given: str = "", folder: Path | None = None) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "headwater", *words, "--bootstrap", kafka],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder or "/",
    )
    return ended.stdout if ended.returncode == 0 else f"{ended.returncode}: {ended.stderr}"


def test_produce_encodes_tail_decodes_and_state_folds(client, kafka, registry):
    log = Log(kafka)
    log.ensure_topic("values-shown", {}, partitions=1)
    try:
        client.register_schema("values-shown-value", Schema(PARCEL, "PROTOBUF"))
        rows = ['{"id": 1, "note": "a"}', '{"id": 2, "size": "LARGE"}']
        said = run(
            kafka, "produce", "values-shown", "--key", "k", "--by-schema", given="\n".join(rows)
        )
        assert said == "2 records are stored in values-shown\n"
        lines = run(
            kafka, "tail", "values-shown", "--from", "beginning", "--no-follow"
        ).splitlines()
        values = [json.loads(line)["value"] for line in lines]
        assert [each["id"] for each in values] == [1, 2]
        assert [each["size"] for each in values] == ["SMALL", "LARGE"]
        said = run(kafka, "produce", "values-shown", "--by-schema", "--value", '{"id": "x"}')
        assert said.startswith("1: ") and "its Protobuf schema does not take it" in said
        found = json.loads(run(kafka, "state", "values-shown", "k", "--json"))
        assert found["state"]["id"] == 2
    finally:
        log.close()


def test_a_project_s_registry_elsewhere_is_asked(client, codecs, registry, tmp_path):
    client.register_schema("elsewhere-value", avro_order(client))
    data = codecs.encode("elsewhere-value", SHOWN)
    with broker() as other:
        log = Log(other.bootstrap)
        log.ensure_topic("elsewhere", {}, partitions=1)
        publish(log, "elsewhere", Draft(b"k", data))
        log.close()
        words = ("tail", "elsewhere", "--from", "beginning", "--no-follow")
        assert "value_hex" in json.loads(run(other.bootstrap, *words))
        text = f'[log]\nbootstrap = "{other.bootstrap}"\n\n[schemas]\nregistry = "{registry}"\n'
        (tmp_path / "headwater.toml").write_text(text)
        assert json.loads(run(other.bootstrap, *words, folder=tmp_path))["value"] == SHOWN
