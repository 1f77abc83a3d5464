"""Tombstones, producers and transactions: what compaction keeps for a while, and why.

Times in these tests: delete.retention.ms is 1000.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from headwater.log.producers import FencedEpoch, OutOfOrderSequence
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.records import Record

from .compacted import CONFIG, FOLDER, NOW_MS, CompactedLog

BIG = replace(CONFIG, segment_bytes=1 << 20)
ABORTED = struct.Struct(">hqqqq")


def again(log: CompactedLog, later_ms: int) -> None:
    """Make the log a little dirty, and compact it that much later."""
    log.now_ms += later_ms
    log.seal()
    log.compact()


# ---- tombstones ----------------------------------------------------------------------------------


def test_a_tombstone_deletes_at_once_and_goes_after_its_time() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"1"), (b"b", b"1"), (b"a", None)])
    again(log, 0)
    assert log.offsets()[:2] == [1, 2]
    again(log, 999)
    assert log.offsets()[:2] == [1, 2]
    again(log, 1)
    assert log.offsets()[0] == 1
    assert 2 not in log.offsets()
    assert log.table() == log.expected_table()


def test_the_time_of_a_tombstone_begins_when_it_is_first_compacted() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", None)])
    log.now_ms += 10**9
    again(log, 0)
    again(log, 999)
    assert 0 in log.offsets()
    again(log, 1)
    assert 0 not in log.offsets()


@pytest.mark.parametrize("codec", range(5))
def test_the_delete_horizon_takes_the_base_timestamps_place(codec: int) -> None:
    log = CompactedLog(BIG)
    log.append(
        [(b"a", None), (b"b", b"1"), (b"a", None), (b"c", b"1")],
        codec=codec,
        producer=(4, 1, 10),
        timestamps=[NOW_MS, NOW_MS + 7, NOW_MS + 3, NOW_MS - 50],
    )
    before = log.batches()[0][0]
    again(log, 0)
    header, data = log.batches()[0]
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + 1000
    assert records.decode(data) == [log.written[n] for n in (1, 2, 3)]
    same = ["base_offset", "last_offset_delta", "codec", "max_timestamp", "leader_epoch"]
    same += ["producer_id", "producer_epoch", "base_sequence", "is_transactional"]
    assert [getattr(header, name) for name in same] == [getattr(before, name) for name in same]
    again(log, 500)
    assert log.batches()[0] == (header, data)
    again(log, 500)
    header, data = log.batches()[0]
    assert header.base_timestamp == NOW_MS + 1000
    assert records.decode(data) == [log.written[n] for n in (1, 3)]


@pytest.mark.parametrize("retention_ms", [1000, 2**63 - 1])
@pytest.mark.parametrize("timestamps", [(-1, 5), (-1000, 5), (-(2**62), 5), (-(2**63), -(2**62))])
def test_a_tombstone_that_is_too_old_for_a_horizon_stays_readable(
    timestamps: tuple[int, int], retention_ms: int
) -> None:
    """A delta of more than 64 bits from the horizon could not be read again by anybody."""
    log = CompactedLog(replace(BIG, delete_retention_ms=retention_ms))
    found = [Record(n, at, b"%d" % n, None) for n, at in enumerate(timestamps)]
    log.store(records.build(found, base_timestamp=timestamps[1] if timestamps[0] < -1000 else None))
    again(log, 0)
    again(log, 0)
    assert [record.timestamp for record in log.records()][:2] == list(timestamps)


def test_the_append_time_survives_a_delete_horizon() -> None:
    log = CompactedLog(BIG)
    data = records.build([Record(0, 5, b"a", b"1"), Record(1, 6, b"b", None)])
    log.store(batches.with_append_time(data, NOW_MS))
    again(log, 0)
    assert [r.timestamp for r in log.records()][:2] == [NOW_MS, NOW_MS]


def test_a_tombstone_kept_for_ever_does_not_overflow() -> None:
    log = CompactedLog(replace(BIG, delete_retention_ms=2**63 - 1))
    log.append([(b"a", None)])
    again(log, 0)
    again(log, 10**12)
    assert log.records()[0] == log.written[0]


def test_a_deleted_key_that_comes_back_stays() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"1")])
    log.append([(b"a", None)])
    again(log, 0)
    log.append([(b"a", b"2")])
    again(log, 5000)
    assert log.table() == log.expected_table()
    assert 1 not in log.offsets()


# ---- producers -----------------------------------------------------------------------------------


def forget_snapshots(log: CompactedLog) -> None:
    for name in log.names():
        if name.endswith(".snapshot"):
            log.files.remove(FOLDER / name)


def test_a_producer_is_still_known_when_all_its_records_are_gone() -> None:
    log = CompactedLog(BIG)
    first = log.append([(b"a", b"1"), (b"b", b"1")], producer=(7, 2, 0))
    last = log.append([(b"a", b"2"), (b"b", b"2")], producer=(7, 2, 2))
    log.append([(b"a", b"3"), (b"b", b"3")])
    again(log, 0)
    assert [header.record_count for header, _ in log.batches()] == [0, 2, 1]
    again(log, 0)
    log.log.close()
    forget_snapshots(log)
    log.open()
    stored = log.log.check_producer(last)
    assert stored is not None and (stored.base_offset, stored.last_offset) == (2, 3)
    following = last._replace(base_sequence=4)
    assert log.log.check_producer(following) is None
    with pytest.raises(OutOfOrderSequence):
        log.log.check_producer(last._replace(base_sequence=5))
    with pytest.raises(OutOfOrderSequence):  # its batch is gone: no longer known as a retry
        log.log.check_producer(first)


def test_the_batch_of_a_forgotten_producer_goes() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"1")], producer=(7, 2, 0))
    log.append([(b"a", b"2")])
    log.log.producers.expire(log.now_ms + 1)
    again(log, 0)
    assert [header.producer_id for header, _ in log.batches()] == [-1, -1]


# ---- transactions --------------------------------------------------------------------------------


def end(log: CompactedLog, kind: int, producer: int, epoch: int = 0) -> int:
    """Write a marker, as the transaction coordinator will; returns its offset."""
    data = control.marker(kind, producer, epoch, 0, log.now_ms, 0)
    log.store(data)
    offset = log.log.next_offset - 1
    del log.written[offset]
    return offset


def markers(log: CompactedLog) -> list[int]:
    return [h.base_offset for h, _ in log.batches() if h.is_control and h.record_count]


@pytest.mark.parametrize("further", [0, 1])
def test_an_aborted_value_replaces_nothing_though_its_marker_lies_behind_the_plan(
    further: int,
) -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"good")])
    log.append([(b"a", b"never")], producer=(7, 0, 0), transactional=True)
    for _ in range(further + 1):
        log.seal()
    marker = end(log, control.ABORT, 7)
    assert log.files.read_bytes(log.log.active.path(".txnindex")) is None
    log.compact()
    assert log.table()[b"a"] == b"good"
    assert [(each.first_offset, each.last_offset) for each in log.log.aborted_between(0, 99)] == [
        (1, marker)
    ]


def test_the_list_of_aborted_transactions_is_kept_though_its_file_was_never_written() -> None:
    """As a full disk leaves it: what is not compacted yet must still not be served."""
    log = CompactedLog(BIG)
    for number in range(4):
        log.append([(b"%d" % number * 100, b"never")], producer=(7, 0, number), transactional=True)
    end(log, control.ABORT, 7)
    before = log.log.aborted_between(0, 99)
    log.seal()
    log.files.remove(FOLDER / "00000000000000000000.txnindex")
    log.append([(b"k", b"v")])
    log.compact(key_bytes_max=1)
    assert log.log.aborted_between(0, 99) == before
    log.log.close()
    log.open()
    assert log.log.aborted_between(0, 99) == before


def test_a_marker_stays_while_its_transaction_had_data_and_then_for_its_time() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"1")], producer=(7, 0, 0), transactional=True)
    marker = end(log, control.COMMIT, 7)
    log.append([(b"x", b"1")], producer=(7, 0, 1), transactional=True)
    end(log, control.COMMIT, 7)
    log.append([(b"a", b"2")])
    again(log, 0)
    assert marker in markers(log)  # the data was still to be seen this time
    again(log, 0)
    assert log.batches()[0][0].has_delete_horizon
    again(log, 999)
    assert marker in markers(log)
    again(log, 1)
    assert marker not in markers(log)
    assert len(markers(log)) == 1  # its data is still there


def test_the_last_marker_of_a_producer_stays_without_its_record() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"1")], producer=(7, 0, 0), transactional=True)
    end(log, control.COMMIT, 7, epoch=1)  # KIP-890: the marker carries the next epoch
    log.append([(b"a", b"2")])
    for later_ms in (0, 0, 1000, 0):
        again(log, later_ms)
    assert markers(log) == []
    header = log.batches()[0][0]
    assert (header.is_control, header.producer_epoch, header.record_count) == (True, 1, 0)
    log.log.close()
    forget_snapshots(log)
    log.open()
    assert log.table() == log.expected_table()
    with pytest.raises(FencedEpoch):
        log.log.check_producer(header._replace(attributes=0, producer_epoch=0, base_sequence=1))


def test_records_of_an_aborted_transaction_go_and_replace_nothing() -> None:
    log = CompactedLog(BIG)
    log.append([(b"a", b"good")])
    log.append([(b"a", b"never")], producer=(7, 0, 0), transactional=True)
    marker = end(log, control.ABORT, 7)
    log.append([(b"b", b"1")], producer=(8, 0, 0), transactional=True)
    end(log, control.COMMIT, 8)
    row = ABORTED.pack(0, 7, 1, marker, marker + 1)

    log.seal()
    log.compact()
    assert log.offsets()[0] == 0
    assert 1 not in log.offsets()
    assert marker in markers(log)
    assert log.files.read_bytes(FOLDER / "00000000000000000000.txnindex") == row
    for later_ms in (0, 1000, 0):
        log.now_ms += later_ms
        log.seal()
        log.compact()
    # Their batch is kept, empty, for the producer's sequence: without the marker the transaction
    # would count as open after a restart.
    assert marker in markers(log)
    log.log.producers.expire(log.now_ms + 1)
    for later_ms in (0, 0, 1000):
        log.now_ms += later_ms
        log.seal()
        log.compact()
    assert marker not in markers(log)
    assert log.files.read_bytes(FOLDER / "00000000000000000000.txnindex") == b""
