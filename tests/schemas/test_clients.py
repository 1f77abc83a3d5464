"""confluent-kafka's own registry client and serializers, unmodified, in both directions, with references."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from grpc_tools import protoc

PROTO_MONEY = """syntax = "proto3";
package shop;
message Money { int64 cents = 1; string currency = 2; }
"""
PROTO_ORDER = """syntax = "proto3";
package shop;
import "shop_money.proto";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  Money total = 2;
  google.protobuf.Timestamp at = 3;
  map<string, int32> items = 4;
  oneof paid { string card = 5; bool cash = 6; }
  repeated string tags = 7;
}
"""


@pytest.fixture
def client(registry: str):
    with SchemaRegistryClient({"url": registry}) as found:
        yield found


@pytest.fixture
def other(registry: str):
    """Another process's, which has cached nothing."""
    with SchemaRegistryClient({"url": registry}) as found:
        yield found


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_both_ways_with_a_reference(client, other):
    money = {"type": "record", "name": "Money", "namespace": "shop",
             "fields": [{"name": "cents", "type": "long"}]}  # fmt: skip
    client.register_schema("avro-money", Schema(json.dumps(money), "AVRO"))
    order = {"type": "record", "name": "Order", "namespace": "shop",
             "fields": [{"name": "id", "type": "long"}, {"name": "total", "type": "shop.Money"},
                        {"name": "note", "type": ["null", "string"], "default": None}]}  # fmt: skip
    schema = Schema(json.dumps(order), "AVRO", [SchemaReference("shop.Money", "avro-money", 1)])
    row = {"id": 7, "total": {"cents": 995}, "note": None}
    data = AvroSerializer(client, schema)(row, value_of("avro-orders"))
    assert AvroDeserializer(other)(data, value_of("avro-orders")) == row
    assert other.get_latest_version("avro-orders-value").schema.references[0].name == "shop.Money"


def test_json_schema_both_ways_with_a_reference(client, other):
    money = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://x/money.json",
             "title": "Money", "type": "object", "properties": {"cents": {"type": "integer"}}}  # fmt: skip
    client.register_schema("json-money", Schema(json.dumps(money), "JSON"))
    order = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order",
             "type": "object", "required": ["id"],
             "properties": {"id": {"type": "integer"},
                            "total": {"$ref": "http://x/money.json"}}}  # fmt: skip
    reference = SchemaReference("http://x/money.json", "json-money", 1)
    schema = Schema(json.dumps(order), "JSON", [reference])
    row = {"id": 7, "total": {"cents": 995}}
    data = JSONSerializer(schema, client)(row, value_of("json-orders"))
    read = JSONDeserializer(None, schema_registry_client=other)
    assert read(data, value_of("json-orders")) == row


def test_protobuf_both_ways_with_an_import(client, other, tmp_path, monkeypatch):
    (tmp_path / "shop_money.proto").write_text(PROTO_MONEY)
    (tmp_path / "shop_order.proto").write_text(PROTO_ORDER)
    google = Path(protoc.__file__).parent / "_proto"
    words = ["protoc", f"-I{tmp_path}", f"-I{google}", f"--python_out={tmp_path}"]
    assert protoc.main([*words, "shop_money.proto", "shop_order.proto"]) == 0
    monkeypatch.syspath_prepend(str(tmp_path))
    import shop_money_pb2
    import shop_order_pb2

    try:
        order = shop_order_pb2.Order(
            id=7, total=shop_money_pb2.Money(cents=995, currency="EUR"), card="x", tags=["a", "b"]
        )
        order.items["tea"] = 2
        order.at.GetCurrentTime()
        data = ProtobufSerializer(shop_order_pb2.Order, client, {})(order, value_of("pb-orders"))
        read = ProtobufDeserializer(shop_order_pb2.Order, {}, other)
        assert read(data, value_of("pb-orders")) == order
        stored = other.get_latest_version("pb-orders-value")
        assert {each.name for each in stored.schema.references} >= {"shop_money.proto"}
        assert "message Order" in stored.schema.schema_str
    finally:
        for name in ("shop_money_pb2", "shop_order_pb2"):
            sys.modules.pop(name, None)


def test_a_schema_in_text_and_as_a_descriptor_is_one_schema(client):
    text = client.register_schema("pb-text", Schema(PROTO_MONEY, "PROTOBUF"))
    serialized = client.get_version("pb-text", 1, fmt="serialized").schema.schema_str
    assert client.register_schema("pb-bytes", Schema(serialized, "PROTOBUF")) == text


def test_the_client_finds_lists_compares_and_deletes(client, other):
    one = Schema('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}', "AVRO")
    two = Schema(
        '{"type":"record","name":"R","fields":[{"name":"a","type":"long"},'
        '{"name":"b","type":"string","default":""}]}',
        "AVRO",
    )
    bad = Schema('{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}', "AVRO")
    first = client.register_schema("cl", one)
    assert client.register_schema("cl", one) == first
    second = client.register_schema("cl", two)
    assert client.lookup_schema("cl", two).version == 2
    assert client.get_schema(second).schema_str == client.get_version("cl", 2).schema.schema_str
    assert client.get_versions("cl") == [1, 2]
    assert not client.test_compatibility("cl", bad)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("cl", bad)
    assert refused.value.error_code == 40901
    assert "TYPE_MISMATCH" in str(refused.value)
    client.set_compatibility("cl", "NONE")
    assert client.get_compatibility("cl") == "NONE"
    assert client.test_compatibility("cl", bad)
    client.delete_config("cl")
    assert client.get_subjects_by_schema_id(second) == ["cl"]
    assert client.delete_version("cl", 1) == 1
    assert client.get_versions("cl") == [2]
    assert client.delete_subject("cl") == [2]
    assert client.delete_subject("cl", permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as gone:
        other.get_schema(second)
    assert gone.value.error_code == 40403
