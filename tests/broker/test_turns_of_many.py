"""Very many groups or transactions that end at once leave turns of the event loop to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.broker.groups import removal
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.transactions import coordinator, markers
from headwater.broker.transactions.markers import Marker
from headwater.broker.transactions.transaction import State
from headwater.testing.clock import ManualClock
from tests.broker.serving import Serving, delete, serving
from tests.broker.turns import most_in_a_turn
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

MANY = 30
AT_ONCE = 5
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(coordinator, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(markers, "SLICE_ELEMENTS", AT_ONCE)


def commit(wire: Wire, group: str, topic: str = "t") -> None:
    parts = [{"partition_index": 0, "committed_offset": 5}]
    answer = wire.ask(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": parts}],
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def journal(broker: Serving) -> list[int]:
    """Counts appends of the group coordinator from here on."""
    store, count = broker.broker.offsets_topic, [0]
    append = store.append

    def counted(*arguments: object) -> object:
        count[0] += 1
        return append(*arguments)  # type: ignore[arg-type]

    store.append = counted  # type: ignore[method-assign, assignment]
    return count


def test_the_offsets_of_a_deleted_topic_are_erased_in_turns(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        for number in range(MANY):
            commit(wire, f"g{number}")
        count = journal(broker)
        topic = broker.broker.catalogue.topics["t"]
        gone = broker.broker.groups.topic_gone
        assert most_in_a_turn(broker, lambda: count[0], lambda: gone("t"), MANY) <= AT_ONCE
        assert delete(wire, "t") is ErrorCode.none
        assert topic.id not in broker.broker.catalogue.by_id
    with serving(data) as broker:
        assert not broker.broker.groups.offsets_of("g29").topics


def test_an_offset_for_a_topic_made_again_is_not_erased_with_the_old_ones(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        for number in range(MANY):
            commit(wire, f"g{number}")
        count, groups = journal(broker), broker.broker.groups
        again = Commit("t", 0, 7, topic_id=broker.broker.catalogue.topics["t"].id)

        async def in_one_turn() -> list[ErrorCode]:
            groups.topic_gone("t")
            return await groups.offsets.commit(Committer("g29"), [again])

        assert broker.run(in_one_turn()) == [ErrorCode.none]
        until(lambda: count[0] == MANY, "the others to be erased")
        assert broker.broker.groups.offsets_of("g29").get("t", 0) is not None
    with serving(data) as broker:
        assert broker.broker.groups.offsets_of("g29").get("t", 0) is not None


def test_groups_that_expire_together_are_removed_in_turns(data: Path) -> None:
    clock = ManualClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t")
        for number in range(MANY):
            commit(wire, f"g{number}")
        count = journal(broker)
        clock.advance(8 * DAY_MS)
        expire = broker.broker.groups.removal.expire
        assert most_in_a_turn(broker, lambda: count[0], expire, MANY) <= AT_ONCE
        until(lambda: not broker.broker.groups.groups, "all of them to be removed")


def test_transactions_that_time_out_together_are_aborted_in_turns(data: Path) -> None:
    clock = ManualClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t", message_timestamp_type="LogAppendTime")
        for number in range(MANY):
            Transactor(wire, f"id{number}").init().write("t", b"x")
        clock.advance(DAY_MS)
        inside = broker.broker.transactions

        def ended() -> int:
            return sum(each.state is not State.ONGOING for each in inside.transactions.values())

        def begin() -> object:
            turns = inside._in_turns(inside.overdue(), inside.abort_overdue)
            return broker.broker.supervisor.spawn("transactions", turns)

        assert most_in_a_turn(broker, ended, begin, MANY) <= AT_ONCE
        until(lambda: not inside._ending, "their ends")


def test_a_transaction_of_very_many_partitions_ends_in_turns_and_once_in_each(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t", MANY)
        inside = broker.broker
        written = inside.transactions.markers.write
        places = [("t", number) for number in range(MANY)]

        def ends() -> int:
            found = (inside.partition(*place) for place in places)
            return sum(each.log.next_offset for each in found if each is not None)

        def begin() -> object:
            return inside.supervisor.spawn("ends", written(Marker(7, 0, True, 0), places * 2))

        assert most_in_a_turn(broker, ends, begin, MANY) <= AT_ONCE
        until(lambda: not inside.transactions._ending, "their ends")
        assert ends() == MANY
