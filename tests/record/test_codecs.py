"""Compression: round trips, bombs, and garbage that must raise one thing only."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.record import codecs
from headwater.record.errors import CorruptBatch

ALL = pytest.mark.parametrize("codec", range(5), ids=codecs.NAMES)
COMPRESSING = pytest.mark.parametrize("codec", range(1, 5), ids=codecs.NAMES[1:])
TEXT = b"".join(b'{"order_id": %d, "total": %d.25}' % (i, i * 13 % 977) for i in range(4000))


@ALL
@given(data=st.binary(max_size=2000), times=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_any_data_comes_back(codec: int, data: bytes, times: int) -> None:
    data = data * times
    compressed = codecs.compress(codec, data)
    assert codecs.decompress(codec, compressed) == data
    assert codecs.decompress(codec, memoryview(compressed), len(data)) == data


@COMPRESSING
def test_a_level_may_be_chosen(codec: int) -> None:
    for level in (1, 9):
        compressed = codecs.compress(codec, memoryview(TEXT), level)
        assert len(compressed) < len(TEXT) / 2
        assert codecs.decompress(codec, compressed) == TEXT


@COMPRESSING
def test_data_that_breaks_off_is_refused(codec: int) -> None:
    data = TEXT[:300]
    compressed = codecs.compress(codec, data)
    for end in range(1, len(compressed)):
        try:
            assert codecs.decompress(codec, compressed[:end]) != data
            # A snappy stream may end after any block, and after its header.
            assert codec == codecs.SNAPPY
            assert end == 16
        except CorruptBatch:
            pass


@COMPRESSING
def test_bytes_that_follow_are_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        codecs.decompress(codec, codecs.compress(codec, TEXT) + b"\xff\xff\xff")


@pytest.mark.parametrize("codec", [codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD])
def test_streams_one_after_another_are_read_as_one(codec: int) -> None:
    joined = codecs.compress(codec, TEXT) + codecs.compress(codec, b"and more")
    assert codecs.decompress(codec, joined) == TEXT + b"and more"


@COMPRESSING
def test_a_bomb_is_refused_before_it_fills_memory(codec: int) -> None:
    bomb = codecs.compress(codec, bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            codecs.decompress(codec, bomb, size_max=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
    assert len(codecs.decompress(codec, bomb, size_max=20_000_000)) == 20_000_000


def zstd_blocks(count: int, kind: int, size: int) -> bytes:
    """A frame with a window of 128 MiB and blocks of garbage, of the largest size they may have."""
    block = (kind << 1 | size << 3).to_bytes(3, "little") + b"\xee" * (1 if kind == 1 else size)
    return bytes.fromhex("28b52ffd 00 88") + block * count + b"\1\0\0"


GARBAGE = {
    "lz4 header only": (codecs.LZ4, bytes.fromhex("04224d18 6070 73 00000000")),
    "lz4 with a block of garbage": (codecs.LZ4, bytes.fromhex("04224d18 6070 73 02000000 ffff")),
    "lz4 with a stored block that ends": (codecs.LZ4, bytes.fromhex("04224d18 6070 73 ffffffff")),
    "zstd with blocks of garbage": (codecs.ZSTD, zstd_blocks(10, 2, 2)),
    "zstd with a reserved block": (codecs.ZSTD, zstd_blocks(10, 3, 2)),
    "snappy that says 4 GB": (codecs.SNAPPY, b"\xff\xff\xff\xff\x0f\0\0"),
    "snappy that says 200 MB": (codecs.SNAPPY, b"\x80\x84\xaf\x5f\0\0"),
}


@pytest.mark.parametrize(("codec", "data"), GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_takes_no_more_memory_than_its_blocks_could_fill(codec: int, data: bytes) -> None:
    tracemalloc.start()
    try:
        codecs.decompress(codec, data)
    except CorruptBatch:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2_000_000


@COMPRESSING
@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_the_limit_is_exact(codec: int, size: int) -> None:
    compressed = codecs.compress(codec, bytes(size))
    assert codecs.decompress(codec, compressed, size) == bytes(size)
    if size:
        with pytest.raises(CorruptBatch):
            codecs.decompress(codec, compressed, size - 1)


@COMPRESSING
@given(data=st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_bytes_decompress_or_raise(codec: int, data: bytes) -> None:
    try:
        codecs.decompress(codec, data, 1_000_000)
    except CorruptBatch:
        pass


@COMPRESSING
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_data_decompresses_or_raises(codec: int, data: st.DataObject) -> None:
    compressed = bytearray(codecs.compress(codec, TEXT[:2000]))
    for _ in range(data.draw(st.integers(1, 4))):
        compressed[data.draw(st.integers(0, len(compressed) - 1))] = data.draw(st.integers(0, 255))
    try:
        codecs.decompress(codec, compressed, 1_000_000)
    except CorruptBatch:
        pass


def test_snappy_is_written_in_blocks_and_also_read_raw() -> None:
    assert codecs.compress(codecs.SNAPPY, TEXT).startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert codecs.decompress(codecs.SNAPPY, raw) == TEXT


def test_lz4_blocks_are_independent_because_java_clients_refuse_others() -> None:
    frame = codecs.compress(codecs.LZ4, TEXT)
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] >> 6 == 1
    assert frame[4] & 0x20


def test_lz4_frames_with_linked_blocks_are_read() -> None:
    assert codecs.decompress(codecs.LZ4, bytes(cramjam.lz4.compress(TEXT))) == TEXT


def test_gzip_is_what_gzip_reads() -> None:
    assert gzip.decompress(codecs.compress(codecs.GZIP, TEXT)) == TEXT
    assert codecs.decompress(codecs.GZIP, gzip.compress(TEXT)) == TEXT


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        codecs.decompress(5, b"")
    with pytest.raises(ValueError, match="no compression codec 5"):
        codecs.compress(5, b"")
