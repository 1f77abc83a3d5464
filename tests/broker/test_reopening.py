"""A log that is read anew because its files could not be exchanged, while somebody writes to it."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

from headwater.log import compaction
from headwater.log.partition import StorageFailed
from headwater.record import batch as batches
from tests.broker.disks import WAIT_SECONDS, HandDisk
from tests.broker.serving import serving
from tests.compat.asking import produce, produce_request, read_all
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

LOG = "t-0/*.log"


def test_what_is_acknowledged_while_a_log_is_read_anew_is_there_afterwards(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
        partition = broker.broker.topics.partitions["t", 0]
        for value in (b"1", b"2"):
            produce(wire, "t", batch([(b"a", value)]))
        broker.call(lambda: partition.roll(1))
        produce(wire, "t", batch([(b"b", b"3")]))
        old, acknowledged = partition.log, []
        turns = [threading.Event(), threading.Event()]
        reached = [threading.Event(), threading.Event()]
        waiting = iter((0, 1))

        def hold(path: Path) -> None:
            number = next(waiting, None) if partition._committing else None
            if number is not None:
                reached[number].set()
                assert turns[number].wait(WAIT_SECONDS)

        end = disk.on("sync", hold, LOG)

        def append(value: bytes) -> None:
            """As Produce does it, and as a client does that tries again."""
            data = batch([(b"b", value)])
            try:
                offset = partition.append(data, batches.read_header(data), 1)
            except StorageFailed:
                asyncio.get_running_loop().call_later(0.01, append, value)
                return
            partition.when_durable(offset + 1, lambda error: done(value, offset, error))

        def done(value: bytes, offset: int, error: Exception | None) -> None:
            if error is None:
                acknowledged.append((offset, value))
            if value == b"4":
                asyncio.get_running_loop().call_soon(append, b"5")

        plan = compaction.plan(old, 1 << 50)
        assert plan is not None
        broker.call(lambda: append(b"4"))
        assert reached[0].wait(WAIT_SECONDS)
        with disk.failing("rename", code=errno.EIO, name="t-0/*"):
            cleaning = broker.begin(broker.broker.cleaner.clean(partition, plan))
            until(lambda: partition.maintenance.locked(), "the exchange to begin")
            until(lambda: partition._commit_ended is not None, "it to wait for what is written")
            turns[0].set()
            assert reached[1].wait(WAIT_SECONDS)
            until(lambda: partition.log is not old, "the log to be read anew")
        turns[1].set()
        assert isinstance(cleaning.exception(WAIT_SECONDS), OSError)
        end()
        until(lambda: partition.failed is not None or len(acknowledged) == 2, "the second answer")

        def stored() -> bool:
            row = produce(wire, "t", batch([(b"b", b"6")]))
            if row.error_code is ErrorCode.none:
                acknowledged.append((row.base_offset, b"6"))
            return row.error_code is ErrorCode.none

        until(stored, "the log to be written again")
        found = [(each.base_offset, each.pairs[0][1]) for each in read_all(wire, "t")]
        assert [each for each in acknowledged if each not in found] == []


def test_a_change_of_configs_counts_though_the_log_is_being_read_anew(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as other:
        broker.create("t")
        assert produce(wire, "t", batch([(b"k", b"one")])).error_code is ErrorCode.none
        with disk.held("open", name="t-0/leader-epoch-checkpoint") as held:
            with disk.failing("write", code=errno.ENOSPC, name=LOG):
                wire.send("produce", 9, **produce_request("t", batch([(b"k", b"refused")])))
                held.until_reached()
            change = {"name": "retention.ms", "config_operation": 0, "value": "12345"}
            asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
            answer = other.ask(
                "incremental_alter_configs", 1, resources=[asked], validate_only=False
            )
            assert answer.responses[0].error_code is ErrorCode.none
        wire.receive()
        until(
            lambda: produce(wire, "t", batch([(b"k", b"two")])).error_code is ErrorCode.none,
            "the log to be written again",
        )
        assert broker.log("t").config.retention_ms == 12345


def test_what_is_refused_while_a_log_is_read_anew_does_not_come_back(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
        partition = broker.broker.topics.partitions["t", 0]
        for value in (b"1", b"2"):
            produce(wire, "t", batch([(b"a", value)]))
        broker.call(lambda: partition.roll(1))
        produce(wire, "t", batch([(b"b", b"3")]))
        old, answers = partition.log, []

        def append() -> None:
            """As Produce does it, as soon as it can."""
            loop = asyncio.get_running_loop()
            if partition.log is old or partition.failed is not None:
                loop.call_soon(append)
                return
            data = batch([(b"b", b"4")])
            offset = partition.append(data, batches.read_header(data), 1)
            partition.when_durable(offset + 1, answers.append)

        plan = compaction.plan(old, 1 << 50)
        assert plan is not None
        with disk.failing("rename", code=errno.EIO, name="t-0/*"):
            with disk.held("open", name="t-0/leader-epoch-checkpoint") as held:
                cleaning = broker.begin(broker.broker.cleaner.clean(partition, plan))
                held.until_reached()
                refused = produce(wire, "t", batch([(b"b", b"refused")])).error_code
                assert refused is ErrorCode.kafka_storage_error
                broker.call(append)
            cleaning.exception(WAIT_SECONDS)
        until(lambda: answers, "the answer")
        until(lambda: not partition._committing, "the disk")
        found = [value for each in read_all(wire, "t") for _, value in each.pairs]
        assert (b"4" in found) == (answers[0] is None), answers


def test_a_batch_that_is_sent_again_while_it_is_being_written_is_acknowledged_with_it(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as again:
        broker.create("t")
        partition = broker.broker.topics.partitions["t", 0]
        sent = batch([(b"b", b"4")], producer=(7, 0, 0))
        with disk.held("sync", LOG) as held:
            wire.send("produce", 9, **produce_request("t", sent))
            held.until_reached()

            async def reopen() -> None:
                async with partition.maintenance:
                    await partition.reopen(OSError("as if segments could not be exchanged"))

            reopening = broker.begin(reopen())
            until(lambda: partition.failed is not None, "appends to be refused")
            refused = produce(again, "t", batch([(b"b", b"5")]))
            assert refused.error_code is ErrorCode.kafka_storage_error
            again.send("produce", 9, **produce_request("t", sent))
            until(lambda: len(partition._waiting) == 2, "both to wait for the disk")
        for each in (wire, again):
            (row,) = each.receive()[1].responses[0].partition_responses
            assert (row.error_code, row.base_offset) == (ErrorCode.none, 0)
        reopening.result(WAIT_SECONDS)
        assert [each.pairs for each in read_all(wire, "t")] == [[(b"b", b"4")]]
