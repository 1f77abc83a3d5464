"""The zigzag variable-length integers inside records (Protocol Buffers' `sint32` and `sint64`).

    value    0  -1   1  -2  63  -64    64
    bytes   00  01  02  03  7e   7f  80 01

Seven bits to a byte, the lowest first; the top bit says that more follow. A reader must accept
longer spellings than necessary (Kafka does), up to five bytes for 32 bits and ten for 64.
"""

from __future__ import annotations

from headwater.record.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview
"""What every function of this package reads from, without copying it."""

_SPELT = tuple(bytes((n,)) for n in range(128)) + tuple(
    bytes((n & 0x7F | 0x80, n >> 7)) for n in range(128, 4096)
)


def encode(value: int) -> bytes:
    """The shortest spelling of a signed 64-bit integer."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 4096:
        return _SPELT[rest]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode(buffer: Buffer, position: int, end: int, bytes_max: int = 5) -> tuple[int, int]:
    """The integer at `position` and the position after it; nothing at or beyond `end` is read."""
    zigzag, position = read(buffer, position, end, bytes_max)
    return (zigzag >> 1) ^ -(zigzag & 1), position


def read(buffer: Buffer, position: int, end: int, bytes_max: int = 5) -> tuple[int, int]:
    """Like `decode`, but the integer still in zigzag: twice the value, or one less than minus that.

    Loops over records read one or two bytes in place, and call this for the rest.
    """
    zigzag = shift = 0
    limit = min(end, position + bytes_max)
    while position < limit:
        byte = buffer[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> (32 if bytes_max == 5 else 64):
                raise CorruptBatch(f"a variable-length integer before byte {position} is too large")
            return zigzag, position
        shift += 7
    raise CorruptBatch(f"a variable-length integer does not end before byte {position}")
