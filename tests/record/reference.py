"""A slow and strict reader of the records of a produced batch, written from Kafka's description alone.

It shares no code with `headwater.record`, and knows no shortcuts: what it refuses is not a batch.
"""

from __future__ import annotations


class Malformed(Exception):
    """Not what a producer may send."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise Malformed(f"{size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, bits: int = 32) -> int:
        value = 0
        for number in range(5 if bits == 32 else 10):
            (byte,) = self.take(1)
            value += (byte & 127) << (7 * number)
            if byte < 128:
                if value >= 1 << bits:
                    raise Malformed("an integer is too large")
                return value // 2 if value % 2 == 0 else -(value // 2) - 1
        raise Malformed("an integer is too long")

    def nullable(self) -> bytes | None:
        length = self.integer()
        return None if length == -1 else self.take(length)


def read(payload: bytes, count: int, base_timestamp: int) -> list[tuple[object, ...]]:
    """Timestamp, key, value and headers of each record; Malformed for whatever is not quite right."""
    whole = _Reader(payload)
    found = [_record(_Reader(whole.take(whole.integer())), n, base_timestamp) for n in range(count)]
    if whole.at != len(payload):
        raise Malformed("bytes are left over")
    return found


def _record(reader: _Reader, number: int, base_timestamp: int) -> tuple[object, ...]:
    reader.take(1)
    timestamp = base_timestamp + reader.integer(64)
    if not -(2**63) <= timestamp < 2**63:
        raise Malformed("a timestamp is out of range")
    if reader.integer() != number:
        raise Malformed("a record has another's number")
    key, value = reader.nullable(), reader.nullable()
    count = reader.integer()
    if count < 0:
        raise Malformed("a negative number of headers")
    headers = [(reader.take(reader.integer()), reader.nullable()) for _ in range(count)]
    if reader.at != len(reader.data):
        raise Malformed("bytes are left over in a record")
    return timestamp, key, value, headers
