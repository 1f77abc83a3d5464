"""The streams group protocol (KIP-1071) at the level of bytes: topology, internal topics, tasks, epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .asking import find_coordinator
from .cluster import Cluster
from .heartbeats import set_group_config
from .streaming import (
    NO_INTERNAL,
    NO_SOURCE,
    SHUTDOWN,
    STALE,
    WRONG_PARTITIONS,
    Streaming,
    codes,
    counting,
    described,
    settled,
    subtopology,
    tasks,
    topic,
)
from .waiting import until
from .wire import ErrorCode, Wire

NewMember = Callable[..., Streaming]


@pytest.fixture
def source(cluster: Cluster, wire: Wire, group: str, new_name: Callable[[], str]) -> str:
    find_coordinator(wire, group)
    return cluster.create_topic(new_name(), 4)


@pytest.fixture
def new_member(cluster: Cluster, group: str, source: str) -> Iterator[NewMember]:
    """Members of the test's group that count its words, each on its own connection."""
    cluster.created.extend((f"{group}-words-repartition", f"{group}-counts-changelog"))
    with ExitStack() as open_connections:

        def make(member_id: str, topology: Any = None, **said: Any) -> Streaming:
            connection = open_connections.enter_context(cluster.wire())
            said_topology = topology or counting(source, group)
            return Streaming(connection, group, member_id, said_topology, **said)

        yield make


def counted(*members: Streaming) -> list[tuple[str, int]]:
    return sorted((id, n) for each in members for id, ns in each.active.items() for n in ns)


ALL = [(id, number) for id in ("0", "1") for number in range(4)]


# ---- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": []}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        (
            {"warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
            "WarmupTasks are not supported yet.",
        ),
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        (
            {"standby_tasks": [{"subtopology_id": "0", "partitions": [0]}]},
            "StandbyTasks must be empty when (re-)joining.",
        ),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": 5}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_a_malformed_heartbeat_is_told_what_is_wrong(
    new_member: NewMember, said: dict[str, Any], sentence: str
) -> None:
    answer = new_member("m").join(**said)
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, sentence)
    assert (answer.status, answer.active_tasks) == ((), None)


@pytest.mark.parametrize(
    ("subtopologies", "sentence"),
    [
        (
            [subtopology("0", ["__consumer_offsets"])],
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (
            [subtopology("0", ["a:b"])],
            "Topic names a:b are not valid topic names.",
        ),
        (
            [subtopology("0", [], changelogs=[topic("c", 3)])],
            "Changelog topic c must have an undefined partition count, but it is set to 3.",
        ),
        (
            [subtopology("0", repartitions=[topic("r")])],
            "Failed to compute number of partitions for all repartition topics, because a repartition "
            "source topic is never used as a sink topic.",
        ),
        (
            [subtopology("0", repartitions=[topic("r")], sinks=["r"])],
            "Failed to compute number of partitions for all repartition topics. There may be loops in "
            "the topology that cannot be resolved.",
        ),
        ([subtopology("0")], "No source topics found for subtopology 0"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(
    new_member: NewMember, subtopologies: list[Any], sentence: str
) -> None:
    answer = new_member("m", {"epoch": 0, "subtopologies": subtopologies}).join()
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.streams_invalid_topology,
        sentence,
    )


def test_who_is_no_member_is_told_so(wire: Wire, new_member: NewMember, group: str) -> None:
    stranger = new_member("x")
    stranger.epoch = 3
    assert stranger.beat().error_code is ErrorCode.group_id_not_found
    new_member("m").enter()
    assert stranger.beat().error_code is ErrorCode.unknown_member_id
    assert stranger.leave().error_code is ErrorCode.unknown_member_id


def test_a_name_belongs_to_one_kind_of_group(wire: Wire, new_member: NewMember, group: str) -> None:
    new_member("m").enter()
    said = {
        "member_id": "c",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "topic_partitions": [],
    }
    other = wire.ask(
        "consumer_group_heartbeat", 1, group_id=group, subscribed_topic_names=["t"], **said
    )
    assert other.error_code is ErrorCode.group_id_not_found
    assert other.error_message == f"Group {group} is not a consumer group."
    state = wire.ask("consumer_group_describe", 1, group_ids=[group]).groups[0]
    assert state.error_code is ErrorCode.group_id_not_found


# ---- topics -----------------------------------------------------------------------------------------


def test_internal_topics_are_made_and_then_used(
    wire: Wire, cluster: Cluster, new_member: NewMember, group: str, source: str
) -> None:
    member = new_member("m")
    first = member.join()
    assert first.error_code is ErrorCode.none
    assert codes(first) == [NO_INTERNAL]
    assert first.status[0].status_detail.startswith("Internal topics are missing: ")
    assert (first.active_tasks, first.standby_tasks, first.warmup_tasks) == ((), (), ())
    assert described(wire, group).group_state == "NotReady"
    until(lambda: codes(member.beat()) == [], "the topics to be there")
    settled(member)
    assert counted(member) == ALL
    asked = [{"name": f"{group}-{each}"} for each in ("words-repartition", "counts-changelog")]
    found = wire.ask("metadata", 12, topics=asked, allow_auto_topic_creation=False)
    assert [len(each.partitions) for each in found.topics] == [4, 4]
    configs = wire.ask(
        "describe_configs",
        4,
        resources=[{"resource_type": 2, "resource_name": f"{group}-counts-changelog"}],
    )
    policy = {each.name: each.value for each in configs.results[0].configs}["cleanup.policy"]
    assert policy == "compact"


def test_source_topics_that_are_missing_are_named(
    cluster: Cluster, wire: Wire, new_member: NewMember, group: str, new_name: Callable[[], str]
) -> None:
    missing = new_name()
    member = new_member("m", {"epoch": 0, "subtopologies": [subtopology("0", [missing])]})
    answer = member.join()
    assert codes(answer) == [NO_SOURCE]
    assert answer.status[0].status_detail == f"Source topics {missing} are missing."
    assert member.active == {}
    cluster.create_topic(missing, 2)
    until(lambda: codes(member.beat()) == [], "the topic to be seen")
    settled(member)
    assert member.active == {"0": [0, 1]}


def test_topics_that_are_read_side_by_side_must_have_as_many_partitions(
    cluster: Cluster, new_member: NewMember, source: str, new_name: Callable[[], str]
) -> None:
    other = cluster.create_topic(new_name(), 3)
    joined = subtopology("0", [source, other], together=[([0, 1], [])])
    answer = new_member("m", {"epoch": 0, "subtopologies": [joined]}).join()
    pairs = ", ".join(sorted((f"{source}=4", f"{other}=3")))
    assert codes(answer) == [WRONG_PARTITIONS]
    assert answer.status[0].status_detail == (
        f"Following topics do not have the same number of partitions: [{{{pairs}}}]"
    )


def test_a_fixed_repartition_topic_must_fit_its_source(
    new_member: NewMember, source: str, group: str
) -> None:
    fixed = topic(f"{group}-words-repartition", 3)
    subtopologies = [
        subtopology("0", [source], sinks=[fixed["name"]]),
        subtopology("1", [source], repartitions=[fixed], together=[([0], [0])]),
    ]
    answer = new_member("m", {"epoch": 0, "subtopologies": subtopologies}).join()
    assert codes(answer) == [WRONG_PARTITIONS]
    assert answer.status[0].status_detail == (
        f"Number of partitions [3] of repartition topic [{fixed['name']}] doesn't match number of "
        "partitions [4] of the source topic."
    )


def test_an_internal_topic_with_another_number_of_partitions_is_left_alone(
    cluster: Cluster, new_member: NewMember, group: str
) -> None:
    cluster.create_topic(f"{group}-counts-changelog", 3)
    answer = new_member("m").join()
    assert codes(answer) == [WRONG_PARTITIONS]
    assert answer.status[0].status_detail == (
        f"Existing topic {group}-counts-changelog has different number of partitions: expected 4, "
        "found 3"
    )


def test_a_topology_stays_as_it_was_first_said(
    new_member: NewMember, source: str, group: str, wire: Wire
) -> None:
    new_member("m", counting(source, group, epoch=2)).enter()
    stale = new_member("old", counting(source, group, epoch=1)).join()
    assert codes(stale)[0] == STALE
    assert stale.status[0].status_detail == (
        "The member's topology epoch 1 is behind the group's topology epoch 2."
    )
    for other in (counting(source, group, epoch=3), counting(source, f"{group}-b", epoch=2)):
        refused = new_member("new", other).join()
        assert refused.error_code is ErrorCode.invalid_request
        assert refused.error_message == "Topology updates are not supported yet."


# ---- tasks ------------------------------------------------------------------------------------------


def joined(member: Streaming) -> Streaming:
    member.enter()
    until(lambda: codes(member.beat()) == [], "the topics to be there")
    settled(member)
    return member


def test_a_task_is_given_only_when_its_owner_has_let_go(new_member: NewMember) -> None:
    first = joined(new_member("a"))
    second = new_member("b")
    second.enter()
    had = counted(first)
    told = first.ask(**tasks(first.active, {}))
    assert counted(first) != had, "it is told to let go"
    assert told.member_epoch < second.epoch, "and keeps its epoch until it has"
    still = second.beat()
    assert still.error_code is ErrorCode.none
    assert counted(first, second) != ALL
    settled(first, second)
    assert counted(first, second) == ALL
    assert sorted(map(len, first.active.values())) == sorted(map(len, second.active.values()))


def test_members_of_one_process_share_its_load(new_member: NewMember) -> None:
    first, second = (new_member(each, process_id="p") for each in "ab")
    alone = new_member("c")
    joined(first)
    second.enter()
    alone.enter()
    settled(first, second, alone)
    assert counted(first, second, alone) == ALL
    assert sorted(len(counted(each)) for each in (first, second, alone)) == [2, 3, 3]


def test_what_a_member_leaves_goes_to_the_others(new_member: NewMember) -> None:
    first = joined(new_member("a"))
    second = new_member("b")
    second.enter()
    settled(first, second)
    left = second.leave()
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)
    assert (left.status, left.active_tasks) == ((), None)
    settled(first)
    assert counted(first) == ALL


def test_standbys_are_beside_the_owner(new_member: NewMember, wire: Wire, group: str) -> None:
    set_group_config(wire, group, "streams.num.standby.replicas", "1")
    first = joined(new_member("a"))
    assert first.standby == {}
    second = new_member("b")
    second.enter()
    settled(first, second)
    assert counted(first, second) == ALL
    assert set(first.standby) == set(second.standby) == {"1"}
    for one, other in ((first, second), (second, first)):
        assert one.standby["1"] == other.active["1"]
    set_group_config(wire, group, "streams.num.standby.replicas", "0")
    until(lambda: not (first.beat() and first.standby), "the standby to go")
    settled(first, second)
    assert second.standby == {}


def test_a_member_with_an_old_or_invented_epoch_is_fenced(new_member: NewMember) -> None:
    member = joined(new_member("a"))
    for epoch, word in ((member.epoch + 7, "greater"), (member.epoch - 2, "smaller")):
        answer = member.ask(member_epoch=epoch)
        assert answer.error_code is ErrorCode.fenced_member_epoch
        assert answer.error_message == (
            f"The streams group member has a {word} member epoch ({epoch}) than the one known by the "
            f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )


def test_tasks_that_there_are_not_are_refused(new_member: NewMember) -> None:
    member = joined(new_member("a"))
    unknown = member.ask(**tasks({"9": [0]}, {}))
    assert (unknown.error_code, unknown.error_message) == (
        ErrorCode.invalid_request,
        "Subtopology 9 does not exist in the topology.",
    )
    beyond = member.ask(**tasks({"0": [4]}, {}))
    assert beyond.error_message == (
        "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"
    )


def test_a_silent_member_is_removed(new_member: NewMember, wire: Wire, group: str) -> None:
    set_group_config(wire, group, "streams.session.timeout.ms", "2000")
    first = joined(new_member("a"))
    second = new_member("b")
    second.enter()
    settled(first, second)

    def removed() -> bool:
        first.beat()
        return len(described(wire, group).members) == 1

    until(removed, "the silent member to go")
    settled(first)
    assert counted(first) == ALL
    assert second.beat().error_code is ErrorCode.unknown_member_id


def test_a_request_to_shut_down_reaches_everybody(new_member: NewMember) -> None:
    first = joined(new_member("a"))
    second = new_member("b")
    second.enter()
    second.leave(shutdown_application=True)
    answer = first.beat()
    assert codes(answer) == [SHUTDOWN]
    assert answer.status[0].status_detail == (
        "Streams group member b encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    first.leave()
    assert SHUTDOWN not in codes(first.join()), "with the last member it is forgotten"


def test_members_hear_where_queries_are_answered(
    new_member: NewMember, source: str, group: str
) -> None:
    member = joined(new_member("a", user_endpoint={"host": "127.0.0.1", "port": 7001}))
    assert member.beat().partitions_by_user_endpoint is None, "it knows"
    other = new_member("b")
    answer = other.join()
    (found,) = answer.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port) == ("127.0.0.1", 7001)
    served = {each.topic: sorted(each.partitions) for each in found.active_partitions}
    assert served == {source: [0, 1, 2, 3], f"{group}-words-repartition": [0, 1, 2, 3]}
    assert found.standby_partitions == ()


# ---- looking, offsets, the end ----------------------------------------------------------------------


def test_a_group_is_described(new_member: NewMember, wire: Wire, group: str, source: str) -> None:
    tags = [{"key": "zone", "value": "a"}]
    endpoint = {"host": "localhost", "port": 65_000}
    member = joined(new_member("a", rack_id="r", user_endpoint=endpoint))
    member.ask(client_tags=tags)
    settled(member)
    state = described(wire, group)
    assert (state.error_code, state.group_state) == (ErrorCode.none, "Stable")
    assert state.group_epoch == state.assignment_epoch == member.epoch
    words, counts = state.topology.subtopologies
    assert state.topology.epoch == 0
    assert (words.subtopology_id, words.source_topics) == ("0", (source,))
    assert words.repartition_sink_topics == (f"{group}-words-repartition",)
    (repartition,) = counts.repartition_source_topics
    (changelog,) = counts.state_changelog_topics
    assert (repartition.name, repartition.partitions) == (f"{group}-words-repartition", 4)
    assert (changelog.name, changelog.partitions) == (f"{group}-counts-changelog", 4)
    assert [(each.key, each.value) for each in changelog.topic_configs] == [
        ("cleanup.policy", "compact")
    ]
    (only,) = state.members
    assert (only.member_id, only.process_id, only.rack_id) == ("a", "a", "r")
    assert (only.user_endpoint.host, only.user_endpoint.port) == ("localhost", 65_000)
    assert [(each.key, each.value) for each in only.client_tags] == [("zone", "a")]
    assert (only.topology_epoch, only.is_classic, only.instance_id) == (0, False, None)
    assert only.client_host == "/127.0.0.1"
    assert only.assignment == only.target_assignment
    assert [each.partitions for each in only.assignment.active_tasks] == [(0, 1, 2, 3)] * 2
    unknown = described(wire, f"{group}-x")
    assert unknown.error_code is ErrorCode.group_id_not_found
    assert unknown.error_message == f"Group {group}-x not found."
    listed_groups = wire.ask("list_groups", 5, states_filter=[], types_filter=["Streams"]).groups
    mine = next(each for each in listed_groups if each.group_id == group)
    assert (mine.group_type, mine.protocol_type, mine.group_state) == (
        "streams",
        "streams",
        "Stable",
    )


def commit(wire: Wire, group: str, member: str, epoch: int, topic: str, partition: int = 0) -> Any:
    partitions = [{"partition_index": partition, "committed_offset": 7, "committed_metadata": ""}]
    answer = wire.ask(
        "offset_commit",
        9,
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[{"name": topic, "partitions": partitions}],
    )
    return answer.topics[0].partitions[0].error_code


def fetched(wire: Wire, group: str, member: str | None, epoch: int, topic: str) -> Any:
    asked = {"group_id": group, "member_id": member, "member_epoch": epoch}
    topics = [{"name": topic, "partition_indexes": [0]}]
    answer = wire.ask("offset_fetch", 9, groups=[{**asked, "topics": topics}], require_stable=False)
    group_row = answer.groups[0]
    if group_row.error_code is not ErrorCode.none:
        return group_row.error_code
    return group_row.topics[0].partitions[0].committed_offset


def test_offsets_are_committed_with_the_members_epoch(
    new_member: NewMember, wire: Wire, group: str, source: str
) -> None:
    member = joined(new_member("a"))
    assert commit(wire, group, "a", member.epoch, source) is ErrorCode.none
    assert commit(wire, group, "a", member.epoch + 1, source) is ErrorCode.stale_member_epoch
    assert commit(wire, group, "x", member.epoch, source) is ErrorCode.unknown_member_id
    assert commit(wire, group, "", -1, source) is ErrorCode.unknown_member_id
    assert fetched(wire, group, "a", member.epoch, source) == 7
    assert fetched(wire, group, "a", member.epoch + 1, source) is ErrorCode.stale_member_epoch
    assert fetched(wire, group, None, -1, source) == 7
    old = member.epoch
    member.ask(rack_id="elsewhere")
    settled(member)
    assert member.epoch > old
    assert commit(wire, group, "a", old, source) is ErrorCode.none, "it has had the task since then"
    assert commit(wire, group, "a", old, f"{group}-x") is not ErrorCode.none


def test_a_group_without_members_may_be_deleted(
    new_member: NewMember, wire: Wire, group: str
) -> None:
    member = joined(new_member("a"))
    refused = wire.ask("delete_groups", 2, groups_names=[group]).results[0]
    assert refused.error_code is ErrorCode.non_empty_group
    member.leave()
    assert described(wire, group).group_state == "Empty"
    gone = wire.ask("delete_groups", 2, groups_names=[group]).results[0]
    assert gone.error_code is ErrorCode.none
    assert described(wire, group).error_code is ErrorCode.group_id_not_found
