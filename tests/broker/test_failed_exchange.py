"""Segments whose exchange failed half-way, and that could not be read anew: their names are not theirs."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.log.confirmation import SyncFailed
from tests.broker.disks import WAIT_SECONDS, HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce, read_all
from tests.compat.batches import NOW_MS, batch
from tests.compat.wire import ErrorCode, Wire

RECORDS = 8
UNIQUE = [b"%d" % number for number in range(RECORDS)]
TABLE = {
    "cleanup_policy": "compact,delete",
    "min_cleanable_dirty_ratio": "0.0",
    "retention_ms": -1,
    "segment_ms": 1 << 50,
}


@contextmanager
def half_exchanged(data: Path) -> Iterator[tuple[Serving, Wire]]:
    """Eight segments with a record each have become one file; then the disk failed, for as long as the log
    was to be read anew."""
    disk, folder = HandDisk(), data / "t-0"

    def fail(path: Path) -> None:
        names = {each.name for each in folder.iterdir()}
        if f"{1:020d}.log" not in names and f"{0:020d}.log.swap" not in names:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t", **TABLE)
        partition = broker.broker.topics.partitions["t", 0]
        for key in UNIQUE:
            assert produce(wire, "t", batch([(key, b"v")])).error_code is ErrorCode.none
            broker.call(lambda: partition.roll(NOW_MS))
            broker.run(partition.flushed())
        assert produce(wire, "t", batch([(b"last", b"v")])).error_code is ErrorCode.none
        ends = [disk.on("sync_dir", fail, "t-0"), disk.on("open", fail, "t-0/*")]
        found = broker.run(broker.broker.cleaner._plan(partition))
        assert found is not None
        cleaning = broker.begin(broker.broker.cleaner.clean(partition, found[2]))
        assert isinstance(cleaning.exception(WAIT_SECONDS), SyncFailed)
        for end in ends:
            end()
        assert len(list(folder.glob("*.log"))) == 2, "what was decided is in place"
        assert len(broker.log("t").segments) > RECORDS, "the log does not know of it"
        yield broker, wire


def keys(wire: Wire, offset: int = 0) -> list[bytes | None]:
    return [key for each in read_all(wire, "t", offset) for key, _ in each.pairs]


def test_they_can_be_read_for_as_long_as_the_broker_runs(data: Path) -> None:
    with half_exchanged(data) as (broker, wire):
        assert keys(wire) == [*UNIQUE, b"last"]
        broker.run(broker.broker.housekeeping._release())
        assert keys(wire) == [*UNIQUE, b"last"]


@pytest.mark.parametrize("offset", [1, 3, RECORDS - 1])
def test_a_deletion_takes_no_record_with_it_that_has_moved_into_the_same_file(
    data: Path, offset: int
) -> None:
    with half_exchanged(data) as (broker, wire):
        wanted = [{"partition_index": 0, "offset": offset}]
        asked = [{"name": "t", "partitions": wanted}]
        row = wire.ask("delete_records", 2, topics=asked, timeout=9000).topics[0].partitions[0]
        assert row.error_code is ErrorCode.none
        broker.run(asyncio.wait_for(broker.broker.housekeeping.retain(), WAIT_SECONDS))
    with serving(data) as broker, broker.wire() as wire:
        assert keys(wire, offset) == [*UNIQUE[offset:], b"last"]
