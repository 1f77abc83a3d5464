"""A plain log to play with: short ways to open it, fill it and read it back, on a disk in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog
from headwater.log.recovery import Report, open_partition
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

FOLDER = Path("/topic-0")
NOW_MS = 1_700_000_000_000


def new_disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_dir(FOLDER)
    return disk


def opened(
    disk: FileSystem, config: LogConfig | None = None, **given: Any
) -> tuple[PartitionLog, Report]:
    return open_partition(disk, FOLDER, config or LogConfig(), NOW_MS, **given)


def new_log(disk: FaultyDisk | None = None, **config: Any) -> PartitionLog:
    return opened(disk or new_disk(), replace(LogConfig(), **config))[0]


def batch_of(*values: bytes, base_offset: int = 0, timestamp: int = NOW_MS, **header: Any) -> bytes:
    """A batch of these values, all at that time."""
    found = [Record(base_offset + i, timestamp, b"key", value) for i, value in enumerate(values)]
    return records.build(found, base_offset=base_offset, **header)


def stage(log: PartitionLog, *values: bytes, now_ms: int = NOW_MS, **header: Any) -> int:
    data = batch_of(*values, **header)
    return log.stage(data, batches.read_header(data), now_ms)


def append(log: PartitionLog, *values: bytes, **header: Any) -> int:
    """Stage and make durable; the first offset."""
    offset = stage(log, *values, **header)
    log.flush()
    return offset


def read(log: PartitionLog, offset: int = 0, size_max: int = 1 << 20, **given: Any) -> list[Record]:
    """The records of the whole batches that one read gives."""
    data = bytes(log.read(offset, size_max, **given) or b"")
    return [r for position, _ in batches.scan(data) for r in records.decode(data, position)]


def read_on(log: PartitionLog, offset: int = 0, size_max: int = 1) -> list[bytes | None]:
    """All values from an offset on, read after read."""
    found: list[Record] = []
    while more := read(log, offset, size_max):
        found += [record for record in more if record.offset >= offset]
        offset = more[-1].offset + 1
    return [record.value for record in found]
