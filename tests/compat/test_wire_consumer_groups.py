"""The newer group protocol at the level of bytes: epochs, reconciliation, fencing, static members."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from .cluster import Cluster
from .heartbeats import Beating, described, in_group, set_group_config, settled
from .waiting import until
from .wire import ErrorCode, Wire

NewMember = Callable[..., Beating]


@pytest.fixture
def topic_id(cluster: Cluster, wire: Wire, group: str, topic: str) -> UUID:
    return in_group(cluster, wire, group, topic)


@pytest.fixture
def new_member(cluster: Cluster, group: str, topic: str, topic_id: UUID) -> Iterator[NewMember]:
    """Members of the test's group that subscribe to its topic, each on its own connection."""
    with ExitStack() as open_connections:

        def make(member_id: str, *topics: str, **said: Any) -> Beating:
            connection = open_connections.enter_context(cluster.wire())
            return Beating(connection, group, member_id, *(topics or (topic,)), **said)

        yield make


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_malformed_heartbeat_is_told_what_is_wrong(
    new_member: NewMember, said: dict[str, Any], sentence: str
) -> None:
    answer = new_member("m").join(**said)
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, sentence)


def test_the_first_member_gets_everything(
    wire: Wire, group: str, topic: str, topic_id: UUID, new_member: NewMember
) -> None:
    member = new_member("m1")
    answer = member.join()
    assert answer.error_code is ErrorCode.none
    assert answer.member_id == "m1"
    assert member.owned == {topic_id: [0, 1, 2, 3]}
    assert member.beat().assignment is None, "nothing has changed"
    state = described(wire, group)
    assert (state.group_state, state.assignor_name) == ("Stable", "uniform")
    assert state.group_epoch == state.assignment_epoch == member.epoch
    (only,) = state.members
    assert only.subscribed_topic_names == (topic,)
    assert only.client_host == "/127.0.0.1"
    assert only.member_type == 1
    assert only.assignment == only.target_assignment


def test_a_partition_is_assigned_only_when_its_owner_has_let_go(
    wire: Wire, group: str, topic_id: UUID, new_member: NewMember
) -> None:
    first, second = new_member("m1"), new_member("m2")
    first.enter()
    old_epoch = first.epoch
    second.enter()
    assert second.owned == {}
    still = {"topic_partitions": [{"topic_id": topic_id, "partitions": [0, 1, 2, 3]}]}
    first.ask(**still)
    assert len(first.numbers) == 2, "it is told to let go of two"
    assert first.epoch == old_epoch, "it has to do so before it gets the new epoch"
    first.ask(**still)
    second.beat()
    assert second.owned == {}, "the first has not let go yet"
    assert described(wire, group).group_state == "Reconciling"
    first.beat()
    assert first.epoch == second.epoch == old_epoch + 1
    second.beat()
    assert sorted(first.numbers + second.numbers) == [0, 1, 2, 3]
    assert described(wire, group).group_state == "Stable"


def test_wrong_epochs_are_fenced_and_a_lost_answer_is_forgiven(
    topic_id: UUID, new_member: NewMember
) -> None:
    first, second = new_member("m1"), new_member("m2")
    first.enter()
    before, had = first.epoch, first.owned
    assert first.ask(member_epoch=before + 5).error_code is ErrorCode.fenced_member_epoch
    second.enter()
    first.ask()
    first.beat()
    assert first.epoch == before + 1
    kept = [{"topic_id": topic_id, "partitions": first.numbers}]
    answer = first.ask(member_epoch=before, topic_partitions=kept)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, before + 1)
    assert first.ask(member_epoch=before).error_code is ErrorCode.fenced_member_epoch
    too_much = [{"topic_id": topic_id, "partitions": had[topic_id]}]
    answer = first.ask(member_epoch=before, topic_partitions=too_much)
    assert answer.error_code is ErrorCode.fenced_member_epoch
    assert "must abandon all its partitions and rejoin" in answer.error_message


def test_strangers_are_refused(new_member: NewMember, group: str) -> None:
    stranger = new_member("stranger")
    answer = stranger.ask(member_epoch=3)
    assert answer.error_code is ErrorCode.group_id_not_found
    assert stranger.leave().error_code is ErrorCode.group_id_not_found
    new_member("m1").enter()
    answer = stranger.ask(member_epoch=3)
    assert answer.error_code is ErrorCode.unknown_member_id
    assert answer.error_message == f"Member stranger is not a member of group {group}."
    assert stranger.leave().error_code is ErrorCode.unknown_member_id


def test_an_assignor_that_there_is_not_is_refused(new_member: NewMember) -> None:
    answer = new_member("m").join(server_assignor="mine")
    assert answer.error_code is ErrorCode.unsupported_assignor
    assert "Supported assignors: uniform, range." in answer.error_message


def test_members_choose_the_assignor(wire: Wire, group: str, new_member: NewMember) -> None:
    first = new_member("m1", server_assignor="range")
    second = new_member("m2", server_assignor="range")
    first.enter()
    second.enter()
    settled(wire, group, first, second)
    assert (first.numbers, second.numbers) == ([0, 1], [2, 3])
    assert described(wire, group).assignor_name == "range"


def test_a_group_follows_its_topics(
    cluster: Cluster, wire: Wire, group: str, topic: str, new_member: NewMember
) -> None:
    later = f"{topic}-later"
    member = new_member("m1", topic, later)
    member.enter()
    assert len(member.owned) == 1
    cluster.create_topic(later, 1)
    until(lambda: member.beat() and len(member.owned) == 2, "the new topic to be assigned")
    grow = [{"name": later, "count": 3, "assignments": None}]
    assert wire.ask("create_partitions", 3, topics=grow, timeout=60_000).results[0].error_code is (
        ErrorCode.none
    )
    until(lambda: member.beat() and len(member.numbers) == 7, "the new partitions to be assigned")
    wire.ask("delete_topics", 6, topics=[{"name": later}], timeout=60_000)
    until(lambda: member.beat() and len(member.owned) == 1, "the deleted topic to go")


def test_a_member_may_change_its_subscription(
    cluster: Cluster, wire: Wire, group: str, topic: str, new_member: NewMember
) -> None:
    other = cluster.create_topic(f"{topic}-other", 2)
    member = new_member("m1")
    member.enter()
    member.beat(subscribed_topic_names=[other])
    settled(wire, group, member)
    assert member.owned == {UUID(str(cluster.topic_id(other))): [0, 1]}


@pytest.mark.parametrize("expression", ["(", "a**", "(?=x)", r"\1", "[z-a]", "a{1001}"])
def test_an_expression_that_is_none_is_refused(new_member: NewMember, expression: str) -> None:
    answer = new_member("m").join(subscribed_topic_regex=expression)
    assert answer.error_code is ErrorCode.invalid_regular_expression
    assert f"SubscribedTopicRegex `{expression}` is not a valid" in answer.error_message


def test_topics_are_found_by_regular_expression(
    cluster: Cluster, wire: Wire, group: str, topic: str, new_member: NewMember
) -> None:
    cluster.create_topic(f"{topic}.b", 2)
    cluster.create_topic(f"x{topic}", 2)
    member = new_member(
        "m1", subscribed_topic_names=None, subscribed_topic_regex=f"{topic}(\\.[ab])?"
    )
    member.enter()
    until(lambda: member.beat() and len(member.owned) == 2, "two topics to match")
    (only,) = described(wire, group).members
    assert only.subscribed_topic_regex == f"{topic}(\\.[ab])?"
    member.beat(subscribed_topic_regex="", subscribed_topic_names=[topic])
    settled(wire, group, member)
    assert len(member.owned) == 1


def test_a_static_member_returns_to_its_partitions(
    wire: Wire, group: str, new_member: NewMember
) -> None:
    first, second = new_member("a", instance_id="i1"), new_member("b", instance_id="i2")
    first.enter()
    second.enter()
    settled(wire, group, first, second)
    had, epoch = first.owned, described(wire, group).group_epoch
    rival = new_member("c", instance_id="i1")
    answer = rival.join()
    assert answer.error_code is ErrorCode.unreleased_instance_id
    assert rival.ask(member_epoch=epoch).error_code is ErrorCode.fenced_instance_id
    assert first.leave(-2).member_epoch == -2
    assert described(wire, group).group_epoch == epoch, "nobody else has to move"
    assert rival.join().error_code is ErrorCode.none
    assert rival.owned == had
    assert described(wire, group).group_epoch == epoch
    assert first.ask(member_epoch=epoch).error_code is ErrorCode.fenced_instance_id


def test_a_member_that_is_silent_loses_its_place(
    cluster: Cluster, wire: Wire, group: str, new_member: NewMember
) -> None:
    set_group_config(wire, group, "consumer.session.timeout.ms", "2000")
    lost, other = new_member("lost"), new_member("other")
    lost.enter()
    other.enter()
    until(lambda: other.beat() and len(other.numbers) == 4, "the other to get everything")
    assert lost.beat().error_code is ErrorCode.unknown_member_id


def test_a_member_that_does_not_let_go_loses_its_place(
    topic_id: UUID, new_member: NewMember
) -> None:
    stubborn, other = new_member("stubborn", rebalance_timeout=1000), new_member("other")
    stubborn.enter()
    other.enter()
    still = {"topic_partitions": [{"topic_id": topic_id, "partitions": [0, 1, 2, 3]}]}

    def other_has_all() -> bool:
        stubborn.ask(**still)
        other.beat()
        return len(other.numbers) == 4

    until(other_has_all, "the other to get everything")


def test_a_groups_own_settings_count(wire: Wire, group: str, new_member: NewMember) -> None:
    member = new_member("m1")
    assert member.join().heartbeat_interval.total_seconds() == 0.2
    set_group_config(wire, group, "consumer.heartbeat.interval.ms", "300")
    until(
        lambda: member.beat().heartbeat_interval.total_seconds() == 0.3, "the new interval to count"
    )


def test_offsets_go_with_epochs(
    wire: Wire, group: str, topic: str, topic_id: UUID, new_member: NewMember
) -> None:
    first, second = new_member("m1"), new_member("m2")
    first.enter()
    old = first.epoch
    second.enter()
    first.ask()
    settled(wire, group, first, second)
    mine, others = first.numbers[0], second.numbers[0]

    def commit(member: str, epoch: int, partition: int = mine, version: int = 9) -> ErrorCode:
        each = {"partition_index": partition, "committed_offset": 7, "committed_metadata": ""}
        topics = [{"name": topic, "topic_id": topic_id, "partitions": [each]}]
        wire.send(
            "offset_commit",
            version,
            lenient=True,
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=topics,
        )
        return wire.receive()[1].topics[0].partitions[0].error_code

    for version in (9, 10):
        assert commit("m1", first.epoch, version=version) is ErrorCode.none
        assert commit("m1", old, version=version) is ErrorCode.none, "it has had it since then"
        assert commit("m1", old, others, version) is ErrorCode.stale_member_epoch
        assert commit("m1", first.epoch + 1, version=version) is ErrorCode.stale_member_epoch
        assert commit("nobody", first.epoch, version=version) is ErrorCode.unknown_member_id
        assert commit("", -1, version=version) is ErrorCode.unknown_member_id
    assert commit("m1", first.epoch, version=8) is ErrorCode.unsupported_version

    def fetch(member: str | None, epoch: int) -> ErrorCode:
        asked = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": topic, "partition_indexes": [mine]}],
        }
        return wire.ask("offset_fetch", 9, groups=[asked]).groups[0].error_code

    assert fetch("m1", first.epoch) is ErrorCode.none
    assert fetch(None, -1) is ErrorCode.none
    assert fetch("m1", old) is ErrorCode.stale_member_epoch
    assert fetch("nobody", first.epoch) is ErrorCode.unknown_member_id


def test_administration_of_consumer_groups(
    wire: Wire, group: str, topic: str, new_member: NewMember
) -> None:
    first, second = new_member("m1"), new_member("m2", instance_id="i2")
    first.enter()
    second.enter()
    settled(wire, group, first, second)
    listed = wire.ask("list_groups", 5, states_filter=["stable"], types_filter=["Consumer"]).groups
    (found,) = [each for each in listed if each.group_id == group]
    assert (found.group_type, found.group_state, found.protocol_type) == (
        "consumer", "Stable", "consumer",
    )  # fmt: skip
    listed = wire.ask("list_groups", 5, states_filter=[], types_filter=["classic"]).groups
    assert group not in [each.group_id for each in listed]
    classic = wire.ask("describe_groups", 6, groups=[group]).groups[0]
    assert classic.error_code is ErrorCode.group_id_not_found
    assert classic.error_message == f"Group {group} is not a classic group."
    assert classic.group_state == "Dead"
    gone = wire.ask("delete_groups", 2, groups_names=[group]).results[0]
    assert gone.error_code is ErrorCode.non_empty_group
    asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    erased = wire.ask("offset_delete", 0, group_id=group, topics=asked)
    assert erased.topics[0].partitions[0].error_code is ErrorCode.group_subscribed_to_topic
    who = [{"member_id": "", "group_instance_id": "i2"}, {"member_id": "m1"}, {"member_id": "x"}]
    left = wire.ask("leave_group", 5, group_id=group, members=who)
    assert [each.error_code for each in left.members] == [
        ErrorCode.none, ErrorCode.none, ErrorCode.unknown_member_id,
    ]  # fmt: skip
    assert described(wire, group).group_state == "Empty"
    gone = wire.ask("delete_groups", 2, groups_names=[group]).results[0]
    assert gone.error_code is ErrorCode.none
    assert described(wire, group).error_code is ErrorCode.group_id_not_found
