"""Very many aborted transactions, or batches: what is asked of them is found without a look at all of them.

A megabyte may hold 7,000 aborted transactions of one producer, or 15,000 batches, and a segment a thousand
times as many. Reading and compaction ask for every batch, reading while the event loop waits. Work is
counted in lines of Python, which says the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log import aborted_list, aborted_transactions, partition_reader
from headwater.log.aborted_list import BLOCK, AbortedList
from headwater.log.aborted_transactions import AbortedTransaction
from headwater.log.allowance import Allowance, TooMuch
from headwater.log.compaction_plan import Source
from headwater.log.config import LogConfig
from headwater.log.excision import Selection, Work
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.batch import BatchHeader
from headwater.record.records import Record
from headwater.testing.faulty_disk import FaultyDisk

FOLDER = Path("/t-0")
FEW, MANY = 50, 800
STEPS_MAX = 60
"""More than twice what one question takes."""

SPANS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 40), st.integers(0, 8)), max_size=12)
"""Producer, first offset, length: also such as overlap, which a guess about a lost segment may."""


def header(producer_id: int, base_offset: int) -> BatchHeader:
    data = records.build(
        [Record(base_offset, 1, b"k", b"v")],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    return batches.read_header(data)


def steps(work: Callable[[], object]) -> int:
    """Lines that are run, loops inside expressions included."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event in ("call", "line")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@given(SPANS, st.integers(1, 4), st.integers(0, 50))
def test_a_batch_is_aborted_if_any_transaction_says_so(
    spans: list[tuple[int, int, int]], producer_id: int, offset: int
) -> None:
    entries = [AbortedTransaction(who, first, first + size, first) for who, first, size in spans]
    is_aborted = aborted_transactions.among(entries)(header(producer_id, offset))
    assert is_aborted == any(
        each.producer_id == producer_id and each.first_offset <= offset < each.last_offset
        for each in entries
    )


def one_after_another(count: int) -> list[AbortedTransaction]:
    """Of one producer: a record and its marker, again and again."""
    return [AbortedTransaction(7, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(count)]


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_batch_costs_the_same_however_many_transactions_were_aborted(where: float) -> None:
    is_aborted = aborted_transactions.among(one_after_another(MANY))
    asked = header(7, 2 * int(where * (MANY - 1)))
    assert is_aborted(asked)
    assert steps(lambda: is_aborted(asked)) < STEPS_MAX


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_read_costs_the_same_however_many_transactions_were_aborted_before_it(
    where: float,
) -> None:
    entries = one_after_another(MANY)
    first = 2 * int(where * (MANY - 1))
    found = aborted_list.between([AbortedList(entries)], first, first + 1)
    assert found == [entries[first // 2]]
    work = lambda: aborted_list.between([AbortedList(entries)], first, first + 1)  # noqa: E731
    assert steps(work) < STEPS_MAX


def beside_a_long_one(count: int) -> AbortedList:
    """The transaction that began at 0 has not ended: the stable offset stays there."""
    return AbortedList(each._replace(last_stable_offset=0) for each in one_after_another(count))


def test_a_read_costs_little_however_many_transactions_were_aborted_beside_a_long_one() -> None:
    counted = []
    for count in (2 * BLOCK, 20 * BLOCK):
        entries = beside_a_long_one(count)
        work = lambda: aborted_list.between([entries], 100, 102)  # noqa: B023, E731
        assert work() == [entries[50]]
        counted.append(steps(work))
    assert counted[1] - counted[0] < 18 * STEPS_MAX, "more than a look at each block"
    with pytest.raises(TooMuch):
        aborted_list.between([beside_a_long_one(20 * BLOCK)], 100, 102, Allowance())
    aborted_list.between([entries], 100, 102, Allowance())


@given(SPANS, st.integers(0, 50), st.integers(0, 50), st.integers(0, 12))
def test_what_a_piece_of_the_log_touches_is_found_whatever_the_blocks(
    spans: list[tuple[int, int, int]], first: int, end: int, known: int
) -> None:
    ends = sorted({start + size: (who, start) for who, start, size in spans}.items())
    stable = [min((s for _, (_, s) in ends[n + 1 :]), default=99) for n in range(len(ends))]
    made = [
        AbortedTransaction(who, start, last, min(last + 1, stable[n]))
        for n, (last, (who, start)) in enumerate(ends)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aborted_list, "BLOCK", 2)
        entries = AbortedList(made[:known])
        aborted_list.between([entries], first, end)
        entries += made[known:]
        found = aborted_list.between([entries], first, end)
    assert found == [e for e in made if e.last_offset >= first and e.first_offset < end]


def filled(count: int, aborts: bool) -> PartitionLog:
    disk = FaultyDisk()
    disk.make_dir(FOLDER)
    log = open_partition(disk, FOLDER, LogConfig(), 1)[0]
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    for number in range(count):
        record = [Record(0, 1, b"k", b"v")]
        data = records.build(record, base_sequence=number, **producer) if aborts else None
        data = data or records.build(record)
        log.stage(data, batches.read_header(data), 1)
    if aborts:
        marker = control.marker(control.ABORT, 7, 0, 0, 1, 0)
        log.stage(marker, batches.read_header(marker), 1)
    log.flush()
    return log


def test_batches_are_not_looked_through_where_nothing_was_aborted() -> None:
    counted = []
    for count in (FEW, MANY):
        log = filled(count, aborts=False)
        end = log.last_stable_offset()
        data = log.read(0, 1 << 20, upper=end)
        assert data is not None
        segments = log.segments
        work = lambda: partition_reader.aborted_in(data, segments, 0, end)  # noqa: B023, E731
        counted.append(steps(work))
    assert counted[1] - counted[0] < STEPS_MAX


def test_readers_hear_of_what_was_aborted_in_what_they_get_and_no_later_one() -> None:
    log = filled(FEW, aborts=True)
    size = batches.read_header(log.read(0, 1) or b"").size
    end = log.last_stable_offset()
    data, aborted = log.read_committed(0, 3 * size, end)
    assert data is not None
    assert [(each.first_offset, each.last_offset) for each in aborted] == [(0, FEW)]
    assert log.read_committed(FEW, 3 * size, end)[1] == [aborted[0]]


def test_a_new_segment_costs_the_same_however_many_transactions_were_aborted_before_it() -> None:
    """Lists that are on disk need not be read through to write down what they are known by."""
    counted = []
    for count in (FEW, MANY):
        disk = FaultyDisk()
        disk.make_dir(FOLDER)
        log = open_partition(disk, FOLDER, LogConfig(), 1)[0]
        for _ in range(count):
            aborted(log)
        roll(log)
        counted.append(steps(lambda: roll(log)))  # noqa: B023
    assert counted[1] - counted[0] < STEPS_MAX


def test_an_excision_is_told_of_all_that_was_aborted_in_one_go() -> None:
    counted = []
    for count in (FEW, MANY):
        sources, entries = (Source(0, 2 * count, 1),), tuple(one_after_another(count))
        work = Work(sources, Selection.of_key(b"k", "00ff"), 4096, aborted=entries)
        assert Work.from_json(work.to_json()) == work
        counted.append(steps(work.to_json))
    assert counted[1] - counted[0] < STEPS_MAX


def aborted(log: PartitionLog) -> None:
    record, producer = [Record(0, 1, b"k", b"v")], {"producer_id": 7, "producer_epoch": 0}
    data = records.build(record, base_sequence=0, transactional=True, **producer)
    log.stage(data, batches.read_header(data), 1)
    marker = control.marker(control.ABORT, 7, 0, 0, 1, 0)
    log.stage(marker, batches.read_header(marker), 1)


def roll(log: PartitionLog) -> None:
    data = records.build([Record(0, 1, b"k", b"v")])
    log.stage(data, batches.read_header(data), 1)
    log.roll(1)
    log.flush()
