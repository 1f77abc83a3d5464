"""Batches that a repair writes: empty ones for offsets whose records are gone, and the catalogue's own.

`surgery` calls it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import BatchHeader


def empty_batch(
    first_offset: int, next_offset: int, leader_epoch: int, timestamp: int = -1
) -> bytes:
    """A batch without records for the offsets [first_offset, next_offset), as compaction leaves them."""
    header = BatchHeader(
        base_offset=first_offset,
        batch_length=0,
        leader_epoch=max(leader_epoch, 0),
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=next_offset - first_offset - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    return batches.pack(header, b"")


def is_filler(header: BatchHeader) -> bool:
    """Whether a repair has put it there; what compaction empties keeps its time."""
    return not header.record_count and header.producer_id < 0 and header.max_timestamp == -1


def batch_of(
    found: Mapping[str, Mapping[str, object] | None],
    first_offset: int,
    next_offset: int,
    epoch: int,
) -> bytes:
    """A batch of the catalogue with these keys and values, for the offsets [first_offset, next_offset)."""
    now_ms = int(time.time() * 1000)
    made = []
    for number, (key, value) in enumerate(found.items()):
        text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
        made.append(records.Record(number, now_ms, key.encode(), text))
    data = records.build(made)
    header = batches.read_header(data)._replace(
        base_offset=first_offset,
        last_offset_delta=next_offset - first_offset - 1,
        leader_epoch=max(epoch, 0),
    )
    return batches.pack(header, data[batches.HEADER_BYTES :])


def append_records(
    files: FileSystem,
    directory: Path,
    found: Mapping[str, Mapping[str, Any]],
    recovery_point: int,
    now_ms: int,
) -> None:
    """Write to the catalogue's log as the broker would, and close it; made if it is not there. All at once:
    of one that names some topics, the others would seem never to have been made."""
    files.make_dir(directory)
    config = LogConfig(compact=True, delete=False, is_never_cut=True)
    log, _ = open_partition(files, directory, config, now_ms, recovery_point=recovery_point)
    made = [
        records.Record(
            number, now_ms, key.encode(), json.dumps(value, separators=(",", ":")).encode()
        )
        for number, (key, value) in enumerate(found.items())
    ]
    try:
        data = records.build(made)
        log.stage(data, batches.read_header(data), now_ms)
        log.close()
    finally:
        log.abandon()
