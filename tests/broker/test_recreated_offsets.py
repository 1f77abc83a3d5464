"""Offsets belong to the topic they were committed for: one that is made again begins without any."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from headwater.broker.groups import records
from headwater.broker.groups.records import OffsetKey, OffsetValue
from tests.broker.disks import HandDisk
from tests.broker.processes import broker_process
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

TEN = batch([(None, b"old")] * 10)
ONE_LOG = {"offsets.topic.num.partitions": 1}


def commit_request(group: str, topic: str, offset: int) -> dict[str, object]:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return {"group_id": group, "topics": [{"name": topic, "partitions": [part]}]}


def commit(
    wire: Wire, group: str, topic: str, offset: int, version: int = 8, **more: object
) -> None:
    def done() -> bool:
        answer = wire.ask("offset_commit", version, **commit_request(group, topic, offset), **more)
        return answer.topics[0].partitions[0].error_code is ErrorCode.none

    until(done, "the commit to be taken")


def committed(wire: Wire, group: str, topic: str) -> int:
    asked = [{"name": topic, "partition_indexes": [0]}]
    answer = wire.ask("offset_fetch", 5, group_id=group, topics=asked)
    return int(answer.topics[0].partitions[0].committed_offset)


def pending(wire: Wire, topic: str) -> Transactor:
    """A transaction that has sent offsets of the topic."""
    one = Transactor(wire, "one").init()
    one.retried(lambda: one.send_offsets("g", topic, {0: 10}))
    return one


def test_a_consumer_reads_all_of_a_topic_that_was_made_again_after_kill_9(data: Path) -> None:
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t")
        produce(wire, "t", TEN)
        commit(wire, "g", "t", 10)
        assert delete(wire, "t") is ErrorCode.none
        process.kill()
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch([(None, b"new")] * 50))
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe(["t"])
        read = 0
        while (message := consumer.poll(60)) is not None and message.error() is None:
            read += 1
        consumer.close()
        assert read == 50


def test_offsets_are_gone_when_the_deletion_is_answered(shared: Serving, topic: str) -> None:
    with shared.wire() as wire:
        for _ in range(10):
            create(wire, topic)
            produce(wire, topic, TEN)
            commit(wire, "g", topic, 10)
            delete(wire, topic)
            assert committed(wire, "g", topic) == -1
            create(wire, topic)
            assert committed(wire, "g", topic) == -1
            delete(wire, topic)


def test_a_commit_beside_the_deletion_is_not_of_the_new_topic(shared: Serving, topic: str) -> None:
    with shared.wire() as wire, shared.wire() as other:
        for _ in range(10):
            create(wire, topic)
            produce(wire, topic, TEN)
            wire.send("delete_topics", 6, topics=[{"name": topic}], timeout=9000)
            other.send("offset_commit", 8, **commit_request("g", topic, 10))
            wire.receive(), other.receive()
            create(wire, topic)
            assert committed(wire, "g", topic) == -1
            delete(wire, topic)


def test_a_commit_that_waits_for_the_disk_is_not_of_the_new_topic(data: Path) -> None:
    disk = HandDisk()
    with (
        serving(data, ONE_LOG, files=disk, durability="disk") as broker,
        broker.wire() as wire,
        broker.wire() as other,
    ):
        create(wire, "t")
        commit(wire, "g", "t", 1)
        with disk.held("sync", name="__consumer_offsets-0/*") as held:
            other.send("offset_commit", 8, **commit_request("g", "t", 10))
            held.until_reached()
            wire.send("delete_topics", 6, topics=[{"name": "t"}], timeout=9000)
            until(lambda: "t" not in broker.broker.catalogue.topics, "the deletion")
        other.receive(), wire.receive()
        create(wire, "t")
        assert committed(wire, "g", "t") == -1
    with serving(data, ONE_LOG) as broker, broker.wire() as wire:
        assert committed(wire, "g", "t") == -1


@pytest.mark.parametrize("restarted", [False, True])
def test_offsets_of_a_transaction_are_not_of_the_new_topic(data: Path, restarted: bool) -> None:
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t")
        one = pending(wire, "t")
        delete(wire, "t")
        if not restarted:
            create(wire, "t")
            one.end()
            assert committed(wire, "g", "t") == -1
        process.kill()
    with serving(data) as broker, broker.wire() as wire:
        if restarted:
            create(wire, "t")
            one.wire = wire
            one.end()
        assert committed(wire, "g", "t") == -1


def crashed(data: Path) -> Path:
    copy = data.with_name("crashed")
    shutil.copytree(data, copy)
    return copy


@pytest.mark.parametrize("version", [2, 8])
def test_offsets_go_even_if_the_disk_takes_no_tombstones(data: Path, version: int) -> None:
    """Version 2 brings a retention of its own."""
    disk = HandDisk()
    more = {"retention_time": 3_600_000} if version == 2 else {}
    with serving(data, ONE_LOG, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        commit(wire, "g", "t", 10, version, **more)
        with disk.failing("write", name="__consumer_offsets-0/*"):
            assert delete(wire, "t") is ErrorCode.none
            create(wire, "t")
            copy = crashed(data)
            assert committed(wire, "g", "t") == -1
    with serving(copy, ONE_LOG) as broker, broker.wire() as wire:
        assert committed(wire, "g", "t") == -1


def restarted_with(data: Path, write: Callable[[Serving], None]) -> None:
    with serving(data, ONE_LOG) as broker:
        broker.create("t")
        with broker.wire() as wire:
            commit(wire, "h", "t", 1)
        write(broker)


def put_offset(broker: Serving, topic: str, value: OffsetValue) -> None:
    entry = (records.offset_key(OffsetKey("g", topic, 0)), records.offset_value(value))

    async def put() -> None:
        await broker.broker.offsets_topic.append("g", [entry])

    broker.run(put())


def test_offsets_of_a_topic_that_is_not_there_are_dropped_at_start(data: Path) -> None:
    restarted_with(data, lambda broker: put_offset(broker, "gone", OffsetValue(7, -1, "", 5)))
    for _ in range(2):
        with serving(data, ONE_LOG) as broker, broker.wire() as wire:
            assert committed(wire, "g", "gone") == -1
            assert "g" not in broker.broker.groups.groups
            log = broker.log("__consumer_offsets")
            end = until(lambda log=log: log.durable_offset, "the offsets")
    assert end == 3, "one commit, the old record, and its tombstone, which is written once"


def test_offsets_that_were_written_without_a_topic_id_still_count(data: Path) -> None:
    """Whenever that was: a clock may have been set back since."""
    restarted_with(data, lambda broker: put_offset(broker, "t", OffsetValue(7, -1, "", 5)))
    with serving(data, ONE_LOG) as broker, broker.wire() as wire:
        assert committed(wire, "g", "t") == 7
        assert committed(wire, "h", "t") == 1
