"""Aborted transactions: the file beside a segment, who is told of them, and what crashes leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log import aborted_transactions
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.errors import CorruptBatch
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

FOLDER = Path("/t-0")
NOW_MS = 1_700_000_000_000


def opened(disk: FaultyDisk) -> PartitionLog:
    disk.make_dir(FOLDER)
    return open_partition(disk, FOLDER, LogConfig(segment_bytes=10_000), NOW_MS)[0]


def write(log: PartitionLog, producer: int, sequence: int = 0, epoch: int = 0) -> int:
    data = records.build(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return log.stage(data, batches.read_header(data), NOW_MS)


def end(log: PartitionLog, producer: int, kind: int, epoch: int = 0) -> int:
    data = control.marker(kind, producer, epoch, 0, NOW_MS, 0)
    return log.stage(data, batches.read_header(data), NOW_MS)


def found(log: PartitionLog, first: int = 0, last: int = 10**6) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in log.aborted_between(first, last)]


def test_readers_of_committed_data_are_not_sent_before_the_start() -> None:
    """A transaction is open whose first records were deleted: the latest offset is the earliest then."""
    log = opened(FaultyDisk())
    for sequence in range(4):
        write(log, 1, sequence)
    log.flush()
    log.delete_before(3)
    assert log.start_offset == log.last_stable_offset() == 3
    end(log, 1, control.COMMIT)
    log.flush()
    assert log.last_stable_offset() == 5


# ---- the file ------------------------------------------------------------------------------------


def test_entries_come_back_as_they_went() -> None:
    entries = [AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2**40, 3, 9, 10)]
    data = aborted_transactions.pack(entries)
    assert len(data) == 2 * aborted_transactions.ENTRY_BYTES == 68
    assert aborted_transactions.unpack(data, 0) == entries


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_raise(data: bytes) -> None:
    try:
        assert aborted_transactions.pack(aborted_transactions.unpack(data, 0)) == data
    except CorruptBatch:
        pass


@pytest.mark.parametrize(
    "entries",
    [
        [AbortedTransaction(1, 9, 5, 6)],  # ends before it begins
        [AbortedTransaction(1, 0, 5, 6), AbortedTransaction(1, 1, 5, 6)],  # two for one marker
        [AbortedTransaction(1, 0, 5, 6), AbortedTransaction(1, 1, 2, 6)],  # out of order
    ],
)
def test_what_cannot_be_is_refused(entries: list[AbortedTransaction]) -> None:
    with pytest.raises(CorruptBatch):
        aborted_transactions.unpack(aborted_transactions.pack(entries), 0)


# ---- who is told ---------------------------------------------------------------------------------


def test_a_reader_is_told_of_those_that_its_offsets_touch() -> None:
    """
    offset     0  1  2  3  4  5  6  7
    producer 7 x     x  A
    producer 8    x        C
    producer 7                x     A
    producer 9                   x      (open)
    """
    log = opened(FaultyDisk())
    write(log, 7)
    write(log, 8)
    write(log, 7, 1)
    end(log, 7, control.ABORT)
    end(log, 8, control.COMMIT)
    write(log, 7, 2)
    write(log, 9)
    end(log, 7, control.ABORT)
    log.flush()
    assert found(log) == [(7, 0), (7, 5)]
    assert found(log, 0, 5) == [(7, 0)]
    assert found(log, 4, 6) == [(7, 5)]
    assert found(log, 3, 4) == [(7, 0)]
    assert log.last_stable_offset() == 6


def test_an_abort_of_nothing_is_no_entry() -> None:
    log = opened(FaultyDisk())
    end(log, 7, control.ABORT)
    log.flush()
    assert found(log) == []


def test_a_transaction_counts_as_open_until_its_marker_is_durable() -> None:
    log = opened(FaultyDisk())
    write(log, 7)
    write(log, 8)
    log.flush()
    assert log.last_stable_offset() == 0
    end(log, 7, control.COMMIT)
    commit = log.take()
    assert commit is not None
    end(log, 8, control.COMMIT)
    commit.run()
    assert log.last_stable_offset() == 0
    log.finish(commit)
    assert log.last_stable_offset() == 1
    log.flush()
    assert log.last_stable_offset() == 4


def test_what_becomes_durable_meanwhile_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked in another thread: a transaction may have begun between two looks at the end."""
    log = opened(FaultyDisk())
    write(log, 7)
    end(log, 7, control.COMMIT)
    log.flush()
    durable = iter(range(2, 100))
    monkeypatch.setattr(
        PartitionLog, "durable_offset", property(lambda _: next(durable)), raising=False
    )
    assert log.last_stable_offset() == 2


# ---- after a crash -------------------------------------------------------------------------------


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_aborted_and_open_transactions_are_known_after_a_start(rolled: bool, clean: bool) -> None:
    disk = FaultyDisk()
    log = opened(disk)
    write(log, 7)
    write(log, 8)
    end(log, 7, control.ABORT)
    if rolled:
        log.roll(NOW_MS)
    write(log, 9)
    end(log, 9, control.ABORT)
    log.flush()
    if clean:
        log.close()
    log = opened(disk.copy() if clean else disk.crash(1))
    assert found(log) == [(7, 0), (9, 3)]
    assert log.last_stable_offset() == 1
    assert list(log.producers.open_transactions) == [8]


def test_markers_that_a_crash_took_leave_no_entry() -> None:
    disk = FaultyDisk()
    log = opened(disk)
    write(log, 7)
    log.roll(NOW_MS)
    log.flush()
    end(log, 7, control.ABORT)
    log.roll(NOW_MS)  # its list would be saved with the snapshot
    commit = log.take()
    assert commit is not None
    for outcome in range(20):
        left = opened(disk.crash(outcome))
        marked = left.next_offset == 2
        assert found(left) == ([(7, 0)] if marked else [])
        assert left.last_stable_offset() == (2 if marked else 0)


def test_a_damaged_list_is_made_anew_from_the_log() -> None:
    disk = FaultyDisk()
    log = opened(disk)
    write(log, 7)
    end(log, 7, control.ABORT)
    log.roll(NOW_MS)
    write(log, 8)
    end(log, 8, control.ABORT)
    log.flush()
    log.close()
    disk.write(FOLDER / f"{0:020d}.txnindex", b"rubbish")
    log = opened(disk)
    assert found(log) == [(7, 0), (8, 2)]
    assert (
        len(disk.read_bytes(FOLDER / f"{0:020d}.txnindex") or b"")
        == aborted_transactions.ENTRY_BYTES
    )


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("base", [0, 2])
@pytest.mark.parametrize("harm", ["removed", "emptied", "altered"])
def test_a_list_that_somebody_has_taken_away_or_altered_is_made_anew_from_the_log(
    base: int, harm: str, clean: bool
) -> None:
    disk = FaultyDisk()
    log = opened(disk)
    for producer in (7, 8, 9):
        write(log, producer)
        end(log, producer, control.ABORT)
        log.roll(NOW_MS)
    write(log, 10)
    log.flush()
    if clean:
        log.close()
    path = FOLDER / f"{base:020d}.txnindex"
    data = bytearray(disk.read_bytes(path) or b"")
    assert data
    disk.remove(path)
    if harm != "removed":
        data[9] ^= 1  # the producer's id
        disk.write(path, bytes(data) if harm == "altered" else b"")
    log = opened(disk)
    assert found(log) == [(7, 0), (8, 2), (9, 4)]
    log = opened(disk)
    assert found(log) == [(7, 0), (8, 2), (9, 4)]


@given(st.binary(max_size=60) | st.text("0123456789 \n", max_size=60).map(str.encode))
def test_any_checksums_parse_or_are_none(data: bytes) -> None:
    aborted_transactions.unpack_checksums(data)


def test_checksums_come_back_as_they_went() -> None:
    sums = {
        0: aborted_transactions.checksum(b""),
        7: aborted_transactions.checksum(b"x" * 34),
        10**15: aborted_transactions.checksum(b"y"),
    }
    assert aborted_transactions.unpack_checksums(aborted_transactions.pack_checksums(sums)) == sums


# ---- offsets that no checksum covers -------------------------------------------------------------


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("bit", [0, 1, 5, 10, 40, 62])
def test_a_wrong_bit_in_a_base_offset_hides_no_other_transaction(number: int, bit: int) -> None:
    """After a kill the log is read for its producers. An abort was believed to lie where its marker said, and
    everything that its producer has committed since was left out by those who read on behind it.

        0 1 abort   3 4 commit   6 7 (open)
    """
    disk = FaultyDisk()
    log = opened(disk)
    for kind in (control.ABORT, control.COMMIT, None):
        write(log, 1, log.next_offset)
        write(log, 1, log.next_offset)
        if kind is not None:
            end(log, 1, kind)
    log.flush()
    stable = log.last_stable_offset()
    disk = disk.kill()
    path = FOLDER / "00000000000000000000.log"
    data = disk.read_bytes(path) or b""
    position = [at for at, _ in batches.scan(data)][number]
    disk.flip_bit(path, position + 7 - bit // 8, bit % 8)

    log = opened(disk)
    assert found(log, 0, 2) == [(1, 0)]
    assert found(log, 3) == []
    assert log.last_stable_offset() == stable == 6


# ---- damaged markers -----------------------------------------------------------------------------


def test_one_wrong_bit_in_a_marker_changes_nothing_for_readers_after_a_kill() -> None:
    """What it ended would be ended by the producer's next marker: an abort would hide what was committed,
    a commit show what was aborted."""
    disk = FaultyDisk()
    log = opened(disk)
    for number, kind in enumerate((control.COMMIT, control.ABORT, control.COMMIT, control.ABORT)):
        for producer in (1, 2):
            write(log, producer, number)
        end(log, 1, kind)
        end(log, 2, control.COMMIT - kind)
        log.flush()
    killed, path = disk.kill(), FOLDER / f"{0:020d}.log"
    whole = log.aborted_between(0, 100), log.last_stable_offset(), log.next_offset
    data = killed.read_bytes(path) or b""
    for position, header in batches.scan(data):
        is_looked_at = header.is_control and header.base_offset < 8  # one of each kind and producer
        for bit in range(header.size * 8 if is_looked_at else 0):
            damaged = bytearray(data)
            damaged[position + bit // 8] ^= 1 << bit % 8
            again = killed.copy()
            again.write_atomic(path, bytes(damaged))
            log = opened(again)
            found = log.aborted_between(0, 100), log.last_stable_offset(), log.next_offset
            assert found == whole, f"bit {bit} of the marker at offset {header.base_offset}"
