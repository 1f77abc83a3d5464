"""`schema.validation=true`: the broker refuses what carries no id of its topic's schemas, and says why."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from headwater.client.log import Log
from headwater.schemas import changes
from headwater.schemas.changes import Registration
from headwater.schemas.model import Schema
from headwater.schemas.store import Store


@pytest.fixture(scope="module")
def store(kafka):
    with Log(kafka) as log, Store(log) as found:
        yield found


def register(store: Store, subject: str, size: int) -> int:
    text = f'{{"type":"fixed","name":"f","size":{size}}}'
    return store.change(lambda s: changes.register(s, Registration(subject, Schema(text)))).id


def framed(identity: int, value: bytes = b"x") -> bytes:
    return b"\0" + identity.to_bytes(4, "big") + value


def send(kafka: str, topic: str, *values: bytes | None, **settings: object) -> list[int | None]:
    """What became of each; they go in one batch."""
    heard: list[int | None] = []
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "log_level": 0, **settings})
    for value in values:
        producer.produce(
            topic, key=b"k", value=value, on_delivery=lambda e, _: heard.append(e and e.code())
        )
    assert producer.flush(60) == 0
    return heard


@pytest.fixture
def topic(kafka, request):
    name = f"checked-{abs(hash(request.node.name)) % 10**8}"
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    new = NewTopic(name, 1, config={"schema.validation": "true"})
    admin.create_topics([new])[name].result(60)
    return name


def test_ids_of_the_subject_pass_and_others_do_not(kafka, store, topic):
    mine, others = register(store, f"{topic}-value", 71_001), register(store, "other-value", 71_002)
    assert send(kafka, topic, framed(mine), framed(mine), None) == [None] * 3
    for value in (b"plain", b"", b"\0\0", framed(others), framed(999_999)):
        assert send(kafka, topic, value) == [KafkaError.INVALID_RECORD]
    assert send(kafka, topic, framed(mine), **{"compression.type": "lz4"}) == [None]


def test_a_schema_counts_from_the_moment_it_is_registered(kafka, store, topic):
    store.change(lambda s: changes.set_config(s, f"{topic}-value", {"compatibility": "NONE"}))
    for size in range(72_000, 72_005):
        assert send(kafka, topic, framed(register(store, f"{topic}-value", size))) == [None]


def test_one_bad_record_refuses_its_batch(kafka, store, topic):
    mine = register(store, f"{topic}-value", 73_001)
    refused = send(kafka, topic, framed(mine), b"plain", framed(mine))
    assert refused == [KafkaError.INVALID_RECORD] * 3


@pytest.mark.parametrize("number", ["1e999", "NaN", '"x"', "[1]", "9" * 5_000])
def test_a_stranger_s_record_in_the_registry_s_topic_stops_nobody(kafka, store, topic, number):
    mine = register(store, f"{topic}-value", 74_001)
    producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
    named = b'{"keytype":"SCHEMA","subject":"strange","version":1,"magic":1}'
    producer.produce("_schemas", key=named, value=f'{{"id":{number}}}'.encode())
    assert producer.flush(60) == 0
    assert send(kafka, topic, framed(mine), **{"message.timeout.ms": 10_000}) == [None]


def test_it_can_be_switched_on_and_off(kafka, topic):
    assert send(kafka, topic, b"plain") == [KafkaError.INVALID_RECORD]
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    off = ConfigEntry("schema.validation", "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[off])
    admin.incremental_alter_configs([resource])[resource].result(60)
    assert send(kafka, topic, b"plain") == [None]


def test_it_is_either_true_or_false(kafka):
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    new = NewTopic("perhaps", 1, config={"schema.validation": "perhaps"})
    with pytest.raises(KafkaException, match=r"schema\.validation"):
        admin.create_topics([new])["perhaps"].result(60)
