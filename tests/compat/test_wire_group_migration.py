"""One group from the classic to the newer protocol and back, at the level of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from .asking import Member
from .cluster import Cluster
from .heartbeats import (
    Beating,
    assignment,
    described,
    in_group,
    partitions_in,
    settled,
    subscription,
)
from .wire import ErrorCode, Wire


@pytest.fixture
def topic_id(cluster: Cluster, wire: Wire, group: str, topic: str) -> UUID:
    return in_group(cluster, wire, group, topic)


@pytest.fixture
def newer(cluster: Cluster, group: str, topic: str, topic_id: UUID) -> Iterator[Beating]:
    with cluster.wire() as connection:
        yield Beating(connection, group, "newer", topic)


class Classic(Member):
    """A classic consumer that says what it owns, as cooperative ones do."""

    def __init__(self, wire: Wire, group: str, topic: str, **join: Any) -> None:
        super().__init__(wire, group, **join)
        self.topic = topic
        self.owned: list[int] = []

    def join_with_owned(self) -> Any:
        said = subscription(self.topic, self.owned, self.generation)
        return self.join(protocols=[{"name": "range", "metadata": said}])

    def sync_owned(self, **changes: Any) -> Any:
        answer = self.sync(**changes)
        if answer.error_code is ErrorCode.none:
            self.owned = partitions_in(answer.assignment)
        return answer


@pytest.fixture
def classic(cluster: Cluster, group: str, topic: str, topic_id: UUID) -> Iterator[Classic]:
    with cluster.wire() as connection:
        yield Classic(connection, group, topic)


def alone(classic: Classic) -> Classic:
    assert classic.join_with_owned().error_code is ErrorCode.none
    everything = assignment(classic.topic, [0, 1, 2, 3])
    assert classic.sync({classic.member_id: everything}).assignment == everything
    classic.owned = [0, 1, 2, 3]
    return classic


def test_a_classic_group_is_upgraded_by_the_first_newer_member(
    wire: Wire, group: str, classic: Classic, newer: Beating
) -> None:
    alone(classic)
    answer = newer.join()
    assert answer.error_code is ErrorCode.none
    assert newer.epoch == classic.generation + 1
    assert newer.owned == {}
    kinds = {each.member_id: each.member_type for each in described(wire, group).members}
    assert kinds == {classic.member_id: 0, "newer": 1}

    assert classic.heartbeat() is ErrorCode.rebalance_in_progress
    joined = classic.join_with_owned()
    assert (joined.leader, joined.members) == ("", ()), "the broker assigns, not a leader"
    classic.sync_owned()
    assert len(classic.owned) == 2
    newer.beat()
    assert newer.owned == {}, "the classic member has not said yet that it has let go"

    assert classic.heartbeat() is ErrorCode.rebalance_in_progress
    classic.join_with_owned()
    classic.sync_owned()
    assert classic.generation == newer.epoch
    newer.beat()
    assert sorted(newer.numbers + classic.owned) == [0, 1, 2, 3]
    assert classic.heartbeat() is ErrorCode.none
    assert described(wire, group).group_state == "Stable"


def test_the_last_newer_member_leaves_a_classic_group_behind(
    wire: Wire, group: str, topic: str, classic: Classic, newer: Beating
) -> None:
    newer.enter()
    classic.join_with_owned()
    classic.sync_owned()
    newer.ask()
    newer.beat()
    assert classic.heartbeat() is ErrorCode.rebalance_in_progress, "partitions are free for it"
    classic.join_with_owned()
    classic.sync_owned()
    settled_members = {each.member_id for each in described(wire, group).members}
    assert settled_members == {classic.member_id, "newer"}

    assert newer.leave().error_code is ErrorCode.none
    assert described(wire, group).error_code is ErrorCode.group_id_not_found
    assert classic.heartbeat() is ErrorCode.rebalance_in_progress
    joined = classic.join_with_owned()
    assert joined.leader == classic.member_id, "now it assigns itself"
    everything = assignment(topic, [0, 1, 2, 3])
    assert classic.sync({classic.member_id: everything}).assignment == everything
    assert classic.heartbeat() is ErrorCode.none
    (known,) = wire.ask("describe_groups", 5, groups=[group]).groups
    assert known.group_state == "Stable"


def test_a_classic_member_in_a_newer_group_is_held_to_its_generation(
    topic: str, classic: Classic, newer: Beating
) -> None:
    newer.enter()
    classic.join_with_owned()
    assert classic.heartbeat(generation_id=99) is ErrorCode.illegal_generation
    assert classic.heartbeat(member_id="nobody") is ErrorCode.unknown_member_id
    assert classic.heartbeat(member_id="newer") is ErrorCode.unknown_member_id
    assert classic.sync(generation_id=99).error_code is ErrorCode.illegal_generation
    wrong = classic.sync(protocol_name="other")
    assert wrong.error_code is ErrorCode.inconsistent_group_protocol
    assert (
        classic.commit(topic, 5, generation_id_or_member_epoch=99) is ErrorCode.illegal_generation
    )
    assert classic.commit(topic, 5) is ErrorCode.none


def test_a_classic_member_that_is_not_a_consumer_is_refused(
    classic: Classic, newer: Beating
) -> None:
    newer.enter()
    answer = classic.join(protocol_type="connect")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_a_classic_group_that_is_not_of_consumers_is_not_upgraded(
    group: str, classic: Classic, newer: Beating
) -> None:
    workers = {"protocol_type": "connect", "protocols": [{"name": "x", "metadata": b""}]}
    assert classic.join(**workers).error_code is ErrorCode.none
    answer = newer.join()
    assert answer.error_code is ErrorCode.group_id_not_found
    assert "does not use the consumer embedded protocol" in answer.error_message
    assert newer.ask(member_epoch=3).error_code is ErrorCode.group_id_not_found
    assert newer.leave().error_code is ErrorCode.group_id_not_found


def test_offsets_stay_when_an_empty_group_changes_its_type(
    wire: Wire, group: str, topic: str, classic: Classic, newer: Beating
) -> None:
    alone(classic)
    assert classic.commit(topic, 42) is ErrorCode.none
    classic.leave()
    newer.enter()
    settled(wire, group, newer)
    assert committed(wire, group, topic) == 42
    newer.leave()
    fresh = Classic(wire, group, topic)
    assert fresh.join_with_owned().leader == fresh.member_id
    assert committed(wire, group, topic) == 42
    assert described(wire, group).error_code is ErrorCode.group_id_not_found


def committed(wire: Wire, group: str, topic: str) -> int:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = wire.ask("offset_fetch", 8, groups=[asked]).groups[0]
    return int(answer.topics[0].partitions[0].committed_offset)


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions(
    wire: Wire, group: str, topic: str, topic_id: UUID
) -> None:
    first = Beating(wire, group, "a", topic, instance_id="i1")
    first.enter()
    older = Classic(wire, group, topic, group_instance_id="i1")
    assert older.join_with_owned().error_code is ErrorCode.none
    older.sync_owned()
    assert older.owned == [0, 1, 2, 3]
    assert described(wire, group).error_code is ErrorCode.group_id_not_found, "it is classic now"
    again = Beating(wire, group, "b", topic, instance_id="i1")
    assert again.join().error_code is ErrorCode.none
    assert again.numbers == [0, 1, 2, 3]
    assert older.heartbeat() is ErrorCode.fenced_instance_id
