"""A segment that cannot be begun (no descriptor, no space, a bad sector) harms nobody for long."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import end_offset, produce, read_all
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

CODES = [errno.EMFILE, errno.ENOSPC, errno.EIO]
SMALL = {"internal_segment_bytes": 1000}

pytestmark = pytest.mark.parametrize("code", CODES, ids=[errno.errorcode[code] for code in CODES])


def once(disk: HandDisk, operation: str, code: int, name: str) -> list[Path]:
    """The next such operation fails; the list has it once it did."""
    failed: list[Path] = []

    def fail(path: Path) -> None:
        if not failed:
            failed.append(path)
            raise OSError(code, "as the test wants it", str(path))

    disk.on(operation, fail, name)
    return failed


def values(wire: Wire, topic: str = "t") -> list[bytes | None]:
    return [value for each in read_all(wire, topic) for _, value in each.pairs]


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_a_failed_roll_refuses_one_batch_and_the_next_one_is_taken(
    data: Path, code: int, durability: str
) -> None:
    disk = HandDisk()
    with serving(data, files=disk, durability=durability) as broker, broker.wire() as wire:
        create(wire, "t", **SMALL)
        value = bytes(800)
        assert produce(wire, "t", batch([(None, value)])).error_code is ErrorCode.none
        failed = once(disk, "create", code, "t-0/*.log")
        refused = produce(wire, "t", batch([(None, b"refused" * 100)]))
        assert refused.error_code is ErrorCode.kafka_storage_error
        assert failed
        assert values(wire) == [value]
        for number in range(2, 6):
            row = produce(wire, "t", batch([(None, value)]))
            assert (row.error_code, row.base_offset) == (ErrorCode.none, number - 1)
        assert values(wire) == [value] * 5
    with serving(data) as broker, broker.wire() as wire:
        assert values(wire) == [value] * 5


def test_an_idempotent_producer_sends_again_what_a_failed_roll_refused(
    data: Path, code: int
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", **SMALL)
        failed = once(disk, "create", code, "t-0/*.log")
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 10,
            }
        )
        for number in range(20):
            producer.produce("t", b"%d" % number * 100)
            producer.flush(10)
        assert failed
        assert values(wire) == [b"%d" % number * 100 for number in range(20)]


@pytest.mark.parametrize("where", ["t-0", "__transaction_state-*", "__consumer_offsets-*"])
def test_a_failed_roll_does_not_wedge_a_transaction(data: Path, code: int, where: str) -> None:
    disk = HandDisk()
    one = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with serving(data, one, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", **SMALL)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        producer = transactional(broker)
        one_transaction(producer, consumer, 0)
        for topic in ("__transaction_state", "__consumer_offsets"):
            set_small(wire, topic)
        failed = once(disk, "create", code, f"{where}/*.log")
        for number in range(1, 30):
            one_transaction(producer, consumer, number)
        assert failed, "no segment was begun"
        log = broker.log("t")
        until(
            lambda: broker.call(lambda: log.last_stable_offset() == log.durable_offset),
            "the last stable offset to move",
        )
        assert consumer.committed([TopicPartition("t", 0)], 10)[0].offset == 29
        consumer.close()


def set_small(wire: Wire, topic: str) -> None:
    change = {"name": "internal.segment.bytes", "config_operation": 0, "value": "1200"}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code is ErrorCode.none


def transactional(broker: Serving) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "p", "linger.ms": 0}
    producer = Producer({**settings, "retry.backoff.ms": 20, "transaction.timeout.ms": 60_000})
    producer.init_transactions(30)
    return producer


def one_transaction(producer: Producer, consumer: Consumer, number: int) -> None:
    producer.begin_transaction()
    producer.produce("t", b"%d" % number * 200)
    wanted = [TopicPartition("t", 0, number, metadata="m" * 100)]
    retry(
        lambda: producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), 30)
    )
    retry(lambda: producer.commit_transaction(30))


def retry(step: Any) -> None:
    """As the library's manual has it: what is retriable is asked for again."""

    def done() -> bool:
        try:
            step()
        except Exception as failure:
            error = failure.args[0]
            assert isinstance(error, KafkaError)
            assert error.retriable(), error
            return False
        return True

    until(done, "the step to succeed")


def test_a_failed_roll_of_the_catalogue_refuses_one_change(data: Path, code: int) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        catalogue = broker.broker.catalogue._partition
        with disk.failing("create", code=code, name="__headwater_catalogue-0/*.log"):

            def roll() -> str:
                try:
                    catalogue.roll(0)
                except Exception as error:
                    return type(error).__name__
                return ""

            assert broker.call(roll) == "StorageFailed"
        create(wire, "u")
        assert end_offset(wire, "u") == 0


def test_retention_goes_on_when_it_cannot_begin_a_segment(data: Path, code: int) -> None:
    disk = HandDisk()
    settings = {"log.retention.check.interval.ms": 100}
    with serving(data, settings, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=1)
        failed = once(disk, "create", code, "t-0/*.log")
        assert (
            produce(wire, "t", batch(timestamps=[1_000_000_000_000])).error_code is ErrorCode.none
        )
        log = broker.log("t")
        until(lambda: broker.call(lambda: log.start_offset) == 1, "retention")
        assert failed
