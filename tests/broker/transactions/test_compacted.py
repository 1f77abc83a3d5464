"""Compaction among transactions: what was aborted never wins over what was committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker.serving import Serving, create, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import until

SETTINGS = {
    "log.cleaner.enable": True,
    "log.cleaner.backoff.ms": 50,
    "offsets.topic.num.partitions": 1,
    "log.cleaner.min.cleanable.ratio": 0.01,
}
EAGER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.01,
    "internal_segment_bytes": 2_000,
    "delete_retention_ms": 0,
}


def table(broker: Serving, topic: str) -> dict[bytes, bytes]:
    """Key → value, as a consumer of committed data sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[bytes, bytes] = {}
    while True:
        for message in consumer.consume(500, timeout=1):
            if message.error() is not None:
                consumer.close()
                return found
            found[message.key()] = message.value()


def transactional(broker: Serving, name: str) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


@pytest.mark.parametrize("restarted", [False, True])
def test_an_aborted_value_never_wins_over_a_committed_one(data: Path, restarted: bool) -> None:
    """
    segment     sealed                 active
    records     a=good (a=never…)  │   abort
    """
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t", **EAGER)
        produce(wire, "t", batch([(b"a", b"good")]))
        producer = transactional(broker, "p")
        producer.begin_transaction()
        for _ in range(30):
            producer.produce("t", b"never" * 40, b"a")
            producer.flush(10)
        log = broker.log("t")
        until(lambda: len(log.segments) > 2, "sealed segments")
        producer.abort_transaction(30)
        produce(wire, "t", batch([(b"z", b"end")]))
        until(lambda: broker.call(lambda: log.cleaned_offset) > 10, "compaction")
        if not restarted:
            assert table(broker, "t") == {b"a": b"good", b"z": b"end"}
    if restarted:
        with serving(data, SETTINGS) as broker:
            assert table(broker, "t") == {b"a": b"good", b"z": b"end"}


def test_offsets_of_an_aborted_transaction_never_win_over_committed_ones(data: Path) -> None:
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t", 2)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)
        change = {"name": "internal.segment.bytes", "config_operation": 0, "value": "2000"}
        asked = {"resource_type": 2, "resource_name": "__consumer_offsets", "configs": [change]}
        wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        producer = transactional(broker, "p")
        producer.begin_transaction()
        group = consumer.consumer_group_metadata()
        log = broker.log("__consumer_offsets")
        for number in range(40):
            wanted = [TopicPartition("t", 0, 1000 + number, metadata="m" * 100)]
            producer.send_offsets_to_transaction(wanted, group, 10)
        until(lambda: len(log.segments) > 2, "sealed segments")
        producer.abort_transaction(30)
        # The seal of the segment, without which nothing before it is compacted.
        consumer.commit(offsets=[TopicPartition("t", 1, 7)], asynchronous=False)
        until(lambda: broker.call(lambda: log.cleaned_offset) > 10, "compaction")
        consumer.close()
    with serving(data, SETTINGS) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        assert consumer.committed([TopicPartition("t", 0)], 10)[0].offset == 5
        consumer.close()
