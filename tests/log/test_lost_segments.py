"""A segment that somebody has removed, with the markers in it: what stays hidden, and what stays visible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.log.aborted_transactions import (
    AbortedTransaction,
    Checksum,
    pack,
    pack_checksums,
)
from headwater.log.recovery import open_partition
from headwater.testing.faulty_disk import FaultyDisk

from .holed import CONFIG, NOW_MS, SUFFIXES, HoledLog

FOLDER = Path("/t-0")
ENTRY = AbortedTransaction(1, 0, 1, 2)


def filled(behind: Callable[[HoledLog], None] = lambda log: None) -> HoledLog:
    """
    segment    A: 0 1 2      B: 3      C: 4 …
    producer 1 x             A           behind(…)
    producer 2   x x                   C
    """
    log = HoledLog.opened(FaultyDisk(), FOLDER)
    log.write(1, b"aborted")
    log.write(2, b"begun")
    log.write(2, b"goes on", sequence=1)
    log.roll()
    log.abort(1)
    log.roll()
    log.commit(2)
    behind(log)
    return log


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("change", [HoledLog.compact, lambda log: log.excise(b"begun")])
def test_a_segment_that_is_written_anew_keeps_what_it_knows_of_the_lost_one(
    change: Callable[[HoledLog], None], clean: bool
) -> None:
    log = filled()
    log.stop()
    log.lose(1, "the records")
    log.start()
    assert log.aborted == [(1, 0)]
    log.roll()
    log.plain(b"last")
    change(log)
    assert log.committed() <= {b"begun", b"goes on", b"last"}
    log.restart(clean=clean)
    assert {b"goes on", b"last"} <= log.committed() <= {b"begun", b"goes on", b"last"}


@pytest.mark.parametrize("clean", [True, False])
def test_segments_on_either_side_of_a_hole_are_not_put_together(clean: bool) -> None:
    """Who reads on into the other one would leave out what its producer has committed there: an end of what
    was aborted is not there to be met."""

    def next_transaction(log: HoledLog) -> None:
        log.write(1, b"committed", epoch=1)
        log.commit(1, epoch=2)

    log = filled(next_transaction)
    log.roll()
    log.plain(b"last")
    log.stop()
    log.lose(1, "the records")
    log.start()
    log.compact()
    for _ in range(2):
        assert log.committed() == {b"begun", b"goes on", b"committed", b"last"}
        log.restart(clean=clean)


def test_what_is_kept_of_a_lost_segment_is_kept_at_every_start_after_a_kill() -> None:
    log = filled()
    log.stop(clean=False)
    log.lose(1, "the records")
    for _ in range(3):
        log.start(clean=False)
        assert log.aborted == [(1, 0)]
        assert log.log.last_stable_offset() == log.log.next_offset
        assert log.committed() == {b"begun", b"goes on"}
        log.stop(clean=False)


def test_it_is_kept_where_the_list_of_another_segment_is_lost_after_a_kill() -> None:
    def one_more(log: HoledLog) -> None:
        log.write(3, b"aborted, too")
        log.abort(3)
        log.roll()
        log.plain(b"last")

    log = filled(one_more)
    log.stop(clean=False)
    log.lose(1, "the records")
    log.start(clean=False)
    log.stop(clean=False)
    log.files.remove(FOLDER / f"{4:020d}.txnindex")
    log.start(clean=False)
    assert log.aborted == [(1, 0), (3, 5)]
    assert log.committed() == {b"begun", b"goes on", b"last"}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("what", SUFFIXES)
def test_a_transaction_that_ended_in_it_is_not_ended_by_the_producers_next_commit(
    what: str, clean: bool
) -> None:
    log = filled(lambda log: log.write(1, b"next", epoch=1))
    log.stop(clean=clean)
    log.lose(1, what)
    log.start(clean=clean)
    assert log.log.producers.open_transactions == {1: 5}
    log.commit(1, epoch=2)
    for _ in range(2):
        assert log.committed() == {b"begun", b"goes on", b"next"}
        log.restart(clean=clean)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("what", SUFFIXES)
@pytest.mark.parametrize("more", [False, True])
def test_a_transaction_that_went_on_behind_it_is_not_taken_for_one_that_ended_there(
    what: str, clean: bool, more: bool
) -> None:
    """Producer 2 has committed behind the hole, with records there or without."""
    log = filled(lambda log: log.write(1, b"next", epoch=1))
    if more:
        log = HoledLog.opened(FaultyDisk(), FOLDER)
        log.write(1, b"aborted")
        log.write(2, b"begun")
        log.roll()
        log.abort(1)
        log.roll()
        log.write(2, b"goes on", sequence=1)
        log.commit(2)
        log.write(1, b"next", epoch=1)
    log.commit(1, epoch=2)
    log.stop(clean=clean)
    log.lose(1, what)
    log.start(clean=clean)
    for _ in range(2):
        assert log.committed() == {b"begun", b"goes on", b"next"}
        log.restart(clean=clean)


@pytest.mark.parametrize("what", SUFFIXES)
def test_a_transaction_that_is_open_across_it_is_open_still(what: str) -> None:
    """Of producer 3 nothing lies behind it after a kill: how its transaction ends its coordinator knows."""
    log = HoledLog.opened(FaultyDisk(), FOLDER)
    log.write(1, b"aborted")
    log.write(3, b"open")
    log.roll()
    log.abort(1)
    log.roll()
    log.plain(b"last")
    log.stop(clean=False)
    log.lose(1, what)
    log.start(clean=False)
    assert 3 in log.log.producers.open_transactions
    if 1 in log.log.producers.open_transactions:
        log.abort(1)  # as the coordinator does, which knows of no such transaction
    log.commit(3)
    for clean in (False, True):
        assert log.committed() == {b"open", b"last"}
        log.restart(clean=clean)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("what", SUFFIXES)
def test_where_the_epochs_do_not_tell_it_is_taken_to_have_ended_in_the_lost_segment(
    what: str, clean: bool
) -> None:
    """A client that keeps its epoch: its next commit might be that of the transaction before the hole."""
    log = HoledLog.opened(FaultyDisk(), FOLDER)
    log.write(1, b"aborted")
    log.roll()
    log.abort(1, epoch=0)
    log.roll()
    log.write(1, b"next", sequence=1)
    log.commit(1, epoch=0)
    log.stop(clean=clean)
    log.lose(1, what)
    log.start(clean=clean)
    for _ in range(2):
        assert log.committed() == {b"next"}
        log.restart(clean=clean)


@pytest.mark.parametrize("clean", [True, False])
def test_the_offsets_of_a_hole_are_for_those_that_have_surely_ended_in_it(clean: bool) -> None:
    """One offset was lost, and producer 0, which is aborted behind it, might have ended there as well."""
    log = HoledLog.opened(FaultyDisk(), FOLDER)
    log.write(0, b"aborted later")
    log.write(1, b"aborted")
    log.roll()
    log.abort(1)
    log.roll()
    log.abort(0)
    log.write(1, b"next", epoch=1)
    log.commit(1, epoch=2)
    log.stop(clean=clean)
    log.lose(1, "all of it")
    log.start(clean=clean)
    for _ in range(2):
        assert log.committed() == {b"next"}
        log.restart(clean=clean)


def test_readers_are_told_of_all_that_is_aborted_behind_what_is_supposed_of_a_hole() -> None:
    """The last stable offset of a supposed entry reckons with transactions that go on: the search for what
    touches the first records would end too early."""
    log = HoledLog.opened(FaultyDisk(), FOLDER)
    log.write(0, b"aborted later")
    log.roll()
    log.write(1, b"aborted")
    log.roll()
    log.abort(1)
    log.roll()
    log.write(1, b"next", epoch=1)
    log.commit(1, epoch=2)
    log.stop()
    log.lose(2, "all of it")
    log.start()
    log.abort(0)
    assert log.committed() == {b"next"}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("file", ["txnindex-checksums", f"{1:020d}.txnindex", f"{1:020d}.index"])
def test_a_segment_that_is_named_where_no_offset_is_missing_was_never_there(
    file: str, clean: bool
) -> None:
    """Somebody has brought back a file of another day, or of another partition."""
    log = HoledLog.opened(FaultyDisk(), FOLDER)
    log.write(1, b"first")
    log.plain(b"between")
    log.commit(1)
    log.roll()
    log.plain(b"last")
    log.stop(clean=clean)
    sums = pack_checksums({1: Checksum(1, 7)})
    log.files.write_atomic(FOLDER / file, sums if file == "txnindex-checksums" else pack([ENTRY]))
    _, report = open_partition(log.files, FOLDER, CONFIG, NOW_MS, recovery_point=4, clean=clean)
    assert report.missing is None
    for _ in range(2):
        log.start(clean=clean)
        assert log.aborted == []
        assert log.committed() == {b"first", b"between", b"last"}
        log.stop(clean=clean)
