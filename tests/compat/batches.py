"""Record batches written and read by hand, so that a test can tell a lie in any field.

Deliberately apart from `headwater.record`: a test that used the product's encoder could not
notice a mistake in it.

| bytes | field                | | bytes | field          |
|-------|----------------------|-|-------|----------------|
| 0–7   | base offset          | | 27–34 | base timestamp |
| 8–11  | batch length         | | 35–42 | max timestamp  |
| 12–15 | partition epoch      | | 43–50 | producer id    |
| 16    | magic                | | 51–52 | producer epoch |
| 17–20 | CRC-32C of the rest  | | 53–56 | base sequence  |
| 21–22 | attributes           | | 57–60 | record count   |
| 23–26 | last offset delta    | | 61–   | records        |
"""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import crc32c

HEADER_BYTES = 61
NOW_MS = int(time.time() * 1000)  # of this run: records of last week would be retained away
GZIP, CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 1, 0x20, 0x10, 0x08

Pair = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset_delta: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    count: int
    records: bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def pairs(self) -> list[Pair]:
        payload = gzip.decompress(self.records) if self.attributes & 7 == GZIP else self.records
        return list(_read_records(payload, self.count))


def batch(
    pairs: Sequence[Pair] = ((b"k", b"v"),),
    *,
    base_offset: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    timestamps: Sequence[int] | None = None,
    magic: int = 2,
    crc_error: int = 0,
    length_error: int = 0,
    last_offset_delta: int | None = None,
    count: int | None = None,
    max_timestamp: int | None = None,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """One batch; every lie is asked for by name. `producer` is (id, epoch, first sequence)."""
    times = timestamps or [NOW_MS] * len(pairs)
    deltas = offset_deltas or range(len(pairs))
    records = b"".join(
        _record(delta, when - times[0], key, value)
        for delta, when, (key, value) in zip(deltas, times, pairs, strict=True)
    )
    if attributes & 7 == GZIP:
        records = gzip.compress(records)
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        len(pairs) - 1 if last_offset_delta is None else last_offset_delta,
        times[0] if times else NOW_MS,
        (max(times) if times else NOW_MS) if max_timestamp is None else max_timestamp,
        *producer,
        len(pairs) if count is None else count,
    )
    checked += records
    crc = crc32c.crc32c(checked) ^ crc_error
    length = 4 + 1 + 4 + len(checked) + length_error
    return struct.pack(">qiibI", base_offset, length, -1, magic, crc) + checked


def message_set(pairs: Sequence[Pair], magic: int) -> bytes:
    """The format before record batches: message format 0 (no timestamp) or 1."""
    out = b""
    for offset, (key, value) in enumerate(pairs):
        body = struct.pack(">bb", magic, 0)
        body += struct.pack(">q", NOW_MS) if magic == 1 else b""
        body += _sized(key) + _sized(value)
        message = struct.pack(">I", zlib.crc32(body)) + body
        out += struct.pack(">qi", offset, len(message)) + message
    return out


def read_batches(data: bytes | None) -> list[Batch]:
    """The whole batches in a fetch answer (the last one may be cut, and is then left out)."""
    found, position = [], 0
    data = data or b""
    while len(data) - position >= HEADER_BYTES:
        base_offset, length, epoch, magic, crc = struct.unpack_from(">qiibI", data, position)
        end = position + 12 + length
        if end > len(data):
            break
        assert magic == 2
        assert crc32c.crc32c(data[position + 21 : end]) == crc
        attributes, last_delta, *rest = struct.unpack_from(">hiqqqhii", data, position + 21)
        base_ts, max_ts, producer_id, producer_epoch, sequence, count = rest
        found.append(
            Batch(
                base_offset=base_offset,
                last_offset_delta=last_delta,
                attributes=attributes,
                base_timestamp=base_ts,
                max_timestamp=max_ts,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
                leader_epoch=epoch,
                count=count,
                records=data[position + HEADER_BYTES : end],
            )
        )
        position = end
    return found


def _record(offset_delta: int, time_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00" + _varint(time_delta) + _varint(offset_delta)
    body += _counted(key) + _counted(value) + _varint(0)
    return _varint(len(body)) + body


def _sized(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def _counted(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read_records(payload: bytes, count: int) -> Iterator[Pair]:
    position = 0
    for _ in range(count):
        length, position = _read_varint(payload, position)
        end = position + length
        _, position = _read_varint(payload, position + 1)
        _, position = _read_varint(payload, position)
        key, position = _read_counted(payload, position)
        value, position = _read_counted(payload, position)
        yield key, value
        position = end


def _read_counted(payload: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(payload, position)
    if length < 0:
        return None, position
    return payload[position : position + length], position + length


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
