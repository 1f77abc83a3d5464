"""The state machine of a share-partition, by hand, with a clock that is a number."""

from __future__ import annotations

import pytest

from headwater.broker.shares.runs import Runs
from headwater.broker.shares.state import (
    WHOLE_BATCH_MAX,
    Ack,
    AckError,
    Acknowledgement,
    Batch,
    Change,
    Limits,
    Reason,
    SharePartition,
    State,
    UnknownRecords,
)

LIMITS = Limits(lock_ms=1000, deliveries_max=3, in_flight=100)


def batches(*sizes: int, first: int = 0) -> list[Batch]:
    found = []
    for size in sizes:
        found.append(Batch(first, first + size - 1))
        first += size
    return found


def take(
    share: SharePartition,
    member: str,
    *sizes: int,
    now: int = 0,
    records_max: int = 500,
    limits: Limits = LIMITS,
    batch_size: int = 500,
    exactly: bool = False,
) -> list[tuple[int, int, int]]:
    """Acquire from a log whose batches begin at offset 0."""
    offset = share.next_offset(limits)
    if offset is None:
        return []
    there = [batch for batch in batches(*sizes) if batch.last >= offset]
    got = share.acquire(
        member,
        there,
        limits,
        now,
        read_from=offset,
        records_max=records_max,
        batch_size=batch_size,
        exactly=exactly,
    )
    return [tuple(each) for each in got]  # type: ignore[misc]


def say(
    share: SharePartition, member: str, first: int, last: int, *kinds: int, now: int = 0
) -> list[Change]:
    changes = share.acknowledge(member, [Acknowledgement(first, last, kinds)], LIMITS, now)
    share.commit(changes)
    return changes


def shape(share: SharePartition) -> list[tuple[int, int, str, int]]:
    return [(run.first, run.last, run.state.name, run.deliveries) for run in share.runs]


def test_a_member_gets_whole_batches_until_there_are_enough_records() -> None:
    share = SharePartition(0)
    assert take(share, "a", 5, 5, 5, 5, records_max=7) == [(0, 9, 1)]
    assert take(share, "b", 5, 5, 5, 5, records_max=7) == [(10, 19, 1)]
    assert take(share, "c", 5, 5, 5, 5) == []


def test_a_strict_limit_cuts_a_batch() -> None:
    share = SharePartition(0)
    assert take(share, "a", 5, 5, records_max=3, exactly=True) == [(0, 2, 1)]
    assert take(share, "b", 5, 5, records_max=3, exactly=True) == [(3, 5, 1)]
    assert take(share, "c", 5, 5, records_max=9, exactly=True) == [(6, 9, 1)]


def test_entries_are_no_longer_than_the_client_wants_them() -> None:
    share = SharePartition(0)
    assert take(share, "a", 5, 5, 5, batch_size=10) == [(0, 9, 1), (10, 14, 1)]


def test_everything_accepted_leaves_nothing_behind() -> None:
    share = SharePartition(0)
    take(share, "a", 10)
    say(share, "a", 0, 9, Ack.ACCEPT)
    assert (share.start, shape(share)) == (10, [])


def test_the_start_waits_for_the_slowest() -> None:
    share = SharePartition(0)
    take(share, "a", 5)
    take(share, "b", 5, 5)
    say(share, "b", 5, 9, Ack.ACCEPT)
    assert share.start == 0
    assert share.settled_count() == 5
    say(share, "a", 0, 4, Ack.ACCEPT)
    assert share.start == 10


def test_a_released_record_goes_to_somebody_else_with_a_higher_count() -> None:
    share = SharePartition(0)
    take(share, "a", 10)
    say(share, "a", 3, 4, Ack.RELEASE)
    assert take(share, "b", 10) == [(3, 4, 2)]


def test_each_record_of_a_batch_may_be_settled_differently() -> None:
    share = SharePartition(0)
    take(share, "a", 5)
    changes = say(share, "a", 0, 4, Ack.ACCEPT, Ack.RELEASE, Ack.REJECT, Ack.GAP, Ack.ACCEPT)
    assert [(c.first, c.last, c.state, c.reason) for c in changes] == [
        (0, 0, State.ACKNOWLEDGED, Reason.NONE),
        (1, 1, State.AVAILABLE, Reason.NONE),
        (2, 2, State.ARCHIVED, Reason.REJECTED),
        (3, 3, State.ARCHIVED, Reason.NONE),
        (4, 4, State.ACKNOWLEDGED, Reason.NONE),
    ]
    assert share.start == 1
    assert take(share, "b", 5) == [(1, 1, 2)]


def test_a_record_that_is_released_too_often_is_given_up() -> None:
    share = SharePartition(0)
    for _ in range(LIMITS.deliveries_max):
        take(share, "a", 1)
        changes = say(share, "a", 0, 0, Ack.RELEASE)
    assert changes == [Change(0, 0, State.ARCHIVED, 3, Reason.LIMIT)]
    assert share.start == 1


def test_a_lock_ends_and_the_record_is_free() -> None:
    share = SharePartition(0)
    take(share, "a", 10, now=100)
    assert share.next_deadline() == 1100
    assert share.expire(LIMITS, 1099) == ([], [])
    freed, given_up = share.expire(LIMITS, 1100)
    assert (freed, given_up) == ([Change(0, 9, State.AVAILABLE, 1)], [])
    assert take(share, "b", 10, now=1100) == [(0, 9, 2)]
    with pytest.raises(AckError):
        say(share, "a", 0, 9, Ack.ACCEPT)


def test_a_lock_that_ends_at_the_limit_gives_the_record_up_once_that_is_durable() -> None:
    share = SharePartition(0)
    one = LIMITS._replace(deliveries_max=1)
    take(share, "a", 1, limits=one)
    freed, given_up = share.expire(one, 1000)
    assert (freed, given_up) == ([], [Change(0, 0, State.ARCHIVED, 1, Reason.LIMIT)])
    assert share.start == 0
    assert share.expire(one, 5000) == ([], []), "it is on its way already"
    share.commit(given_up)
    assert share.start == 1


def test_renewing_makes_a_lock_last() -> None:
    share = SharePartition(0)
    take(share, "a", 4, now=0)
    assert say(share, "a", 0, 1, Ack.RENEW, now=900) == []
    freed, _ = share.expire(LIMITS, 1000)
    assert freed == [Change(2, 3, State.AVAILABLE, 1)]
    assert share.next_deadline() == 1900


def test_a_member_that_goes_gives_back_what_it_holds_and_only_that() -> None:
    share = SharePartition(0)
    take(share, "a", 5, 5, records_max=1)
    take(share, "b", 5, 5, records_max=1)
    assert share.release("a", LIMITS) == ([Change(0, 4, State.AVAILABLE, 1)], [])
    assert shape(share) == [(0, 4, "AVAILABLE", 1), (5, 9, "ACQUIRED", 1)]


@pytest.mark.parametrize(
    ("member", "first", "last", "error"),
    [
        ("b", 0, 4, AckError),
        ("a", 0, 5, AckError),
        ("a", 5, 9, AckError),
        ("a", 0, 10, UnknownRecords),
        ("a", 20, 21, UnknownRecords),
    ],
)
def test_nobody_settles_what_is_not_his(
    member: str, first: int, last: int, error: type[Exception]
) -> None:
    share = SharePartition(0)
    take(share, "a", 5, 5, records_max=1)
    take(share, "b", 5, 5, records_max=1)
    before = shape(share)
    with pytest.raises(error):
        say(share, member, first, last, Ack.ACCEPT)
    assert shape(share) == before


def test_one_bad_range_spoils_the_whole_request() -> None:
    share = SharePartition(0)
    take(share, "a", 10)
    say(share, "a", 8, 9, Ack.RELEASE)
    asked = [Acknowledgement(0, 1, [Ack.ACCEPT]), Acknowledgement(8, 9, [Ack.ACCEPT])]
    with pytest.raises(AckError):
        share.acknowledge("a", asked, LIMITS, 0)
    assert shape(share) == [(0, 7, "ACQUIRED", 1), (8, 9, "AVAILABLE", 1)]


def test_what_is_being_written_belongs_to_nobody() -> None:
    share = SharePartition(0)
    take(share, "a", 10)
    changes = share.acknowledge("a", [Acknowledgement(0, 9, [Ack.RELEASE])], LIMITS, 0)
    assert take(share, "b", 10) == []
    assert share.expire(LIMITS, 10_000) == ([], [])
    assert share.release("a", LIMITS) == ([], [])
    with pytest.raises(AckError):
        share.acknowledge("a", [Acknowledgement(0, 9, [Ack.ACCEPT])], LIMITS, 0)
    share.commit(changes)
    assert take(share, "b", 10) == [(0, 9, 2)]


def test_a_write_that_fails_leaves_the_record_with_its_member() -> None:
    share = SharePartition(0)
    take(share, "a", 10)
    changes = share.acknowledge("a", [Acknowledgement(0, 9, [Ack.ACCEPT])], LIMITS, 0)
    share.undo(changes, 7000)
    assert share.next_deadline() == 7000
    say(share, "a", 0, 9, Ack.ACCEPT)
    assert share.start == 10


def test_only_so_many_records_are_in_flight() -> None:
    share = SharePartition(0)
    few = LIMITS._replace(in_flight=10)
    assert take(share, "a", 8, 8, 8, limits=few) == [(0, 15, 1)]
    assert share.next_offset(few) is None
    say(share, "a", 0, 7, Ack.ACCEPT)
    assert take(share, "b", 8, 8, 8, limits=few) == [(16, 23, 1)]


def test_records_given_back_are_delivered_even_if_the_limit_is_reached() -> None:
    share = SharePartition(0)
    few = LIMITS._replace(in_flight=10)
    take(share, "a", 10, 10, limits=few)
    say(share, "a", 4, 5, Ack.RELEASE)
    assert take(share, "b", 10, 10, limits=few) == [(4, 5, 2)]


def test_offsets_that_compaction_took_come_with_the_batch_behind_them() -> None:
    share = SharePartition(0)
    there = [Batch(0, 4), Batch(20, 24)]
    got = share.acquire("a", there, LIMITS, 0, read_from=0, records_max=500)
    assert [(each.first, each.last) for each in got] == [(0, 4), (5, 24)]
    say(share, "a", 0, 4, Ack.ACCEPT)
    changes = share.acknowledge(
        "a",
        [Acknowledgement(5, 19, [Ack.GAP]), Acknowledgement(20, 24, [Ack.ACCEPT])],
        LIMITS,
        0,
    )
    share.commit(changes)
    assert share.start == 25


def test_nothing_is_acquired_that_was_not_read() -> None:
    """A cold read takes a while: meanwhile a record before it was given back."""
    share = SharePartition(0)
    take(share, "a", 5)
    read_from = share.next_offset(LIMITS)
    assert read_from == 5
    say(share, "a", 0, 4, Ack.RELEASE)
    got = share.acquire("b", [Batch(5, 9)], LIMITS, 0, read_from=5, records_max=500)
    assert [(each.first, each.last) for each in got] == [(5, 9)]
    assert take(share, "c", 5, 5) == [(0, 4, 2)]


def test_a_read_that_came_second_gets_what_the_first_left() -> None:
    share = SharePartition(0)
    there = batches(5, 5)
    share.acquire("a", there[:1], LIMITS, 0, read_from=0, records_max=500)
    got = share.acquire("b", there, LIMITS, 0, read_from=0, records_max=500)
    assert [(each.first, each.last) for each in got] == [(5, 9)]


def test_retention_moves_the_start() -> None:
    share = SharePartition(0)
    take(share, "a", 10)
    say(share, "a", 5, 6, Ack.ACCEPT)
    assert share.move_start(5)
    assert share.start == 7
    say(share, "a", 0, 3, Ack.ACCEPT)  # too late, and no harm
    assert not share.move_start(7)


def test_a_restart_finds_what_was_settled_and_forgets_the_locks() -> None:
    share = SharePartition(0)
    told: list[Change] = []
    take(share, "a", 10)
    told += say(share, "a", 2, 3, Ack.ACCEPT)
    told += say(share, "a", 4, 4, Ack.RELEASE)
    take(share, "b", 10)
    restored = SharePartition(0)
    restored.restore(told)
    assert shape(restored) == [
        (0, 1, "AVAILABLE", 0),
        (2, 3, "ACKNOWLEDGED", 1),
        (4, 4, "AVAILABLE", 1),
    ]
    assert restored.durable() == share.durable()[:3]


def test_a_batch_of_a_thousand_records_is_one_run() -> None:
    share = SharePartition(0)
    many = LIMITS._replace(in_flight=10_000)
    take(share, "a", *[1000] * 5, limits=many, records_max=5000)
    assert len(share.runs) == 1
    changes = share.acknowledge("a", [Acknowledgement(0, 4999, [Ack.ACCEPT])], many, 0)
    assert len(changes) == 1


def test_of_a_batch_that_has_very_many_records_a_part_is_delivered() -> None:
    share, count = SharePartition(0), 3 * WHOLE_BATCH_MAX
    assert take(share, "a", count) == [(0, WHOLE_BATCH_MAX - 1, 1)]
    assert take(share, "b", count) == [], "more than may be in flight is"
    say(share, "a", 0, WHOLE_BATCH_MAX - 1, Ack.ACCEPT)
    batch = [Batch(0, count - 1)]
    got = share.acquire("b", batch, LIMITS, 0, read_from=WHOLE_BATCH_MAX, records_max=1)
    assert got == [(WHOLE_BATCH_MAX, 2 * WHOLE_BATCH_MAX - 1, 1)]


def test_an_answer_of_its_own_for_each_record_is_one_pass_over_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many thousands, each with a search and a list that moves, the event loop would wait for seconds."""
    count, searches = WHOLE_BATCH_MAX, [0]
    share = SharePartition(0)
    take(share, "a", count)
    search = Runs._at

    def counted(runs: Runs, offset: int) -> int:
        searches[0] += 1
        return search(runs, offset)

    monkeypatch.setattr(Runs, "_at", counted)
    kinds = [Ack.RELEASE, Ack.ACCEPT] * (count // 2)
    changes = share.acknowledge("a", [Acknowledgement(0, count - 1, kinds)], LIMITS, 0)
    share.undo(changes, 5)
    changes = share.acknowledge("a", [Acknowledgement(0, count - 1, kinds)], LIMITS, 0)
    share.commit(changes)
    restored = SharePartition(0, share.durable())
    assert len(changes) == len(share.runs) == len(restored.runs) == count
    assert restored.durable() == share.durable()
    assert searches[0] < 100
