"""Idempotent producers: a retry is stored once, a gap is refused, an old incarnation is fenced."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from headwater.log import producers as module
from headwater.log.producers import (
    BATCHES_KEPT,
    PRODUCER_BYTES,
    SILENT_MS,
    FencedEpoch,
    OutOfOrderSequence,
    Producers,
    Stored,
    TooManyProducers,
)
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import BatchHeader

from .plain import NOW_MS, batch_of


def header(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, transactional: bool = False
) -> BatchHeader:
    data = batch_of(
        *[b"v"] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return batches.read_header(data)


def after(*stored: BatchHeader) -> Producers:
    """The state after these batches, one behind the other from offset 0."""
    producers, offset = Producers(), 0
    for one in stored:
        assert producers.check(one) is None
        producers.update(one, offset)
        offset += one.record_count
    return producers


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Producers().check(header(0)) is None
    assert Producers().check(header(500)) is None


def test_a_retry_is_recognised_with_its_offsets() -> None:
    producers = after(header(0, 3), header(3, 2))
    assert producers.check(header(0, 3)) == Stored(0, 2, 0, 2, NOW_MS)
    assert producers.check(header(3, 2)) == Stored(3, 4, 3, 4, NOW_MS)


def test_as_many_batches_are_remembered_as_may_be_in_flight() -> None:
    producers = after(*[header(n) for n in range(BATCHES_KEPT + 1)])
    for n in range(1, BATCHES_KEPT + 1):
        assert producers.check(header(n)) is not None
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(0))


@pytest.mark.parametrize("sequence", [0, 4, 6, 100])
def test_a_sequence_that_does_not_follow_is_refused(sequence: int) -> None:
    producers = after(header(0, 5))
    with pytest.raises(OutOfOrderSequence, match=f"sequence {sequence} after 4"):
        producers.check(header(sequence))


def test_sequences_begin_again_after_the_largest() -> None:
    producers = after(header(2**31 - 2, 2))
    assert producers.check(header(0)) is None
    producers.update(header(0), 2)
    assert producers.check(header(2**31 - 2, 2)) is not None
    around = after(header(2**31 - 1, 3))
    assert around.check(header(2)) is None


def test_a_newer_epoch_begins_at_zero_and_fences_the_older() -> None:
    producers = after(header(0), header(1))
    with pytest.raises(OutOfOrderSequence, match="instead of 0"):
        producers.check(header(5, epoch=1))
    assert producers.check(header(0, epoch=1)) is None
    producers.update(header(0, epoch=1), 2)
    with pytest.raises(FencedEpoch, match="epoch 1"):
        producers.check(header(2, epoch=0))


def test_producers_do_not_disturb_one_another() -> None:
    producers = after(header(0, producer=1), header(0, producer=2), header(1, producer=1))
    assert producers.check(header(1, producer=2)) is None
    assert producers.check(header(2, producer=1)) is None


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    producers = after(header(0), header(1, transactional=True), header(2, transactional=True))
    assert producers.first_open_offset() == 1
    end = control.marker(control.COMMIT, 7, 0, 3, NOW_MS, coordinator_epoch=9)
    assert producers.end_transaction(batches.read_header(end), 9) == 1
    assert producers.first_open_offset() is None
    assert producers.check(header(3)) is None, "the marker has no sequence"


def test_the_oldest_open_transaction_counts() -> None:
    first = header(0, producer=1, transactional=True)
    second = header(0, producer=2, transactional=True)
    producers = after(first, second)
    end = control.marker(control.ABORT, 1, 0, 2, NOW_MS, coordinator_epoch=0)
    producers.end_transaction(batches.read_header(end), 0)
    assert producers.first_open_offset() == 1


def test_silent_producers_are_forgotten_but_not_in_a_transaction() -> None:
    producers = after(header(0, producer=1), header(0, producer=2, transactional=True))
    producers.expire(NOW_MS)
    assert set(producers.by_id) == {1, 2}
    producers.expire(NOW_MS + 1)
    assert set(producers.by_id) == {2}


def test_a_producer_is_not_forgotten_for_writing_of_old_times() -> None:
    producers = Producers()
    old = batches.read_header(
        batch_of(b"v", timestamp=5, producer_id=1, producer_epoch=0, base_sequence=0)
    )
    producers.update(old, 0, NOW_MS)
    producers.expire(NOW_MS)
    assert set(producers.by_id) == {1}


# ---- snapshots -------------------------------------------------------------------------------


def test_a_snapshot_is_laid_out_as_kafkas() -> None:
    data = after(header(0, 3, producer=5, epoch=2)).to_bytes()
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 5, 2, 2, 2, 2, NOW_MS, -1, -1)
    assert data == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_remembers_the_last_batch_of_each_producer() -> None:
    producers = after(header(0, 3), header(3, 2), header(0, producer=8, transactional=True))
    found = Producers.from_bytes(producers.to_bytes())
    assert found is not None
    assert found.check(header(3, 2)) == Stored(3, 4, 3, 4, NOW_MS)
    assert found.check(header(5)) is None
    assert found.first_open_offset() == 5
    with pytest.raises(OutOfOrderSequence):
        found.check(header(6))


def test_a_snapshot_of_a_batch_whose_sequences_wrapped_finds_it_again() -> None:
    around = header(2**31 - 1, 3)
    found = Producers.from_bytes(after(around).to_bytes())
    assert found is not None
    assert found.check(around) is not None


def test_an_epoch_without_batches_survives_in_a_snapshot() -> None:
    producers = after(header(0, transactional=True))
    end = control.marker(control.ABORT, 7, 5, 1, NOW_MS, coordinator_epoch=3)
    producers.end_transaction(batches.read_header(end), 3)
    found = Producers.from_bytes(producers.to_bytes())
    assert found is not None
    with pytest.raises(FencedEpoch):
        found.check(header(1, epoch=4))
    assert found.by_id[7].coordinator_epoch == 3


def test_a_damaged_snapshot_is_not_believed() -> None:
    data = after(header(0), header(0, producer=2)).to_bytes()
    assert Producers.from_bytes(data) is not None
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 1
        assert Producers.from_bytes(bytes(broken)) is None
    for cut in range(len(data)):
        assert Producers.from_bytes(data[:cut]) is None
    assert Producers.from_bytes(data + b"\0") is None


@given(st.binary(max_size=150))
def test_any_bytes_are_a_snapshot_or_none(data: bytes) -> None:
    Producers.from_bytes(data)
    Producers.from_bytes(struct.pack(">hI", 1, crc32c(data)) + data)


# ---- bounds ----------------------------------------------------------------------------------


def test_a_new_producer_waits_while_all_may_still_repeat_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 3)
    producers = Producers()
    for number in range(3):
        producers.admit(number, NOW_MS + number)
        producers.update(header(0, producer=number), number, NOW_MS + number)
    with pytest.raises(TooManyProducers):
        producers.admit(99, NOW_MS + SILENT_MS)
    producers.admit(1, NOW_MS + SILENT_MS)  # one that is known
    producers.admit(99, NOW_MS + SILENT_MS + 1)
    assert set(producers.by_id) == {1, 2}, "the oldest went"


def test_a_producer_in_a_transaction_is_never_forgotten_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 2)
    producers = Producers()
    for number in range(2):
        producers.update(header(0, producer=number, transactional=True), number, NOW_MS)
    with pytest.raises(TooManyProducers):
        producers.admit(99, NOW_MS + 10 * SILENT_MS)
    end = control.marker(control.COMMIT, 0, 0, 2, NOW_MS, coordinator_epoch=0)
    producers.end_transaction(batches.read_header(end), 0, 2, NOW_MS)
    producers.admit(99, NOW_MS + 11 * SILENT_MS)
    assert set(producers.by_id) == {1}


def test_all_partitions_together_have_a_bound() -> None:
    one, other = Producers(), Producers()
    other.census = one.census
    one.census.most = lambda: 4
    for number in range(2):
        one.update(header(0, producer=number), number, NOW_MS)
        other.update(header(0, producer=number), number, NOW_MS)
    with pytest.raises(TooManyProducers):
        other.admit(99, NOW_MS)
    one.expire(NOW_MS + 1)
    assert one.census.count == 2
    other.admit(99, NOW_MS)


def test_a_producer_takes_as_many_bytes_as_are_counted_for_it() -> None:
    producers = Producers()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(2000):
        for batch in range(2 * BATCHES_KEPT):
            sent = header(batch * 1000, 10, producer=10**9 + number)
            producers.update(sent, 10**12 + batch * 1000 + number, NOW_MS + number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 2000 * PRODUCER_BYTES * 1.1


def test_a_log_with_more_producers_than_the_bound_is_replayed_within_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 10)
    producers = after(*(header(0, producer=number) for number in range(1000)))
    assert 10 <= len(producers.by_id) <= 20
    assert 999 in producers.by_id


def test_markers_for_producers_that_nobody_knows_take_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 10)
    producers = Producers()
    for number in range(100):
        end = control.marker(control.ABORT, number, 0, number, NOW_MS, coordinator_epoch=0)
        assert producers.end_transaction(batches.read_header(end), 0, number, NOW_MS) == -1
    assert len(producers.by_id) == 10


def test_a_producer_that_writes_of_the_future_is_forgotten_in_its_time() -> None:
    future = batches.read_header(
        batch_of(b"v", timestamp=10 * NOW_MS, producer_id=1, producer_epoch=0, base_sequence=0)
    )
    written, replayed = Producers(), Producers()
    written.update(future, 0, NOW_MS)
    written.expire(NOW_MS + 1)
    replayed.update(future, 0)
    replayed.expire(NOW_MS, NOW_MS)
    assert set(replayed.by_id) == {1}
    replayed.expire(NOW_MS + 1, NOW_MS + 1)
    replayed.expire(NOW_MS + 2, NOW_MS + 2)
    assert not written.by_id and not replayed.by_id


def test_a_clock_that_was_set_back_shuts_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 1)
    producers = Producers()
    producers.admit(7, NOW_MS)
    producers.update(header(0), 0, NOW_MS)
    with pytest.raises(TooManyProducers):
        producers.admit(8, NOW_MS)
    earlier_ms = NOW_MS - 365 * 24 * 3600 * 1000
    with pytest.raises(TooManyProducers):
        producers.admit(8, earlier_ms)
    producers.admit(8, earlier_ms + SILENT_MS + 1)
