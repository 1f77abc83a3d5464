"""Very many groups or transactions that end at once leave turns of the event loop to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.broker.groups import removal
from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.transactions import coordinator, markers
from headwater.broker.transactions.markers import Marker
from headwater.broker.transactions.transaction import State
from headwater.testing.clock import ManualClock
from tests.broker.disks import HandDisk
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
    monkeypatch.setattr(removal, "SLICE_ELEMENTS", AT_ONCE)
    monkeypatch.setattr(coordinator, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(markers, "SLICE_ELEMENTS", AT_ONCE)
    monkeypatch.setattr(markers, "LOOKS_AT_ONCE", AT_ONCE)


def commit(wire: Wire, group: str, topic: str = "t", partitions: int = 1) -> None:
    parts = [{"partition_index": number, "committed_offset": 5} for number in range(partitions)]
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

        async def as_soon_as_may_be() -> list[ErrorCode]:
            await groups.topic_gone("t")
            return await groups.offsets.commit(Committer("g29"), [again])

        assert broker.run(as_soon_as_may_be()) == [ErrorCode.none]
        until(lambda: count[0] == MANY, "the others to be erased")
        assert broker.broker.groups.offsets_of("g29").get("t", 0) is not None
    with serving(data) as broker:
        assert broker.broker.groups.offsets_of("g29").get("t", 0) is not None


def test_a_topic_is_not_made_again_before_all_groups_have_forgotten_the_old_one(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire, broker.wire() as other:
        broker.create("t")
        for number in range(MANY):
            commit(wire, f"g{number}")
        catalogue, groups = broker.broker.catalogue, broker.broker.groups
        old, left, changed = catalogue.topics["t"].id, [], catalogue._apply_topic

        def watched(name: str, value: Any) -> None:
            if value is not None:
                found = (groups.offsets_of(f"g{number}").get("t", 0) for number in range(MANY))
                left.append(sum(each is not None for each in found))
            changed(name, value)

        catalogue._apply_topic = watched  # type: ignore[method-assign]
        asked = {"name": "t", "num_partitions": 1, "replication_factor": 1}

        def made() -> bool:
            error = other.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0].error_code
            return error is ErrorCode.none

        wire.send("delete_topics", 6, topics=[{"name": "t"}], timeout=9000)
        until(made, "its deletion")
        assert left == [0]
        assert catalogue.topics["t"].id != old
        assert wire.receive()[1].responses[0].error_code is ErrorCode.none


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


def test_a_group_with_very_many_offsets_is_deleted_in_turns(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t", MANY)
        commit(wire, "g", partitions=MANY)
        offsets = broker.broker.groups.offsets_of("g")

        def gone() -> int:
            return MANY - len(offsets.topics.get("t", {}))

        def begin() -> object:
            going = broker.broker.groups.removal.delete_group("g")
            return broker.broker.supervisor.spawn("deletion", going)

        assert most_in_a_turn(broker, gone, begin, MANY) <= AT_ONCE
        until(lambda: "g" not in broker.broker.groups.groups, "the group to be gone")
    with serving(data) as broker:
        assert "g" not in broker.broker.groups.groups
        assert not broker.broker.groups.offsets_of("g").topics


def test_a_group_whose_deletion_the_disk_refuses_half_way_goes_on(data: Path) -> None:
    disk = HandDisk()
    with serving(data, {"offsets.topic.num.partitions": 1}, files=disk) as broker:
        broker.create("t", MANY)
        with broker.wire() as wire:
            commit(wire, "g", partitions=MANY)
            coordinator = broker.broker.groups

            async def deleted() -> ErrorCode:
                return await coordinator.removal.delete_group("g")

            with disk.failing("write", name="__consumer_offsets-0/*.log"):
                assert broker.run(deleted()) is not ErrorCode.none
            assert broker.call(lambda: coordinator.groups["g"].delete_error()) is ErrorCode.none
            until(lambda: broker.run(deleted()) is ErrorCode.none, "the disk to be well")
            commit(wire, "g")
        assert broker.call(lambda: len(coordinator.offsets_of("g").topics["t"])) == 1
    with serving(data) as broker:
        assert len(broker.broker.groups.offsets_of("g").topics["t"]) == 1


def test_a_group_with_very_many_offsets_expires_in_turns(data: Path) -> None:
    clock = ManualClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t", MANY)
        commit(wire, "g", partitions=MANY)
        clock.advance(8 * DAY_MS)
        groups = broker.broker.groups
        offsets, expire = groups.offsets_of("g"), groups.removal.expire

        def gone() -> int:
            return MANY - len(offsets.topics.get("t", {}))

        steps = AT_ONCE  # each of as many offsets, as long as there is time for them
        assert most_in_a_turn(broker, gone, expire, MANY) <= steps * AT_ONCE
        broker.call(expire)
        until(lambda: "g" not in groups.groups, "the group to go with the next look")


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
            return broker.broker.supervisor.spawn("transactions", inside._abort_overdue())

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
