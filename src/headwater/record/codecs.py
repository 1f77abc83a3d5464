"""The four compressions a batch may have, as Kafka's clients write and read them.

    1 gzip    any number of members
    2 snappy  written in blocks as snappy-java (xerial) does; read so, or as one raw block, which
              librdkafka writes
    3 lz4     frames; those we write must have independent blocks, Java clients refuse linked ones
    4 zstd    frames

Compressed bytes come from strangers: `decompress` must never hold more than `size_max` bytes (more is
PayloadTooLarge), and must answer any garbage with CorruptBatch and nothing else. cramjam is imported
when first needed, because many a broker never needs it.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from headwater.record import frames
from headwater.record.errors import CorruptBatch, InvalidBatch, PayloadTooLarge

if TYPE_CHECKING:
    from headwater.record.varint import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
SIZE_MAX = 256 * 1024 * 1024
"""More than any batch that a producer means well by: messages are limited to a few megabytes."""

_GZIP_STEP_BYTES = 16 * 1024
_GZIP_WBITS = 31  # 15 bits of window, and a gzip header around the stream
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_RATIO_MAX = 22  # the best that it knows is a copy of 64 bytes in 3
_NOT_SINGLE = (
    "its records are compressed in several pieces, or in a way that not every client reads"
)
_GUESS_BYTES_MIN = 64 * 1024


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` by that codec. Without a level: the one Kafka takes (gzip 6, lz4 fast, zstd 3)."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return stream.compress(data) + stream.flush()
    if codec == SNAPPY:
        return _compress_xerial(data)
    import cramjam

    if codec == LZ4:
        frame = cramjam.lz4.Compressor(
            level=0 if level is None else level, content_checksum=False, block_linked=False
        )
        frame.compress(bytes(data))
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
    raise ValueError(f"there is no compression codec {codec}")


def decompress(
    codec: int, data: Buffer, size_max: int = SIZE_MAX, *, single: bool = False
) -> bytes:
    """What `data` was before compression; CorruptBatch for garbage and beyond `size_max` bytes.

    `single`: InvalidBatch for more than one stream in a row, where not every client reads that:
    librdkafka stops at the first gzip member (and aborts its process where that is empty), and takes
    no second lz4 frame and no second snappy header. The same for one stream that not every client reads
    (`frames.is_one_lz4_frame`; a snappy header of another version).

    All codecs give the interpreter to other threads meanwhile.
    """
    if codec == NONE:
        return _within(bytes(data), size_max)
    if codec == GZIP:
        return _decompress_gzip(data, size_max, single)
    if codec == SNAPPY:
        return _decompress_snappy(data, size_max, single)
    if codec == LZ4 and single and not frames.is_one_lz4_frame(data):
        raise InvalidBatch(_NOT_SINGLE)
    if codec in (LZ4, ZSTD):
        return _decompress_frames(codec, data, size_max)
    raise CorruptBatch(f"there is no compression codec {codec}")


def _within(data: bytes, size_max: int) -> bytes:
    if len(data) > size_max:
        raise PayloadTooLarge(f"the records take more than {size_max} bytes")
    return data


def _decompress_gzip(data: Buffer, size_max: int, single: bool) -> bytes:
    view, position = memoryview(data), 0
    pieces: list[bytes] = []
    remaining = size_max + 1
    try:
        while position < len(view) or not position:
            member = zlib.decompressobj(_GZIP_WBITS)
            while not member.eof:
                # A little at a time: zlib copies all that follows the end of a member.
                some = view[position : position + _GZIP_STEP_BYTES]
                if not some:
                    raise CorruptBatch("gzip data breaks off")
                piece = member.decompress(some, remaining)
                position += len(some) - len(member.unused_data)
                remaining -= len(piece)
                if remaining <= 0:
                    raise PayloadTooLarge(f"the records take more than {size_max} bytes")
                pieces.append(piece)
            if single and position < len(view):
                raise InvalidBatch(_NOT_SINGLE)
    except zlib.error as error:
        raise CorruptBatch(f"not gzip data: {error}") from None
    return b"".join(pieces)


def _compress_xerial(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, size_max: int, single: bool) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_block(data, size_max)
    view = memoryview(data)
    pieces: list[bytes] = []
    position, end = 0, len(view)
    while position < end:
        # The header comes again where snappy-java has joined two streams.
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            begin, position = position, position + len(_XERIAL_HEADER)
            if single and (begin or view[:position] != _XERIAL_HEADER):
                raise InvalidBatch(_NOT_SINGLE)
            continue
        start = position + 4
        position = start + int.from_bytes(view[position:start], "big")
        if start >= position or position > end:
            raise CorruptBatch("a snappy block has an impossible length")
        piece = _decompress_block(view[start:position], size_max)
        size_max -= len(piece)
        pieces.append(piece)
    if position > end:
        raise CorruptBatch("snappy data breaks off")
    return b"".join(pieces)


def _decompress_block(block: Buffer, size_max: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > size_max:
            raise PayloadTooLarge(f"the records take more than {size_max} bytes")
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise CorruptBatch(f"{len(block)} bytes of snappy data cannot hold {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"not snappy data: {error}") from None


def _decompress_frames(codec: int, data: Buffer, size_max: int) -> bytes:
    """Into buffers of growing size, up to what the blocks can hold: usually the first one does."""
    import cramjam

    if codec == LZ4:
        limit, into = frames.lz4_size_max(data), cramjam.lz4.decompress_into
    else:
        limit, into = frames.zstd_size_max(data), cramjam.zstd.decompress_into
    error_class = CorruptBatch if limit <= size_max else PayloadTooLarge
    limit = min(limit, size_max)
    guess = max(_GUESS_BYTES_MIN, 4 * len(data))
    while True:
        out = bytearray(min(guess, limit))
        try:
            size = into(data, out)
        except cramjam.DecompressionError as error:
            if len(out) == limit:
                reason = f"not {NAMES[codec]} data of at most {size_max} bytes: {error}"
                raise error_class(reason) from None
            guess *= 8
        else:
            return bytes(memoryview(out)[:size])
