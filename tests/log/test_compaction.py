"""What compaction keeps and what it drops: Kafka's rules, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.log import compaction, lookup, time_lookup
from headwater.log.compaction_plan import Result
from headwater.record import batch as batches
from headwater.record import codecs, records
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

from .compacted import CONFIG, FOLDER, NOW_MS, CompactedLog

BIG = replace(CONFIG, segment_bytes=1 << 20)


def sealed(*pairs_of_batches: list[tuple[bytes | None, bytes | None]]) -> CompactedLog:
    log = CompactedLog(BIG)
    for pairs in pairs_of_batches:
        log.append(pairs)
    log.seal()
    return log


def test_the_newest_record_of_each_key_stays_where_it_was() -> None:
    log = sealed([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], [(b"c", b"1"), (b"a", b"3")])
    result = log.compact()
    assert [(r.offset, r.key, r.value) for r in log.records()][:-1] == [
        (1, b"b", b"1"),
        (3, b"c", b"1"),
        (4, b"a", b"3"),
    ]
    assert (result.records_read, result.records_kept, result.keys) == (5, 3, 3)
    assert log.log.start_offset == 0
    assert log.log.cleaned_offset == 5


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte() -> None:
    log = sealed([(b"a", b"1")], [(b"b", b"1"), (b"c", b"1")], [(b"a", b"2")])
    before = [data for _, data in log.batches()]
    log.compact()
    assert [data for _, data in log.batches()] == before[1:]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_keeps_everything_but_the_records_it_loses(codec: int) -> None:
    log = CompactedLog(BIG)
    pairs = [(b"key-%d" % (n % 7), b"value-%d" % n) for n in range(10)]
    log.append(pairs, codec=codec, producer=(9, 3, 40), timestamps=range(NOW_MS + 10, NOW_MS, -1))
    log.append([(b"key-6", b"newer")])
    log.seal()
    before = log.batches()[0][0]
    log.compact()
    after, data = log.batches()[0]
    assert after.record_count == 6
    changed = {"batch_length", "crc", "record_count", "max_timestamp"}
    kept = set(after._fields) - changed
    assert {name: getattr(after, name) for name in kept} == {
        name: getattr(before, name) for name in kept
    }
    assert records.decode(data) == [log.written[n] for n in (3, 4, 5, 7, 8, 9)]
    assert after.max_timestamp == NOW_MS + 7
    batches.check(data)


def test_the_append_time_of_a_batch_stays() -> None:
    log = CompactedLog(BIG)
    data = records.build([Record(n, 5 + n, b"k%d" % (n % 2), b"v") for n in range(4)])
    log.store(batches.with_append_time(data, NOW_MS))
    log.seal()
    log.compact()
    assert [(r.offset, r.timestamp) for r in log.records()][:2] == [(2, NOW_MS), (3, NOW_MS)]


def test_a_record_without_a_key_goes() -> None:
    log = sealed([(b"a", b"1"), (None, b"x"), (b"", b"empty is a key")])
    log.compact()
    assert log.offsets() == [0, 2, 3]
    log.append([(b"z", b"1")])
    log.seal()
    log.compact()
    assert log.offsets()[:2] == [0, 2]


def test_the_end_of_a_segment_is_kept_when_its_last_record_goes() -> None:
    log = sealed([(b"a", b"1")], [(b"b", b"1")], [(b"a", b"2")])
    log.seal()
    log.append([(b"a", b"3")])
    log.seal()
    log.log.config = replace(BIG, segment_bytes=1)  # every segment for itself
    log.compact()
    header, _ = log.batches()[1]
    assert (header.base_offset, header.record_count) == (2, 0)
    assert [s.next_offset for s in log.log.segments[:-1]] == [
        s.base_offset for s in log.log.segments[1:]
    ]


def test_a_reader_is_never_given_nothing_but_batches_without_records() -> None:
    """librdkafka takes such an answer for a batch that is too large, and never gets beyond it."""
    log = sealed([(b"a", b"1")], [(b"b", b"1")])
    log.append([(b"a", b"2")])
    log.seal()
    log.append([(b"a", b"3"), (b"seal", b"x")])
    log.seal()
    log.log.config = replace(BIG, segment_bytes=1)  # every segment for itself
    log.compact()
    assert 0 in [header.record_count for header in log.headers()]
    there = [record.offset for record in log.records()]
    for offset in range(log.log.next_offset):
        found = bytes(log.log.read(offset, 1) or b"")
        offsets = [r.offset for at, _ in batches.scan(found) for r in records.decode(found, at)]
        assert next(each for each in there if each >= offset) in offsets


def test_what_was_compacted_before_is_compacted_again() -> None:
    log = sealed([(b"a", b"1"), (b"b", b"1")], [(b"c", b"1")])
    log.compact()
    log.append([(b"b", b"2")])
    log.seal()
    log.compact()
    assert log.offsets() == [0, 2, 3, 4, 5]
    assert log.table() == log.expected_table()


def test_a_segment_of_which_nothing_goes_is_not_replaced() -> None:
    log = sealed([(b"a", b"1")])
    segment = log.log.segments[0]
    result = log.compact()
    assert result.made == ()
    assert log.log.segments[0] is segment
    assert log.log.cleaned_offset == 1
    assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]


def test_small_segments_become_one() -> None:
    log = sealed([(b"a", b"1")])
    for n in range(5):
        log.append([(b"k%d" % n, b"1")])
        log.seal()
    log.compact()
    assert [segment.base_offset for segment in log.log.segments] == [0, 11]
    assert len([name for name in log.names() if name.endswith(".log")]) == 2


def test_compacted_segments_can_be_searched_by_offset_and_time() -> None:
    log = CompactedLog(BIG)
    for n in range(100):
        log.append([(b"k%d" % (n % 30), b"x" * 20)], timestamps=[NOW_MS + n])
    log.seal()
    log.compact()
    offsets = log.offsets()
    assert offsets == list(range(70, 101))
    for offset in range(101):
        data = log.log.read(offset, 1)
        assert batches.read_header(bytes(data or b"")).last_offset == max(offset, 70)
    assert [log.log.find_time(NOW_MS + n).offset for n in range(100)] == [  # type: ignore[union-attr]
        max(n, 70) for n in range(100)
    ]
    assert time_lookup.largest(log.log.segments[0]) == NOW_MS + 99


# ---- more keys than fit --------------------------------------------------------------------------


def test_with_too_many_keys_only_a_prefix_is_compacted() -> None:
    log = CompactedLog(replace(BIG, segment_bytes=1000))
    for n in range(60):
        log.append([(b"k%d" % (n % 20), b"%d" % n), (b"same", b"%d" % n)])
    log.seal()
    reached: list[int] = []
    while log.log.cleaned_offset < log.log.segments[-1].base_offset:
        result = log.compact(key_bytes_max=1500)
        assert result.cleaned_offset > (reached[-1] if reached else 0)
        reached.append(result.cleaned_offset)
        assert log.table() == log.expected_table()
    assert len(reached) > 3
    assert len(log.records()) < 30


@pytest.mark.parametrize("key_bytes_max", [1, 0, -1])
def test_one_batch_is_taken_however_small_the_memory(key_bytes_max: int) -> None:
    log = sealed([(b"a", b"1")], [(b"a", b"2")], [(b"a", b"3")])
    assert log.compact(key_bytes_max=key_bytes_max).cleaned_offset == 1


# ---- what can come in between --------------------------------------------------------------------


def test_the_result_is_dropped_when_retention_came_first() -> None:
    log = sealed([(b"a", b"1")], [(b"a", b"2")])
    log.append([(b"a", b"3")])
    log.seal()
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    log.log.drop_front(1)
    assert compaction.apply(log.log, plan, result) is None
    assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]
    assert log.log.cleaned_offset == 0


def test_the_result_is_dropped_when_its_files_are_not_those_that_were_made() -> None:
    log = sealed([(b"a", b"1")], [(b"a", b"2")])
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    log.files.write(FOLDER / "00000000000000000000.log.cleaned", b"")
    assert compaction.apply(log.log, plan, result) is None
    assert log.table() == log.expected_table()


def test_records_appended_meanwhile_are_there_afterwards() -> None:
    log = sealed([(b"a", b"1"), (b"a", b"2")])
    plan = log.plan()
    result = compaction.compact(log.files, FOLDER, plan)
    log.append([(b"a", b"3")])
    log.seal()
    assert compaction.apply(log.log, plan, result) is not None
    assert log.offsets() == [1, 2, 3, 4]


def test_a_reader_of_an_old_segment_can_finish() -> None:
    log = sealed([(b"a", b"1"), (b"a", b"2")])
    log.append([(b"b", b"1")])
    log.seal()
    log.log.close()
    log.open()
    old = list(log.log.segments[:-1])
    expected = [segment.files.read_bytes(segment.path(".log")) for segment in old]
    plan = log.plan()
    assert compaction.apply(log.log, plan, compaction.compact(log.files, FOLDER, plan)) == old
    assert [segment.file.read(0, segment.size) for segment in old] == expected
    assert lookup.position_of(old[0], 0, old[0].size) is not None


def test_a_damaged_segment_is_left_as_it_is_and_the_others_are_compacted() -> None:
    log = sealed([(b"a", b"1" * 50)], [(b"a", b"2" * 50)], [(b"a", b"3" * 50)])
    disk = log.files
    assert isinstance(disk, FaultyDisk)
    size = log.log.segments[0].size
    for position in (0, 5, 9, 16, 30, 70, size - 1):
        before = disk.read_bytes(FOLDER / "00000000000000000000.log")
        disk.flip_bit(FOLDER / "00000000000000000000.log", position, 6)
        result = compaction.compact(disk, FOLDER, log.plan())
        (sentence,) = result.damaged
        assert "is damaged at byte" in sentence
        assert [made.base_offset for made in result.made] == []
        assert result.reached_offset == log.plan().end_offset
        assert not [name for name in log.names() if name.endswith(".cleaned")]
        disk.flip_bit(FOLDER / "00000000000000000000.log", position, 6)
        assert disk.read_bytes(FOLDER / "00000000000000000000.log") == before
    log.compact()


def test_a_file_that_was_cut_is_reported() -> None:
    log = sealed([(b"a", b"1" * 50)], [(b"a", b"2" * 50)])
    log.files.open(FOLDER / "00000000000000000000.log").truncate(log.log.segments[0].size - 1)
    assert "is damaged at byte" in compaction.compact(log.files, FOLDER, log.plan()).damaged[0]


def test_what_lies_around_damage_is_compacted_and_nothing_that_it_needs_expires() -> None:
    log = CompactedLog()
    for pairs in (
        [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")],
        [(b"damaged", b"x" * 50), (b"deleted", b"1")],
        [(b"a", b"3"), (b"a", b"4"), (b"deleted", None)],
    ):
        log.append(pairs)
        log.seal()
    disk = log.files
    assert isinstance(disk, FaultyDisk)
    bases = [segment.base_offset for segment in log.log.segments]
    path = FOLDER / f"{bases[1]:020d}.log"
    disk.flip_bit(path, 90, 3)
    damaged = disk.read_bytes(path)
    for _ in range(3):
        log.now_ms += 10_000_000
        log.append([(b"other", b"1")])
        log.seal()
        assert len(log.compact().damaged) <= 1
    assert disk.read_bytes(path) == damaged
    found = [
        (record.key, record.value)
        for segment in log.log.segments
        if segment.base_offset != bases[1]
        for position, _ in segment.headers(0, segment.size, checked=True)
        for record in records.decode(segment.file.read(0, segment.size), position)
    ]
    assert [value for key, value in found if key == b"a"] == [b"4"]
    assert (b"deleted", None) in found, "it still has something to say"


def test_nothing_is_compacted_while_an_earlier_exchange_is_unfinished() -> None:
    log = sealed([(b"a", b"1"), (b"a", b"2")])
    log.files.write(FOLDER / "00000000000000000000.log.swap", b"")
    with pytest.raises(compaction.CannotCompact):
        compaction.compact(log.files, FOLDER, log.plan())


def test_a_result_survives_the_way_back() -> None:
    result = sealed([(b"a", b"1"), (b"a", b"2")]).compact()
    assert result.made
    assert Result.from_json(result.to_json()) == result


def test_compressed_records_are_compressed_again() -> None:
    log = CompactedLog(BIG)
    log.append([(b"k%d" % (n % 50), b"x" * 100) for n in range(100)], codec=codecs.ZSTD)
    log.seal()
    result = log.compact()
    assert result.bytes_kept < 600
    assert log.batches()[0][0].codec == codecs.ZSTD
