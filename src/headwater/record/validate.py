"""What the broker asks of the records of a batch before it appends it: does every one of them tell the truth?
Called by `batch.validate_produced` only, behind `claims`.

A batch that says what is not so would stop every consumer of its partition, or compaction, for as long
as it is kept. So each record is stepped through, field by field, and must end where it says:

    | length | attributes | timestamp delta | offset delta | key | value | header count | headers |
      1-5 B    1 B          1-10 B            1-5 B          -1 or a length, then so many bytes

The offset delta must be the record's number, from 0 to `record_count - 1`; a key and a value may be
missing (-1), a header's name may not; timestamps must fit into 64 bits. The attributes are unused, and
not looked at (Kafka does not either). `records.decode` must read whatever passes here. Which records are
the earliest and the latest is found on the way: the header's word is not taken for it.

All of them are stepped through in one loop, in which whatever is unusual is left to `_check_record`. It is
compiled where it can be (`forms`); where it is not, records in a row that have the same shape, which is what
most producers send, are checked together (`runs`).
"""

from __future__ import annotations

from time import sleep
from typing import NamedTuple

from headwater.record import forms, runs, varint
from headwater.record.claims import NO_TIMESTAMP, RECORD_BYTES_MIN
from headwater.record.errors import CorruptBatch, PayloadTooLarge
from headwater.record.varint import Buffer

HEADERS_MAX = 1_000_000
"""Of all records of a batch. Each is a step, and may take two bytes: a batch of nothing else would
keep whoever looks at it busy for minutes."""
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_PATIENCE_MAX = 64
"""Where lengths differ most runs are short: so many records later it is tried again."""
_BREATH = 1 << 14
"""After so many records or headers other threads have their turn: compiled code gives them none by itself."""


class Looked(NamedTuple):
    """What looking at every record of a batch has shown."""

    headers: int
    """How many were looked at one by one."""
    earliest: int
    """Of the records that have a timestamp (-1: none has)."""
    latest: int
    keyless: bool
    """Whether a record has no key."""


class _Seen:
    """How far the records were looked at, and what was seen."""

    __slots__ = ("_none", "earliest", "keyless", "latest", "left", "number", "position")

    def __init__(self, base_timestamp: int, headers_max: int) -> None:
        self._none = NO_TIMESTAMP - base_timestamp
        self.position = 0
        self.number = 0
        self.left = headers_max
        """So many headers would still be allowed."""
        self.keyless = False
        self.earliest: int | None = None
        self.latest: int | None = None
        """Both as deltas."""

    def note(self, zigzag: int) -> None:
        """One record's timestamp delta, or many that have the same."""
        delta = (zigzag >> 1) ^ -(zigzag & 1)
        if delta == self._none:
            return
        if self.earliest is None or self.latest is None:
            self.earliest = self.latest = delta
        elif delta > self.latest:
            self.latest = delta
        elif delta < self.earliest:
            self.earliest = delta


def check_records(
    buffer: Buffer,
    start: int,
    count: int,
    base_timestamp: int = 0,
    headers_max: int = HEADERS_MAX,
) -> Looked:
    """Raise CorruptBatch unless buffer[start:] is `count` whole records, numbered from 0 to count-1.

    PayloadTooLarge: there are more headers than `headers_max`, and the records were not looked at to
    the end.
    """
    data = bytes(buffer[start:]) if isinstance(buffer, memoryview) or start else bytes(buffer)
    end = len(data)
    if end < count * RECORD_BYTES_MIN:
        raise CorruptBatch(f"{count} records do not fit into {end} bytes")
    seen = _Seen(base_timestamp, headers_max)
    usual = not abs(base_timestamp) >> 62  # else a sum may overflow: look at each
    try:
        while seen.number < count:
            if seen.number:
                sleep(0)
            until = min(count, seen.number + _BREATH)
            if usual:
                _check_some(data, end, until, count, base_timestamp, seen)
            else:
                while seen.number < until:
                    _check_record(data, end, base_timestamp, seen)
    except IndexError:
        raise CorruptBatch(f"the records end before {count} records") from None
    if seen.position != end:
        raise CorruptBatch(f"the records do not end where {count} records end")
    headers = headers_max - seen.left
    if seen.earliest is None or seen.latest is None:
        return Looked(headers, NO_TIMESTAMP, NO_TIMESTAMP, seen.keyless)
    earliest, latest = base_timestamp + seen.earliest, base_timestamp + seen.latest
    return Looked(headers, earliest, latest, seen.keyless)


def _check_some(
    data: bytes, end: int, until: int, count: int, base_timestamp: int, seen: _Seen
) -> None:
    """The records up to number `until`, or more where they are alike, of `count`.

    IndexError means that the data ended inside a record.
    """
    # One long loop, as in `records.decode`: calls would cost more than the work. Whatever is not
    # as it is in nearly every record goes to `_check_record`.
    position, number = seen.position, seen.number
    before = stamp_before = -1
    attempt, patience = until if forms.COMPILED else number + 1, 2
    while number < until:
        start = position
        n = data[position]
        position += 1
        if n > 127:
            more = data[position]
            if more < 128:
                n += (more << 7) - 128
                position += 1
            else:
                n, position = varint.read(data, start, end)
        if n == before and number >= attempt:
            # The same length as the last: there may be many, all of one shape.
            same, position, stamps, keyless = runs.alike(data, start, number, count)
            if same:
                for stamp in stamps:
                    seen.note(stamp)
                seen.keyless |= keyless
                number += same
                attempt, patience = number + 1, 2
                continue
            attempt, patience = number + patience, min(2 * patience, _PATIENCE_MAX)
            before = -1
            continue
        before = n
        record_end = position + (n >> 1)
        position += 1  # the attributes
        stamp = data[position]
        if stamp > 127:
            position += 1
            more = data[position]
            if more > 127:
                seen.position, seen.number = start, number
                _check_record(data, end, base_timestamp, seen)
                position, number = seen.position, seen.number
                continue
            stamp += (more << 7) - 128
        position += 1
        if stamp != stamp_before:
            stamp_before = stamp
            seen.note(stamp)
        delta = data[position]
        if delta > 127:
            after = position + 1
            more = data[after]
            if more < 128:
                delta += (more << 7) - 128
                position = after
            else:
                delta, position = varint.read(data, position, end)
                position -= 1
        if delta != number + number:
            raise CorruptBatch(f"record {number} says that it is number {delta / 2:g}")
        after = position + 1
        length = data[after]
        position = after + 1
        if length > 127:
            length, position = varint.read(data, after, end)
        if not length & 1:
            position += length >> 1
        elif length == 1:
            seen.keyless = True
        else:
            raise CorruptBatch(f"the key of record {number} has an impossible length")
        after = position
        length = data[position]
        position += 1
        if length > 127:
            more = data[position]
            if more < 128:
                length += (more << 7) - 128
                position += 1
            else:
                length, position = varint.read(data, after, end)
        if not length & 1:
            position += length >> 1
        elif length != 1:
            raise CorruptBatch(f"the value of record {number} has an impossible length")
        if data[position]:
            position = _check_headers(data, position, record_end, number, seen)
        else:
            position += 1
        if position != record_end or n & 1:
            raise CorruptBatch(f"record {number} does not end where it says")
        number += 1
    seen.position, seen.number = position, number


def _check_headers(data: bytes, position: int, end: int, number: int, seen: _Seen) -> int:
    """The position behind the headers of record `number`, whose count is at `position`."""
    headers, position = data[position], position + 1
    if headers > 127:
        headers, position = varint.read(data, position - 1, end)
    if headers & 1 or (headers := headers >> 1) > end - position:
        raise CorruptBatch(f"record {number} has no room for its headers")
    if headers > seen.left:
        raise PayloadTooLarge("the records have more headers than are allowed")
    seen.left -= headers
    while headers:
        for _ in range(min(headers, _BREATH)):
            length = data[position]
            if length > 127 or length & 1:
                position = _over(data, position, end, number, "a header's name", 0)
            else:
                position += 1 + (length >> 1)
            length = data[position]
            if length == 1:
                position += 1
            elif length > 127 or length & 1:
                position = _over(data, position, end, number, "a header's value", -1)
            else:
                position += 1 + (length >> 1)
        headers -= min(headers, _BREATH)
        if headers:
            sleep(0)
    return position


def _check_record(data: bytes, end: int, base_timestamp: int, seen: _Seen) -> None:
    """The next record, whatever it looks like; CorruptBatch says what is wrong with it."""
    number = seen.number
    length, position = varint.decode(data, seen.position, end)
    record_end = position + length
    if length < RECORD_BYTES_MIN - 1 or record_end > end:
        raise CorruptBatch(f"record {number} has an impossible length")
    stamp, position = varint.read(data, position + 1, record_end, 10)
    if not _INT64_MIN <= base_timestamp + ((stamp >> 1) ^ -(stamp & 1)) <= _INT64_MAX:
        raise CorruptBatch(f"the timestamp of record {number} does not fit into 64 bits")
    delta, position = varint.decode(data, position, record_end)
    if delta != number:
        raise CorruptBatch(f"record {number} says that it is number {delta}")
    seen.keyless |= varint.decode(data, position, record_end)[0] == -1
    position = _over(data, position, record_end, number, "the key", -1)
    position = _over(data, position, record_end, number, "the value", -1)
    position = _check_headers(data, position, record_end, number, seen)
    if position != record_end:
        raise CorruptBatch(f"{record_end - position} bytes are left over in record {number}")
    seen.note(stamp)
    seen.position, seen.number = position, number + 1


def _over(data: bytes, position: int, end: int, number: int, field: str, least: int) -> int:
    """The position behind a field that has its length before it; -1 stands for none."""
    length, position = varint.decode(data, position, end)
    if not least <= length <= end - position:
        raise CorruptBatch(f"{field} of record {number} has an impossible length")
    return position + max(length, 0)
