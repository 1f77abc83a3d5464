"""Options: what is understood, and the sentence for what is not."""

from __future__ import annotations

import pytest

from headwater.client.cluster import READ_COMMITTED, READ_UNCOMMITTED
from headwater.client.errors import BadOption
from headwater.client.options import Options, librdkafka_settings
from headwater.spark.source import where
from headwater.spark.source.options import SourceOptions

GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def of(**more: str) -> SourceOptions:
    return SourceOptions.of({**GIVEN, **{name.replace("__", "."): v for name, v in more.items()}})


def test_names_are_looked_up_without_regard_to_case() -> None:
    found = SourceOptions.of(
        {"KAFKA.Bootstrap.Servers": "a:1", "SUBSCRIBE": "x, y,x", "INCLUDEHEADERS": "TRUE"}
    )
    assert found.topics() == ["x", "y"]
    assert "headers" in found.columns


def test_the_columns_are_those_of_sparks_kafka_source() -> None:
    assert of().ddl() == (
        "`key` BINARY, `value` BINARY, `topic` STRING, `partition` INT, `offset` BIGINT, "
        "`timestamp` TIMESTAMP, `timestampType` INT"
    )
    assert of(columns="offset, VALUE").ddl() == "`offset` BIGINT, `value` BINARY"
    assert "`value` STRUCT<id INT>" in of(schema="id INT").ddl()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffset": "earliest"}, "Did you mean startingOffsets"),
        ({"subscribePattern": "x.*"}, "contradict"),
        ({"failOnDataLoss": "perhaps"}, "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "number from 1"),
        ({"isolation.level": "read_nothing"}, "read_committed"),
        (
            {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"},
            "contr",
        ),
        ({"columns": "offset,nothing"}, "Name some of"),
        ({"columns": "offset", "includeHeaders": "true"}, "contradict"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets instead"),
        ({"kafka.value.deserializer": "x"}, "cannot be set"),
        ({"mode": "FAILFAST"}, "without a schema"),
        ({"schema": "a INT", "mode": "FAILFAST", "deadLetterTopic": "x"}, "contradict"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"kafka.security.protocol": "SSLv2"}, "one of PLAINTEXT"),
        ({"maxTriggerDelay": "soon"}, "15m"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_do(
    given: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadOption, match=sentence):
        SourceOptions.of({**GIVEN, **given})


def test_no_topics_and_no_address_are_refused() -> None:
    with pytest.raises(BadOption, match="which topics"):
        SourceOptions.of({"kafka.bootstrap.servers": "a:1"})
    with pytest.raises(BadOption, match=r"kafka\.bootstrap\.servers is missing"):
        SourceOptions.of({"subscribe": "orders"})
    for bad in ("[0]", '{"a": 1}', '{"a": [-1]}', "{}"):
        with pytest.raises(BadOption, match="assign"):
            SourceOptions.of({"kafka.bootstrap.servers": "a:1", "assign": bad})


def test_isolation_level_may_be_said_either_way() -> None:
    assert of().isolation == READ_UNCOMMITTED
    assert of(isolation__level="READ_COMMITTED").isolation == READ_COMMITTED
    assert of(kafka__isolation__level="read_committed").isolation == READ_COMMITTED


def test_jaas_and_other_spellings_become_librdkafkas() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a\\"b";'
    settings = Options(
        {
            "kafka.bootstrap.servers": "a:1",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanisms": "PLAIN",
            "kafka.sasl.jaas.config": jaas,
            "kafka.ssl.truststore.location": "ca.pem",
        }
    ).client_settings()
    assert settings["sasl.username"] == "ann"
    assert settings["sasl.password"] == 'a"b'
    assert librdkafka_settings(settings)["ssl.ca.location"] == "ca.pem"


@pytest.mark.parametrize(
    "text", ["[]", '{"a": 3}', '{"a": {"x": 1}}', '{"a": {"0": 1.5}}', "lates"]
)
def test_offsets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadOption, match="earliest"):
        where.starting(Options({"startingOffsets": text}), streaming=True)


def test_a_timestamp_goes_before_offsets_by_timestamp_and_these_before_offsets() -> None:
    given = {"startingOffsets": "latest"}
    assert where.starting(Options(given), streaming=True).option == "startingOffsets"
    given["startingOffsetsByTimestamp"] = '{"a": {"0": 5}}'
    assert where.starting(Options(given), streaming=True).each == {("a", 0): 5}
    given["startingTimestamp"] = "7"
    assert where.starting(Options(given), streaming=True).all == 7


def test_a_batch_query_that_could_read_nothing_is_refused() -> None:
    for given in ({"startingOffsets": "latest"}, {"startingOffsets": '{"a": {"0": -1}}'}):
        with pytest.raises(BadOption, match="nothing to read"):
            where.starting(Options(given), streaming=False)
    with pytest.raises(BadOption, match="nothing to read"):
        where.ending(Options({"endingOffsets": "earliest"}))


@pytest.mark.parametrize(
    ("avro", "ddl"),
    [
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}',
            "STRUCT<`a`: BIGINT>",
        ),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":["null",{"type":"array",'
            '"items":{"type":"map","values":"string"}}]},{"name":"t","type":{"type":"long",'
            '"logicalType":"timestamp-millis"}}]}',
            "STRUCT<`a`: ARRAY<MAP<STRING, STRING>>, `t`: TIMESTAMP>",
        ),
    ],
)
def test_an_avro_schema_gives_the_columns(avro: str, ddl: str) -> None:
    found = of(schema=avro, columns="value")
    assert found.schema_format == "avro"
    assert found.ddl() == f"`value` {ddl}"
