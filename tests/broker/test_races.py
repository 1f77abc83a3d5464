"""Narrow races with the disk, each made to happen: what was answered holds whatever comes next."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from pathlib import Path

import pytest

from headwater.broker.catalogue import LOG_NAME
from headwater.errors import HeadwaterError
from headwater.log.checkpoints import START_OFFSETS
from headwater.log.partition import PartitionLog
from headwater.log.store import CLEAN
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, delete, serving
from tests.broker.test_failing_disk import T_LOG, put, values
from tests.compat.asking import find_coordinator, produce_request
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire


def killed(data: Path, to: Path) -> Path:
    """The folder as kill -9 at this moment would leave it."""
    return Path(shutil.copytree(data, to, ignore=shutil.ignore_patterns(".lock")))


def delete_records(wire: Wire, offset: int) -> int:
    places = [{"partition_index": 0, "offset": offset}]
    return wire.send(
        "delete_records", 2, topics=[{"name": "t", "partitions": places}], timeout=9000
    )


def test_records_that_are_deleted_while_their_log_is_read_anew_stay_deleted(
    data: Path, tmp_path: Path
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as other:
        broker.create("t")
        for value in (b"0", b"1", b"2", b"3"):
            assert put(wire, value) is ErrorCode.none
        is_read, may_go_on = threading.Event(), threading.Event()
        _hold_after_reopening(broker, is_read, may_go_on)
        with disk.failing("write", code=errno.ENOSPC, name=T_LOG):
            wire.send("produce", 9, **produce_request("t", batch([(None, b"refused")])))
            assert is_read.wait(60)
        # The new log is known to the store, and not yet to the partition.
        delete_records(other, 3)
        broker.run(_a_few_turns())
        may_go_on.set()
        (row,) = other.receive()[1].topics[0].partitions
        assert (row.error_code, row.low_watermark) == (ErrorCode.none, 3)
        assert "t 0 3" in (data / START_OFFSETS).read_text()
        left = killed(data, tmp_path / "killed")
    with serving(left) as broker:
        assert broker.log("t").start_offset == 3


async def _a_few_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0.01)


def _hold_after_reopening(
    broker: Serving, is_read: threading.Event, may_go_on: threading.Event
) -> None:
    partition = broker.broker.topics.partitions["t", 0]
    reopen = partition._reopen

    def held(topic: str, number: int) -> PartitionLog:
        log = reopen(topic, number)
        is_read.set()
        assert may_go_on.wait(60)
        return log

    partition._reopen = held


def test_an_offset_of_a_transaction_survives_a_second_one_that_the_disk_refuses(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        find_coordinator(wire, "g")
        producer = Transactor(wire, "till").init()
        assert producer.send_offsets("g", "t", {0: 7}) is ErrorCode.none
        with disk.failing("write", code=errno.ENOSPC, name="__consumer_offsets-*/*.log"):
            assert producer.send_offsets("g", "t", {0: 9}) is not ErrorCode.none
        until(lambda: producer.ask_end(True).error_code is ErrorCode.none, "the transaction to end")
        until(lambda: _committed(wire) == 7, "the offset to be committed")
    with serving(data) as broker, broker.wire() as wire:
        assert _committed(wire) == 7


def _committed(wire: Wire) -> int:
    group = {"group_id": "g", "member_epoch": -1, "topics": None}
    (found,) = wire.ask("offset_fetch", 9, groups=[group], require_stable=False).groups
    return next((part.committed_offset for t in found.topics for part in t.partitions), -1)


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_what_is_written_after_a_deletion_that_failed_is_not_gone_after_a_kill(
    data: Path, tmp_path: Path, operation: str
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        assert put(wire, b"before") is ErrorCode.none
        with disk.failing(operation, name=f"{LOG_NAME}-0/*.log"):
            assert delete(wire, "t") is ErrorCode.kafka_storage_error
            is_taken = put(wire, b"after") is ErrorCode.none
            left = killed(data, tmp_path / "killed")
        if operation == "write":  # the catalogue goes back to what is durable, and all is well
            until(
                lambda: put(wire, b"later") is ErrorCode.none, "the topic to be taken at its word"
            )
    with serving(left) as broker, broker.wire() as wire:
        there = {topic.name for topic in wire.ask("metadata", 12, topics=None).topics}
        assert not is_taken or ("t" in there and b"after" in values(wire))


def test_a_start_that_is_refused_leaves_the_sign_of_a_clean_stop(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
    log = data / f"{LOG_NAME}-0" / f"{0:020d}.log"
    whole = log.read_bytes()
    for damage in (b"", whole[:-5], whole[:70] + b"\xff" + whole[71:]):
        log.write_bytes(damage)
        with pytest.raises(HeadwaterError), serving(data):
            pass
        assert (data / CLEAN).exists()
    log.write_bytes(whole)
    with serving(data) as broker:
        assert broker.broker.store.clean
        assert not (data / CLEAN).exists()
