"""Record batches made once, before the clock runs: what the raw client sends again and again.

Written out here rather than taken from `headwater.record`, so that the client's side of the
comparison stays independent of the code that it measures.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass

from crc32c import crc32c

_AFTER_CRC = struct.Struct(">hiqqqhii")
_UP_TO_CRC = struct.Struct(">qiibI")


@dataclass(frozen=True)
class Batch:
    """One batch of equal records; each record carries `record_bytes` of value and no key."""

    data: bytes
    count: int
    record_bytes: int


def build(record_bytes: int, batch_bytes: int) -> Batch:
    """A batch of at most `batch_bytes`, but of at least one record. Values do not compress."""
    records = bytearray()
    count = 0
    while True:
        record = _record(count, record_bytes)
        if count and 61 + len(records) + len(record) > batch_bytes:
            break
        records += record
        count += 1
    now_ms = int(time.time() * 1000)
    checked = _AFTER_CRC.pack(0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    prefix = _UP_TO_CRC.pack(0, 9 + len(checked), -1, 2, crc32c(checked))
    return Batch(prefix + checked, count, record_bytes)


def _record(offset_delta: int, value_bytes: int) -> bytes:
    body = b"".join(
        (
            b"\0",  # attributes
            _zigzag(0),  # timestamp delta
            _zigzag(offset_delta),
            _zigzag(-1),  # no key
            _zigzag(value_bytes),
            os.urandom(value_bytes),
            _zigzag(0),  # no headers
        )
    )
    return _zigzag(len(body)) + body


def _zigzag(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
