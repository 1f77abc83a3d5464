"""Batches that are intact but cannot be read, which earlier versions took from producers: they stay as
they are, are named, and hold up neither compaction nor excision."""

from __future__ import annotations

from headwater.log.compaction_plan import Source
from headwater.log.excision import Selection, Work, excise
from headwater.record import batch as batches
from headwater.record import records, varint
from headwater.record.records import Record
from tests.log.compacted import FOLDER, NOW_MS, CompactedLog


def record(number: int, fields: bytes) -> bytes:
    body = b"\0\0" + varint.encode(number) + fields
    return varint.encode(len(body)) + body


VALUE = b"\2a\2v\0"
LYING_TOMBSTONE = b"\2t\1\6"  # says that three headers follow
BEYOND = b"\x20k"  # a key of 16 bytes, in a record of fewer


def poison(log: CompactedLog, *fields: bytes) -> bytes:
    """A batch of these records, as it is stored."""
    payload = b"".join(record(number, each) for number, each in enumerate(fields))
    usual = [Record(n, NOW_MS, None, b"") for n in range(len(fields))]
    data = batches.pack(batches.read_header(records.build(usual)), payload)
    offset = log.log.stage(data, batches.read_header(data), NOW_MS)
    log.log.flush()
    return batches.restamp(data, base_offset=offset, leader_epoch=0) + data[21:]


def log_with(*fields: bytes) -> tuple[CompactedLog, bytes]:
    log = CompactedLog()
    log.append([(b"a", b"1"), (b"b", b"1")])
    stored = poison(log, *fields)
    log.append([(b"a", b"2"), (b"c", b"1")])
    log.seal()
    return log, stored


def readable(log: CompactedLog, stored: bytes) -> list[tuple[bytes | None, bytes | None]]:
    """What there is beside the poison, which must be there byte for byte."""
    found = [data for _, data in log.batches()]
    assert [data[61:] for data in found].count(stored[61:]) == 1
    rest = [data for data in found if data[61:] != stored[61:]]
    return [(r.key, r.value) for data in rest for r in records.decode(data)]


def test_compaction_leaves_a_tombstone_with_a_lying_count_and_goes_on() -> None:
    log, stored = log_with(VALUE, LYING_TOMBSTONE, VALUE)
    for _ in range(3):
        result = log.compact()
        (sentence,) = result.unreadable
        assert "offset 2" in sentence
        assert readable(log, stored)[:3] == [(b"b", b"1"), (b"a", b"2"), (b"c", b"1")]
        log.append([(b"x", b"1")])
        log.seal()


def test_compaction_leaves_records_whose_keys_cannot_be_read_and_goes_on() -> None:
    log, stored = log_with(VALUE, BEYOND)
    result = log.compact()
    assert len(result.unreadable) == 1
    assert result.cleaned_offset == log.log.segments[-1].base_offset
    assert readable(log, stored)[:3] == [(b"b", b"1"), (b"a", b"2"), (b"c", b"1")]


def test_excision_by_key_goes_past_it_and_names_it() -> None:
    log, _ = log_with(VALUE, BEYOND)
    sources = tuple(Source(s.base_offset, s.next_offset, s.size) for s in log.log.segments[:-1])
    work = Work(sources, Selection.of_key(b"a", "00ff" * 8), 4096)
    result = excise(log.files, FOLDER, work)
    assert len(result.unreadable) == 1
    assert result.records_read - result.records_kept == 2


def test_excision_by_offsets_takes_it_out() -> None:
    log, _ = log_with(VALUE, BEYOND)
    sources = tuple(Source(s.base_offset, s.next_offset, s.size) for s in log.log.segments[:-1])
    work = Work(sources, Selection(first_offset=2, last_offset=3), 4096)
    result = excise(log.files, FOLDER, work)
    assert result.unreadable == ()
    assert result.records_read - result.records_kept == 2
