"""A partition to which somebody always writes, or from which somebody always reads: what is to be done to it
is done all the same."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.broker.partition import Partition
from headwater.log import compaction
from headwater.log.excision import Selection
from headwater.log.partition import StorageFailed
from headwater.record import batch as batches
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce, read_all
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

SECONDS = 20
"""For ever, as far as these tests go."""


@contextmanager
def always_written(broker: Serving, partition: Partition) -> Iterator[None]:
    """The next batch is there before the last one is answered, as with many producers."""
    busy = True

    def append(error: Exception | None = None) -> None:
        if not busy or partition.is_closed:
            return
        data = batch([(b"b", b"4")])
        try:
            offset = partition.append(data, batches.read_header(data), 1)
        except StorageFailed:
            asyncio.get_running_loop().call_later(0.01, append)
        else:
            partition.when_durable(offset + 1, append)

    broker.call(append)
    try:
        yield
    finally:
        busy = False


@contextmanager
def always_read(broker: Serving, partition: Partition) -> Iterator[None]:
    """The next reader comes before the last one is gone."""
    busy = True

    def read(last: int) -> None:
        era = partition.cold_reads.begin()
        partition.cold_reads.end(last)
        if busy:
            asyncio.get_running_loop().call_later(0.01, read, era)
        else:
            partition.cold_reads.end(era)

    broker.call(lambda: read(partition.cold_reads.begin()))
    try:
        yield
    finally:
        busy = False


def compacted(broker: Serving, wire: Wire) -> tuple[Partition, compaction.Plan]:
    """A partition with something to compact."""
    broker.create("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    partition = broker.broker.topics.partitions["t", 0]
    for value in (b"1", b"2"):
        assert produce(wire, "t", batch([(b"a", value)])).error_code is ErrorCode.none
    broker.call(lambda: partition.roll(1))
    assert produce(wire, "t", batch([(b"b", b"3")])).error_code is ErrorCode.none
    plan = compaction.plan(partition.log, 1 << 50)
    assert plan is not None
    return partition, plan


def test_an_excision_comes_to_its_end_though_the_partition_is_never_idle(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        assert produce(wire, "t", batch([(b"gone", b"1")])).error_code is ErrorCode.none
        partition = broker.broker.topics.partitions["t", 0]
        target = Selection.of_key(b"gone", "00")
        with always_written(broker, partition):
            excising = broker.begin(
                broker.broker.excisions._excise_partition(partition, target, False)
            )
            result = excising.result(SECONDS)
        assert result.records_read - result.records_kept == 1
        assert b"gone" not in {key for each in read_all(wire, "t") for key, _ in each.pairs}


def test_a_log_is_read_anew_though_its_partition_is_never_idle(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        partition, plan = compacted(broker, wire)
        old = partition.log
        with (
            always_written(broker, partition),
            disk.failing("rename", code=errno.EIO, name="t-0/*"),
        ):
            cleaning = broker.begin(broker.broker.cleaner.clean(partition, plan))
            assert isinstance(cleaning.exception(SECONDS), OSError)
            assert partition.log is not old
        until(lambda: partition.failed is None, "the log to be written again")


def test_segments_are_exchanged_though_somebody_always_reads(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        partition, plan = compacted(broker, wire)
        with always_read(broker, partition):
            broker.begin(broker.broker.cleaner.clean(partition, plan)).result(SECONDS)
        assert [each.pairs for each in read_all(wire, "t")] == [[(b"a", b"2")], [(b"b", b"3")]]


def test_segments_stay_open_for_those_who_read_them_when_they_are_exchanged(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        partition, plan = compacted(broker, wire)
        segment = partition.log.segments[0]
        era = broker.call(partition.cold_reads.begin)
        cleaning = broker.begin(broker.broker.cleaner.clean(partition, plan))
        until(lambda: segment not in partition.log.segments, "the exchange")
        file = segment._file
        assert file is not None
        assert not cleaning.done()
        broker.call(lambda: partition.cold_reads.end(era))
        cleaning.result(SECONDS)
        assert segment._file is None


def test_a_partition_is_closed_though_somebody_always_writes(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t")
        partition = broker.broker.topics.partitions["t", 0]
        with always_written(broker, partition):
            broker.begin(partition.close()).result(SECONDS)
        assert partition.log.durable_offset == partition.log.next_offset
