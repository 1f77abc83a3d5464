"""Membership of share groups, and their administration, over the wire: joining, epochs, describing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from .asking import Member, find_coordinator, produce
from .batches import batch
from .cluster import Cluster
from .sharing import ACCEPT, Sharer, configure
from .waiting import until
from .wire import ErrorCode, Wire


@pytest.fixture
def one(cluster: Cluster, wire: Wire, topic: str, group: str) -> Sharer:
    """A member of a group that reads a topic of one partition from its beginning."""
    cluster.create_topic(topic)
    configure(cluster, group, share_auto_offset_reset="earliest")
    sharer = Sharer(wire, group, cluster.topic_id(topic))
    sharer.join(topic)
    return sharer


def test_a_member_gets_an_assignment_and_keeps_it(one: Sharer) -> None:
    assert [list(each.partitions) for each in one.assigned] == [[0]]
    assert one.assigned[0].topic_id == one.topic_id
    again = one.heartbeat()
    assert (again.error_code, again.assignment) == (ErrorCode.none, None)
    assert again.member_id == one.member_id
    assert again.heartbeat_interval.total_seconds() == 0.5


def test_a_full_heartbeat_is_answered_with_the_assignment(one: Sharer, topic: str) -> None:
    assert one.heartbeat(subscribed_topic_names=[topic]).assignment is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, None),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
        ({"rack_id": ""}, "RackId can't be empty."),
        (
            {"subscribed_topic_names": None},
            "SubscribedTopicNames must be set in first request.",
        ),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
    ],
)
def test_a_wrong_heartbeat_is_refused(
    wire: Wire, group: str, changes: dict[str, Any], message: str | None
) -> None:
    find_coordinator(wire, group)
    values = {"group_id": group, "member_id": "m", "subscribed_topic_names": ["t"], **changes}
    answer = wire.ask("share_group_heartbeat", 1, **values)
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, message)


def test_strangers_and_old_epochs_are_fenced(one: Sharer, topic: str) -> None:
    for names in ([topic, "another"], [topic], [topic, "another"]):
        before = one.epoch
        one.heartbeat(subscribed_topic_names=names)
        until(lambda before=before: one.heartbeat() and one.epoch > before, "a new epoch")  # type: ignore[misc]
    ahead = one.heartbeat(member_epoch=one.epoch + 7)
    assert ahead.error_code is ErrorCode.fenced_member_epoch
    assert one.heartbeat(member_epoch=1).error_code is ErrorCode.fenced_member_epoch
    stranger = one.heartbeat(member_id="stranger", member_epoch=3)
    assert stranger.error_code is ErrorCode.unknown_member_id
    leaving = one.heartbeat(member_id="stranger", member_epoch=-1)
    assert leaving.error_code is ErrorCode.unknown_member_id
    nowhere = one.heartbeat(group_id=f"no-{one.group}", member_epoch=3)
    assert nowhere.error_code is ErrorCode.group_id_not_found


def test_partitions_are_divided_and_members_beyond_them_share(
    cluster: Cluster, topic: str, group: str
) -> None:
    cluster.create_topic(topic, 2)
    topic_id = cluster.topic_id(topic)
    with cluster.wire() as first, cluster.wire() as second, cluster.wire() as third:
        members = [Sharer(wire, group, topic_id) for wire in (first, second, third)]
        members[0].join(topic)
        until(lambda: members[0].heartbeat() and _numbers(members[0]) == [0, 1], "both partitions")
        members[1].join(topic)

        def divided() -> bool:
            for member in members[:2]:
                member.heartbeat()
            return sorted(_numbers(members[0]) + _numbers(members[1])) == [0, 1]

        until(divided, "one partition each")
        members[2].join(topic)

        def shared() -> bool:
            for member in members:
                member.heartbeat()
            held = [number for member in members for number in _numbers(member)]
            return all(_numbers(member) for member in members) and set(held) == {0, 1}

        until(shared, "everybody to have something")


def _numbers(member: Sharer) -> list[int]:
    return sorted(number for each in member.assigned for number in each.partitions)


def test_a_new_partition_and_a_new_topic_are_found(
    cluster: Cluster, one: Sharer, topic: str, new_name: Callable[[], str]
) -> None:
    second = new_name()
    one.heartbeat(subscribed_topic_names=[topic, second])
    cluster.create_topic(second)
    until(lambda: one.heartbeat() and len(one.assigned) == 2, "the new topic")
    with cluster.wire() as wire:
        grown = [{"name": topic, "count": 3, "assignments": None}]
        wire.ask("create_partitions", 3, topics=grown, timeout=60_000)
    until(lambda: one.heartbeat() and len(_numbers(one)) == 4, "the new partitions")


def test_a_group_is_described(one: Sharer, topic: str) -> None:
    asked = {"group_ids": [one.group, "nobody"], "include_authorized_operations": True}
    found = {
        each.group_id: each for each in one.wire.ask("share_group_describe", 1, **asked).groups
    }
    group, nobody = found[one.group], found["nobody"]  # in any order: each has its coordinator
    assert (group.error_code, group.group_state) == (ErrorCode.none, "Stable")
    assert (group.assignor_name, group.group_epoch) == ("simple", group.assignment_epoch)
    assert group.authorized_operations == 3400
    (member,) = group.members
    assert (member.member_id, member.member_epoch) == (one.member_id, one.epoch)
    assert (member.client_id, member.client_host) == ("wire", "/127.0.0.1")
    assert list(member.subscribed_topic_names) == [topic]
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, list(assigned.partitions)) == (topic, [0])
    assert nobody.error_code is ErrorCode.group_id_not_found
    assert nobody.error_message == "Group nobody not found."


def test_a_silent_member_is_removed(cluster: Cluster, topic: str, group: str, wire: Wire) -> None:
    cluster.create_topic(topic)
    configure(cluster, group, share_session_timeout_ms="1000")
    Sharer(wire, group, cluster.topic_id(topic)).join(topic)

    def is_empty() -> bool:
        found = wire.ask("share_group_describe", 1, group_ids=[group]).groups[0]
        return bool(found.group_state == "Empty")

    until(is_empty, "the member to be removed")


def test_share_groups_are_listed_and_deleted_when_empty(one: Sharer) -> None:
    def listed(*types: str) -> list[tuple[str, str, str]]:
        groups = one.wire.ask("list_groups", 5, states_filter=[], types_filter=types).groups
        return [
            (each.protocol_type, each.group_state, each.group_type)
            for each in groups
            if each.group_id == one.group
        ]

    def deleted() -> ErrorCode:
        answer = one.wire.ask("delete_groups", 2, groups_names=[one.group])
        return ErrorCode(answer.results[0].error_code)

    assert listed("share") == listed() == [("share", "Stable", "share")]
    assert listed("classic") == []
    assert deleted() is ErrorCode.non_empty_group
    left = one.leave()
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
    until(lambda: listed() == [("share", "Empty", "share")], "the group to be empty")
    assert deleted() is ErrorCode.none
    assert listed() == []
    assert deleted() is ErrorCode.group_id_not_found


def test_a_group_is_of_one_kind(one: Sharer, topic: str) -> None:
    joined = Member(one.wire, one.group).join()
    assert joined.error_code is ErrorCode.inconsistent_group_protocol
    described = one.wire.ask("describe_groups", 6, groups=[one.group]).groups[0]
    assert described.error_code is ErrorCode.group_id_not_found
    other = f"{one.group}-classic"
    classic = Member(one.wire, other)
    classic.join()
    refused = one.heartbeat(group_id=other, member_epoch=0, subscribed_topic_names=[topic])
    assert refused.error_code is ErrorCode.group_id_not_found


def test_offsets_are_described_moved_and_deleted(one: Sharer, topic: str) -> None:
    produce(one.wire, topic, batch([(None, b"v")] * 10))
    one.take()
    assert one.settle(0, 3, ACCEPT) is ErrorCode.none
    assert one.settle(8, 8, ACCEPT) is ErrorCode.none
    assert _offsets(one, topic) == [(4, 5)]

    def alter() -> Any:
        parts = [{"partition_index": 0, "start_offset": 2}, {"partition_index": 9}]
        topics = [{"topic_name": topic, "partitions": parts}]
        return one.wire.ask("alter_share_group_offsets", 0, group_id=one.group, topics=topics)

    def delete() -> Any:
        topics = [{"topic_name": topic}, {"topic_name": "nowhere"}]
        return one.wire.ask("delete_share_group_offsets", 0, group_id=one.group, topics=topics)

    assert alter().error_code is delete().error_code is ErrorCode.non_empty_group
    one.leave()
    one.close()
    moved = alter().responses[0]
    assert moved.topic_id == one.topic_id
    assert [each.error_code for each in moved.partitions] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert _offsets(one, topic) == [(2, 8)]
    gone = {each.topic_name: each.error_code for each in delete().responses}
    assert gone == {topic: ErrorCode.none, "nowhere": ErrorCode.unknown_topic_or_partition}
    assert _offsets(one, None) == []


def _offsets(one: Sharer, topic: str | None) -> list[tuple[int, int]]:
    """(start, lag) of each partition that is named, or known."""
    topics = None if topic is None else [{"topic_name": topic, "partitions": [0]}]
    asked = [{"group_id": one.group, "topics": topics}]
    (group,) = one.wire.ask("describe_share_group_offsets", 1, groups=asked).groups
    assert group.error_code is ErrorCode.none
    return [(part.start_offset, part.lag) for each in group.topics for part in each.partitions]


def test_what_is_not_there_has_no_offsets(wire: Wire, group: str) -> None:
    find_coordinator(wire, group)
    asked = [{"group_id": f"no-{uuid.uuid4()}", "topics": None}]
    (found,) = wire.ask("describe_share_group_offsets", 1, groups=asked).groups
    assert (found.error_code, found.topics) == (ErrorCode.none, ())
    topics = [{"topic_name": "nowhere"}]
    deleted = wire.ask("delete_share_group_offsets", 0, group_id="nobody", topics=topics)
    assert deleted.error_code is ErrorCode.group_id_not_found
