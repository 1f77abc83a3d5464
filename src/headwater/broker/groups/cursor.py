"""Reading Kafka's primitive types out of bytes that came from a log or a client.

`records` and `subscription` read with it. Whatever the bytes are, a field is read or `BadRecord` is
raised; nothing is allocated for a length that the bytes do not back.
"""

from __future__ import annotations

Tags = dict[int, bytes]
"""Tagged fields: tag → data."""


class BadRecord(ValueError):
    """Bytes that are not a record of a state topic in a version that we know."""


class Cursor:
    """Reads fields one after another; every underflow or bad length is a `BadRecord`."""

    def __init__(self, data: bytes, flexible: bool = False) -> None:
        self.data = data
        self.at = 0
        self.flexible = flexible

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise BadRecord(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def i8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def i16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def i32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def i64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def uvarint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise BadRecord("a varint is longer than five bytes")

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.i16()
        if length == -1:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise BadRecord("a string is not UTF-8") from None

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise BadRecord("a string must not be null")
        return text

    def bytes(self) -> bytes:
        return self.take(self.uvarint() - 1 if self.flexible else self.i32())

    def count(self) -> int:
        count = self.uvarint() - 1 if self.flexible else self.i32()
        if count < 0 or count > len(self.data):  # an item takes at least one byte
            raise BadRecord(f"{count} items cannot be in {len(self.data)} bytes")
        return count

    def tags(self) -> Tags:
        """The tagged fields; none where the version has no room for them."""
        found: Tags = {}
        for _ in range(self.uvarint() if self.flexible else 0):
            tag = self.uvarint()
            found[tag] = self.take(self.uvarint())
        return found

    def skip_tags(self) -> None:
        self.tags()

    def end(self) -> None:
        if self.at != len(self.data):
            raise BadRecord(f"{len(self.data) - self.at} bytes follow the record")
