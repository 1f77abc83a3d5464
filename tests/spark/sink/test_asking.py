"""What the sink refuses before it writes anything, and whether the sentence says what to do."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType, _parse_datatype_string

from headwater.client.errors import BadOption, ClientError
from headwater.spark.sink import batch_writer, columns, settings, stream_writer
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.errors import BadColumns

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}
HEADERS = "headers array<struct<key: string, value: binary>>"


def schema(ddl: str) -> StructType:
    found = _parse_datatype_string(f"struct<{ddl}>")
    assert isinstance(found, StructType)
    return found


@pytest.fixture(autouse=True)
def _session(spark: object) -> None:
    """Spark's parser of types needs one."""


def test_columns_are_found_by_name_in_any_order_and_case() -> None:
    found = columns.check(schema(f"{HEADERS}, Value: binary, key: string, partition: int"), "t")
    assert found == Columns(value=1, key=2, headers=0, topic=-1, partition=3)
    found = columns.check(schema("topic: string, value: string"), None)
    assert found == Columns(value=1, key=-1, headers=-1, topic=0, partition=-1)


def test_the_option_topic_wins_over_the_column() -> None:
    assert columns.check(schema("topic: string, value: string"), "t").topic == -1


@pytest.mark.parametrize(
    ("ddl", "topic", "sentence"),
    [
        ("key: string", "t", "no column 'value'..*to_json"),
        ("value: int", "t", "'value' is int, and must be string or binary..Cast it"),
        ("value: struct<a: int>", "t", "'value' is struct<a:int>.* to_json"),
        ("value: string, key: bigint", "t", "'key' is bigint, and must be string or binary"),
        ("value: string, partition: bigint", "t", "'partition' is bigint, and must be int"),
        ("value: string, topic: binary", None, "'topic' is binary, and must be string"),
        ("value: string, headers: map<string,binary>", "t", "'headers' is map.*must be array<str"),
        ("value: string, timestamp: timestamp", "t", "'timestamp' is no part of a record.*select"),
        ("value: string, VALUE: string", "t", "two columns 'value'"),
        ("value: string", None, "Nobody says to which topic..Give .option"),
    ],
)
def test_a_wrong_column_is_named_with_what_to_do(
    ddl: str, topic: str | None, sentence: str
) -> None:
    with pytest.raises((BadColumns, BadOption), match=f"(?s){sentence}"):
        columns.check(schema(ddl), topic)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        ({**SERVERS, "topics": "a"}, "no option 'topics'..Did you mean topic"),
        ({**SERVERS, "topic": " "}, "topic is empty"),
        ({**SERVERS, "kafka.acks": "1"}, "acks is '1'"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "transactional.id cannot be set"),
        ({**SERVERS, "kafka.key.serializer": "x"}, "key.serializer cannot be set.*cast"),
        ({**SERVERS, "kafka.compression.type": "brotli"}, "compression.type is 'brotli'"),
        ({**SERVERS, "kafka.transaction.timeout.ms": "soon"}, "timeout.ms is 'soon'"),
        ({**SERVERS, "kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadOption, match=f"(?s){sentence}"):
        settings.read(options)


def test_a_topic_can_be_neither_overwritten_nor_complete() -> None:
    for make in (batch_writer, stream_writer):
        with pytest.raises(ClientError, match="append"):
            make({**SERVERS, "topic": "t"}, schema("value: string"), True)
