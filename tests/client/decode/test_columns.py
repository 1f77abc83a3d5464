"""The columnar decoder against the record package's own reader, and against damage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client.decode import columns as module
from headwater.client.decode import frames
from headwater.client.decode.columns import Bounds, Columns
from headwater.record import codecs, control, records
from headwater.record.errors import CorruptBatch, RecordError
from headwater.record.records import Record

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
ALL = Bounds(0, 1 << 62)
some_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
header = st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20))


@st.composite
def one_batch(draw: st.DrawFn) -> tuple[list[Record], dict[str, Any]]:
    """Records with gaps between their offsets, as compaction leaves them."""
    base = draw(st.integers(0, 1 << 40))
    gaps = draw(st.lists(st.integers(1, 300), min_size=1, max_size=12))
    offsets = np.cumsum(gaps) - gaps[0] + base
    drawn = [
        Record(
            int(offset),
            draw(st.integers(0, 1 << 41)),
            draw(some_bytes),
            draw(some_bytes),
            tuple(draw(st.lists(header, max_size=3))),
        )
        for offset in offsets
    ]
    append_time = draw(st.none() | st.integers(0, 1 << 41))
    return drawn, {
        "base_offset": base,
        "codec": draw(st.integers(0, 4)),
        "log_append_time": append_time,
    }


def decoded(data: bytes, bounds: Bounds = ALL, **more: Any) -> list[dict[str, Any]]:
    columns = Columns(SCHEMA, "orders", 3, bounds, **more)
    found: list[dict[str, Any]] = []
    for batch in columns.decode(np.frombuffer(data, np.uint8)):
        batch.validate(full=True)
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        rows = batch.set_column(
            batch.schema.get_field_index("timestamp"), "timestamp", pa.array(times)
        ).to_pylist()
        found += rows
    return found


def expected(batch: bytes) -> list[dict[str, Any]]:
    header = module.h.scan(np.frombuffer(batch, np.uint8))[0][0]
    return [
        {
            "key": each.key,
            "value": each.value,
            "topic": "orders",
            "partition": 3,
            "offset": each.offset,
            "timestamp": each.timestamp * 1000,
            "timestampType": int(bool(header[module.h.ATTRIBUTES] & 8)),
            "headers": [{"key": k, "value": v} for k, v in each.headers] or None,
        }
        for each in records.decode(batch)
    ]


@settings(max_examples=150)
@given(st.lists(one_batch(), min_size=1, max_size=4))
def test_any_batches_of_any_codec_are_read_as_the_record_package_reads_them(
    drawn: list[tuple[list[Record], dict[str, Any]]],
) -> None:
    batches = [records.build(each, **how) for each, how in drawn]
    wanted = [row for batch in batches for row in expected(batch)]
    assert decoded(b"".join(batches)) == wanted


@settings(max_examples=100)
@given(one_batch(), st.integers(0, 4000), st.integers(0, 4000))
def test_a_range_takes_exactly_its_offsets(
    drawn: tuple[list[Record], dict[str, Any]], first: int, size: int
) -> None:
    batch = records.build(drawn[0], **drawn[1])
    start = drawn[1]["base_offset"] + first - 200
    end = start + size
    wanted = [row for row in expected(batch) if start <= row["offset"] < end]
    assert decoded(batch, Bounds(start, end)) == wanted


def plain(offset: int, count: int = 3, size: int = 10, **more: Any) -> bytes:
    made = [Record(offset + n, 1000 + n, b"k", b"x" * size) for n in range(count)]
    return records.build(made, base_offset=offset, **more)


def test_filters_on_time_take_exactly_their_microseconds() -> None:
    found = decoded(plain(0, 10), Bounds(0, 100, since=1_003_000, until=1_005_999))
    assert [row["offset"] for row in found] == [3, 4, 5]


def test_control_batches_are_left_out_and_counted_in_the_position() -> None:
    data = plain(0, transactional=True, producer_id=7) + control.marker(
        control.COMMIT, 7, 0, 3, 1000, 0
    )
    columns = Columns(SCHEMA, "orders", 0, ALL)
    rows = [each for batch in columns.decode(np.frombuffer(data, np.uint8)) for each in batch]
    assert len(rows[0]) == 3
    assert columns.next_offset == 4


def test_batches_of_aborted_transactions_are_left_out() -> None:
    data = b"".join(
        (
            plain(0, transactional=True, producer_id=7),  # aborted
            plain(3, transactional=True, producer_id=8),  # another producer's, committed
            control.marker(control.ABORT, 7, 0, 6, 1000, 0),
            plain(7, transactional=True, producer_id=7),  # its next one, committed
            plain(10),  # no transaction at all
        )
    )
    for aborted in ([(7, 0, None)], [(7, 0, 6)]):
        columns = Columns(SCHEMA, "orders", 0, ALL)
        batches = columns.decode(np.frombuffer(data, np.uint8), aborted)
        offsets = [each for batch in batches for each in batch.column("offset").to_pylist()]
        assert offsets == [3, 4, 5, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.ZSTD])
def test_large_batches_are_handed_out_in_bounded_pieces(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 10_000)
    data = b"".join(plain(n * 3, size=2000, codec=codec) for n in range(50))
    columns = Columns(SCHEMA, "orders", 0, ALL)
    batches = list(columns.decode(np.frombuffer(data, np.uint8)))
    assert len(batches) > 10
    assert max(batch.column("value").nbytes for batch in batches) < 20_000
    assert [o for b in batches for o in b.column("offset").to_pylist()] == list(range(150))


def test_a_batch_that_is_cut_off_at_the_end_is_left_for_the_next_piece() -> None:
    whole, half = plain(0), plain(3)
    for size in range(len(half)):
        columns = Columns(SCHEMA, "orders", 0, ALL)
        list(columns.decode(np.frombuffer(whole + half[:size], np.uint8)))
        assert columns.next_offset == 3


def test_nothing_behind_the_range_is_looked_at() -> None:
    assert len(decoded(plain(0) + b"\xff" * 100, Bounds(0, 3))) == 3


def test_an_empty_batch_that_compaction_left_moves_the_position() -> None:
    data = records.build([], base_offset=5, last_offset_delta=4, producer_id=1)
    columns = Columns(SCHEMA, "orders", 0, Bounds(5, 100))
    assert list(columns.decode(np.frombuffer(data, np.uint8))) == []
    assert columns.next_offset == 10


def test_a_wrong_checksum_is_an_error() -> None:
    damaged = bytearray(plain(0))
    damaged[-3] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        decoded(bytes(damaged))


def test_every_flipped_byte_is_read_or_refused() -> None:
    """Without checksums: whatever the bytes say, nothing outside of them is touched."""
    whole = records.build(
        [Record(n, n, b"key", b"value" * 3, (("h", b"x"), ("", None))) for n in range(3)]
    )
    for place in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            try:
                decoded(bytes(damaged), check_crcs=False)
            except (RecordError, pa.ArrowInvalid):
                continue


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_parse_or_raise(rest: bytes) -> None:
    head = bytearray(plain(0)[:61])
    head[8:12] = (49 + len(rest)).to_bytes(4, "big")
    try:
        decoded(bytes(head) + rest, check_crcs=False)
    except (RecordError, pa.ArrowInvalid):
        pass


def test_only_the_columns_that_were_asked_for_are_made() -> None:
    schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    columns = Columns(schema, "orders", 0, ALL)
    (batch,) = columns.decode(np.frombuffer(plain(0), np.uint8))
    assert batch.schema == schema
    assert batch.to_pylist()[1] == {"offset": 1, "value": b"x" * 10}


# ---- compiled code between processes ---------------------------------------------------------------

_COUNT_MISSES = """
from headwater.client.decode import frames, headers, records
functions = [records.fill, records._varint, headers._count, headers._fill, frames._frame]
print(sum(sum(each.stats.cache_misses.values()) for each in functions))
"""


def _misses(env: dict[str, str]) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _COUNT_MISSES], env=env, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    if not os.environ.get("HEADWATER_SOAK"):
        assert frames._frame.signatures, (
            "importing it has compiled it, here as in the other process"
        )
        assert _misses(dict(os.environ)) == 0
        return
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    env["HEADWATER_CACHE_DIR"] = str(tmp_path)
    assert _misses(env) > 0
    assert _misses(env) == 0


def test_without_a_home_that_can_be_written_the_cache_is_in_the_temporary_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    env = {
        **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
        "HOME": str(tmp_path / "blocked"),
        "TMPDIR": str(tmp_path),
        "XDG_CACHE_HOME": "",
        "HEADWATER_CACHE_DIR": "",
    }
    asked = "from headwater.client.decode.machine import cache_folder; print(cache_folder())"
    done = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / f"headwater-compiled-{os.getuid()}")
