"""Reading a partition back as a consumer does, from its start to its end, past whatever is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.errors import RecordError
from headwater.record.records import Record

from .world import Violation, World

LOOK_OFFSETS = 60
"""So many offsets are tried one by one to get past damage."""


@dataclass
class Found:
    """What a reader was given."""

    start: int
    end: int
    stable: int
    records: list[Record] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    """Offsets at which the answer was an error, or nothing."""


async def read(world: World, topic: str, partition: int, committed: bool) -> Found:
    first = await _fetch(world, topic, partition, 0, committed)
    if first["error_code"] is ErrorCode.offset_out_of_range:
        first = await _fetch(world, topic, partition, first["log_start_offset"], committed)
    start = first["log_start_offset"]
    last = world.now.partition(topic, partition)
    assert last is not None
    found = Found(start, last.log.durable_offset, last.log.last_stable_offset())
    upper = found.stable if committed else found.end
    offset = start
    while offset < upper:
        row = await _fetch(world, topic, partition, offset, committed)
        if row["error_code"]:
            found.unreadable.append(offset)
            # One damaged length may move the end by half a thousand million offsets.
            offset = max(offset + 1, upper - LOOK_OFFSETS)
            continue
        reached = _take(found, row, offset, committed, f"{topic}-{partition}")
        if reached == offset:
            if not (committed and row["last_stable_offset"] <= offset):
                # nothing, and yet the end is further on
                found.unreadable += range(offset, min(upper, offset + LOOK_OFFSETS))
            break
        offset = reached
    return found


async def _fetch(world: World, topic: str, partition: int, offset: int, committed: bool) -> dict:
    place = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "partition_max_bytes": 1 << 16,
    }
    answer = await world.ask(
        1,
        12,
        max_bytes=1 << 16,
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [place]}],
    )
    row = answer["responses"][0]["partitions"][0]
    return {"error_code": ErrorCode.none, "aborted_transactions": ()} | row


def _take(found: Found, row: dict, offset: int, committed: bool, where: str) -> int:
    """Add the records of one answer; the offset to go on with."""
    data = bytes(row["records"])
    waiting = sorted(
        (each["first_offset"], each["producer_id"]) for each in row["aborted_transactions"] or ()
    )
    aborted: set[int] = set()
    for position, header in batches.scan(data):
        try:
            given = records.decode(data, position) if not header.is_control else []
        except RecordError as error:
            raise Violation(
                f"{where}: a reader cannot decode offset {header.base_offset}: {error}"
            ) from error
        while waiting and waiting[0][0] <= header.last_offset:
            aborted.add(waiting.pop(0)[1])
        if header.is_control:
            if header.record_count and control.read_marker(data, position).kind == control.ABORT:
                aborted.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in aborted):
            found.records += [each for each in given if each.offset >= offset]
        offset = max(offset, header.next_offset)
    return offset
