"""A produced batch is compressed in one piece: of several, not every client reads more than the first.

librdkafka reads the first gzip member only, and ends its process with an assertion where that is empty. Nor
does every client read every kind of one piece: Java's stops at lz4 blocks that are linked or empty, and at
dictionaries, aiokafka at another version of snappy-java's framing.
"""

from __future__ import annotations

import struct

import cramjam
import pytest

from headwater.record import batch as batches
from headwater.record import codecs
from headwater.record.errors import InvalidBatch
from headwater.record.records import Record, build

RECORDS = [Record(n, 10**12, None, b"v" * 100) for n in range(50)]
HONEST = build(RECORDS)
PAYLOAD = HONEST[batches.HEADER_BYTES :]
SKIPPED = struct.pack("<II", 0x184D2A50, 4) + b"skip"


def packed(codec: int, stored: bytes) -> bytes:
    return batches.pack(batches.read_header(HONEST)._replace(attributes=codec), stored)


def pieces(codec: int, *parts: bytes) -> bytes:
    return b"".join(codecs.compress(codec, part) for part in parts)


@pytest.mark.parametrize("codec", [codecs.GZIP, codecs.SNAPPY, codecs.LZ4])
@pytest.mark.parametrize(
    "parts",
    [(PAYLOAD[:500], PAYLOAD[500:]), (b"", PAYLOAD), (PAYLOAD, b"")],
    ids=["halves", "empty-first", "empty-last"],
)
def test_several_streams_in_a_row_are_refused(codec: int, parts: tuple[bytes, bytes]) -> None:
    stored = pieces(codec, *parts)
    assert codecs.decompress(codec, stored) == PAYLOAD, "what is in the log already can be read"
    with pytest.raises(InvalidBatch):
        batches.validate_produced(packed(codec, stored))


@pytest.mark.parametrize("before", [True, False])
def test_a_frame_to_be_skipped_around_lz4_is_refused(before: bool) -> None:
    frame = codecs.compress(codecs.LZ4, PAYLOAD)
    with pytest.raises(InvalidBatch):
        batches.validate_produced(
            packed(codecs.LZ4, SKIPPED + frame if before else frame + SKIPPED)
        )


def test_zstd_frames_in_a_row_are_taken_because_every_client_reads_them() -> None:
    stored = pieces(codecs.ZSTD, b"", PAYLOAD[:500], PAYLOAD[500:]) + SKIPPED
    assert batches.validate_produced(packed(codecs.ZSTD, stored)).header.record_count == len(
        RECORDS
    )


@pytest.mark.parametrize("codec", range(1, 5))
def test_one_stream_is_taken(codec: int) -> None:
    stored = codecs.compress(codec, PAYLOAD)
    assert batches.validate_produced(packed(codec, stored)).header.record_count == len(RECORDS)


def lz4_frame(flags: int, checksum: int, *blocks: bytes) -> bytes:
    """Stored blocks, behind a header of this checksum."""
    stored = b"".join(struct.pack("<I", len(each) | 1 << 31) + each for each in blocks)
    dictionary = struct.pack("<I", 7) if flags & 1 else b""
    header = struct.pack("<IBB", 0x184D2204, flags, 0x40) + dictionary + bytes([checksum])
    return header + stored + bytes(4)


def linked() -> bytes:
    frame = cramjam.lz4.Compressor(block_linked=True)
    frame.compress(PAYLOAD)
    return bytes(frame.finish())


def snappy_of_version(version: int) -> bytes:
    stored = codecs.compress(codecs.SNAPPY, PAYLOAD)
    return stored[:8] + struct.pack(">ii", version, version) + stored[16:]


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        pytest.param(codecs.LZ4, linked(), id="lz4-linked-blocks"),
        pytest.param(codecs.LZ4, lz4_frame(0x61, 0xE3, PAYLOAD), id="lz4-dictionary"),
        pytest.param(
            codecs.LZ4, lz4_frame(0x60, 0x82, PAYLOAD[:50], b"", PAYLOAD[50:]), id="lz4-empty-block"
        ),
        pytest.param(codecs.SNAPPY, snappy_of_version(0), id="snappy-version-0"),
        pytest.param(codecs.SNAPPY, snappy_of_version(2), id="snappy-version-2"),
    ],
)
def test_what_some_clients_cannot_read_is_refused(codec: int, stored: bytes) -> None:
    assert codecs.decompress(codec, stored) == PAYLOAD, "what is in the log already can be read"
    with pytest.raises(InvalidBatch):
        batches.validate_produced(packed(codec, stored))


def test_an_lz4_frame_of_stored_blocks_is_taken() -> None:
    stored = lz4_frame(0x60, 0x82, PAYLOAD[:50], PAYLOAD[50:])
    assert batches.validate_produced(packed(codecs.LZ4, stored)).header.record_count == len(RECORDS)
