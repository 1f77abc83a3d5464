"""How large the contents of LZ4 and Zstandard frames can be, from their block headers alone.

`codecs` asks before it decompresses, so that it takes no more memory for a batch than its blocks can
fill: a frame need not say how large its contents are, and what it says need not be true. Integers
are little-endian; both formats also have frames to be skipped, of 4 bytes length and contents.

    LZ4     4 magic 04 22 4d 18 | flags | block maximum | 8 content size? | 4 dictionary? | checksum
            blocks: 4 size, top bit set if stored | data | 4 checksum?; size 0 ends them
            | 4 content checksum?

    zstd    4 magic 28 b5 2f fd | descriptor | window? | 0-4 dictionary | 0-8 content size
            blocks: 3 of last (bit 0), type (bits 1-2: stored, repeated byte, compressed) and size
            | data                                             | 4 content checksum?
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.record.errors import CorruptBatch
from headwater.record.varint import Buffer

_SKIPPED = 0x184D2A50
_LZ4_MAGIC = 0x184D2204
_LZ4_RATIO_MAX = 255  # a byte of a match length stands for at most that many
_LZ4_INDEPENDENT = 0x20
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES_MAX = 128 * 1024
_REPEATED, _COMPRESSED = 1, 2
_Frame = Callable[[Buffer, int], tuple[int, int]]
"""The bytes that a frame at a position may hold, and where it ends."""


def lz4_size_max(data: Buffer) -> int:
    """The most bytes that the LZ4 frames in `data` can hold; CorruptBatch if they break off."""
    return _size_max(data, _LZ4_MAGIC, _lz4_frame, "not an lz4 frame")


def zstd_size_max(data: Buffer) -> int:
    """The most bytes that the Zstandard frames in `data` can hold; CorruptBatch if they break off."""
    return _size_max(data, _ZSTD_MAGIC, _zstd_frame, "not a zstd frame")


def _size_max(data: Buffer, begins: int, frame: _Frame, complaint: str) -> int:
    size = position = 0
    while position < len(data):
        magic = _integer(data, position, 4)
        position += 4
        if magic & ~0xF == _SKIPPED:
            position += 4 + _integer(data, position, 4)
        elif magic == begins:
            contents, position = frame(data, position)
            size += contents
        else:
            raise CorruptBatch(complaint)
    return _unless_cut(size, position, data)


def is_one_lz4_frame(data: Buffer) -> bool:
    """Whether there is nothing before and behind it, and every client reads it: no blocks that are linked or
    empty, no dictionary. CorruptBatch if it breaks off."""
    if _integer(data, 0, 4) != _LZ4_MAGIC:
        return len(data) < 4 or _integer(data, 0, 4) & ~0xF != _SKIPPED
    if _integer(data, 4, 1) & 0x21 != _LZ4_INDEPENDENT:
        return False
    return _lz4_frame(data, 4, empty_blocks=False)[1] >= len(data)


def _lz4_frame(data: Buffer, position: int, empty_blocks: bool = True) -> tuple[int, int]:
    flags, limits = _integer(data, position, 1), _integer(data, position + 1, 1)
    block_max = 1 << (8 + 2 * (limits >> 4 & 7))
    position += 3 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)
    size = 0
    while stored := _integer(data, position, 4):
        length = stored & 0x7FFFFFFF
        if not length and not empty_blocks:
            break  # where Java's clients end the frame
        size += length if stored >> 31 else min(block_max, length * _LZ4_RATIO_MAX)
        position += 4 + length + 4 * (flags >> 4 & 1)
    return size, position + 4 + 4 * (flags >> 2 & 1)


def _zstd_frame(data: Buffer, position: int) -> tuple[int, int]:
    descriptor = _integer(data, position, 1)
    whole = descriptor >> 5 & 1  # in one segment: no window, but a content size
    position += 2 - whole + (0, 1, 2, 4)[descriptor & 3] + (whole, 2, 4, 8)[descriptor >> 6]
    size = last = 0
    while not last:
        block = _integer(data, position, 3)
        last, kind, length = block & 1, block >> 1 & 3, block >> 3
        size += _ZSTD_BLOCK_BYTES_MAX if kind == _COMPRESSED else length
        position += 3 + (1 if kind == _REPEATED else length)
    return size, position + 4 * (descriptor >> 2 & 1)


def _integer(data: Buffer, position: int, size: int) -> int:
    if position + size > len(data):
        raise CorruptBatch("compressed data breaks off")
    return int.from_bytes(data[position : position + size], "little")


def _unless_cut(size: int, position: int, data: Buffer) -> int:
    if position > len(data) or not data:
        raise CorruptBatch("compressed data breaks off")
    return size
