"""Compaction and excision take the memory that they say, whatever strangers have written."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest

from headwater.broker.inspection.writer import empty_batch
from headwater.log import segment_reader
from headwater.log.allowance import Allowance
from headwater.log.excision import KNOWN_BYTES_MAX, Selection
from headwater.log.latest import Latest
from headwater.record import batch as batches
from headwater.record import codecs, records
from headwater.record.records import Record

from .plain import append, batch_of, new_log, read

KIBIBYTE = 1024
SALT = "00ff" * 8


def add(latest: Latest, rows: list[tuple[bytes, bytes | None]], first_offset: int) -> None:
    made = [Record(first_offset + n, 0, key, value) for n, (key, value) in enumerate(rows)]
    data = records.build(made, base_offset=first_offset, codec=codecs.ZSTD)
    latest.add(batches.read_header(data), data)


def test_a_long_key_among_many_short_ones_counts_as_what_it_is() -> None:
    """Its share of the average would be a thousandth of it."""
    latest, short = Latest(KIBIBYTE * KIBIBYTE), [(b"k%d" % n, b"v") for n in range(999)]
    for number in range(100):
        if latest.is_full:
            break
        add(latest, [(b"%d" % number + bytes(100 * KIBIBYTE), b"v"), *short], 1000 * number)
    assert number < 15
    assert sum(map(len, filter(None, latest.offsets))) < 1500 * KIBIBYTE


def test_tombstones_of_one_key_take_the_room_of_one() -> None:
    """Millions of them fit into a few kilobytes of the log."""
    latest = Latest()
    tombstones: list[tuple[bytes, bytes | None]] = [(b"k", None)] * 10_000
    add(latest, tombstones, 0)
    tracemalloc.start()
    try:
        for number in range(1, 12):
            add(latest, tombstones, 10_000 * number)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < KIBIBYTE * KIBIBYTE
    latest.seal()
    assert latest.is_tombstone(119_999)
    assert latest.alive(0, 120_000) == [119_999]


def test_every_newest_tombstone_is_known_however_many_came_before() -> None:
    latest = Latest()
    for number in range(30):
        add(latest, [(b"%d" % (n % 700), None) for n in range(1000)], 1000 * number)
    add(latest, [(b"0", b"alive")], 30_000)
    latest.seal()
    newest = latest.alive(0, 30_001)
    assert len(newest) == 700
    assert [offset for offset in newest if not latest.is_tombstone(offset)] == [30_000]


def test_the_keys_that_an_excision_has_looked_at_are_held_within_a_bound() -> None:
    key = b"wanted" + bytes(100 * KIBIBYTE)
    matches = Selection.of_key(key, SALT).matcher()
    tracemalloc.start()
    try:
        for number in range(1000):
            assert not matches(b"%d" % number + bytes(100 * KIBIBYTE))
        assert matches(key)
        assert matches(bytes(key))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * KNOWN_BYTES_MAX
    assert (
        hashlib.sha256(bytes.fromhex(SALT) + key).hexdigest() == Selection.of_key(key, SALT).digest
    )


@pytest.mark.parametrize("size_max", [1, 100, 1_000_000])
def test_whoever_reads_over_very_many_emptied_batches_is_given_the_next_record_in_few_reads(
    size_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few bytes it asks for: a thread is busy with it."""
    log, count = new_log(), 20_000
    append(log, b"first")
    for offset in range(1, count + 1):
        data = empty_batch(offset, offset + 1, 0, timestamp=1)
        log.stage(data, batches.read_header(data), 1)
    log.flush()
    append(log, b"last", b"of all")
    append(log, bytes(size_max))
    reads, read_segment = [0], segment_reader.read_segment

    def counted(*asked: object) -> object:
        reads[0] += 1
        return read_segment(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(segment_reader, "read_segment", counted)
    found = log.read(1, size_max)
    assert reads[0] < 20
    assert found is not None
    assert len(found) <= max(size_max, len(batch_of(b"last", b"of all")))
    values = [each.value for each in read(log, 1, size_max)]
    assert (values or [None])[0] in (b"last", None if size_max == 100 else b"last")
    if size_max == 1_000_000:
        assert values == [b"last", b"of all"]
    assert log.read(1, size_max, within=Allowance()) is None, "not while others wait"
