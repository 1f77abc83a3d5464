"""Committed offsets and group administration at the level of bytes."""

from __future__ import annotations

from typing import Any

import pytest

from .asking import Member, find_coordinator, subscription
from .cluster import Cluster
from .waiting import until
from .wire import ErrorCode, Wire


@pytest.fixture
def simple(wire: Wire, cluster: Cluster, topic: str, group: str) -> Member:
    """A committer that belongs to no generation, and a topic of three partitions."""
    cluster.create_topic(topic, partitions=3)
    find_coordinator(wire, group)
    return Member(wire, group)


def committed(wire: Wire, group: str, topics: Any, version: int = 8, **more: Any) -> Any:
    return wire.ask(
        "offset_fetch", version, groups=[{"group_id": group, "topics": topics}], **more
    ).groups[0]


def offsets(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


def joined(wire: Wire, group: str) -> Member:
    member = Member(wire, group)
    member.join()
    member.sync({member.member_id: b""})
    return member


def test_commit_and_fetch_with_metadata(wire: Wire, simple: Member, topic: str) -> None:
    row = {"committed_offset": 42, "committed_leader_epoch": 0, "committed_metadata": "why"}
    topics = [{"name": topic, "partitions": [{"partition_index": 1, **row}]}]
    assert simple.commit(topic, 0, topics=topics) is ErrorCode.none
    answer = committed(wire, simple.group, [{"name": topic, "partition_indexes": [0, 1]}])
    unset, found = sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (42, "why", 0)
    assert (unset.committed_offset, unset.metadata, unset.committed_leader_epoch) == (-1, "", -1)
    assert unset.error_code is found.error_code is ErrorCode.none


def test_null_topics_fetches_everything_committed(wire: Wire, simple: Member, topic: str) -> None:
    for partition in (0, 2):
        assert simple.commit(topic, partition + 10, partition) is ErrorCode.none
    answer = committed(wire, simple.group, None)
    assert offsets(answer) == {(topic, 0): 10, (topic, 2): 12}
    stable = committed(wire, simple.group, None, require_stable=True)
    assert offsets(stable) == offsets(answer)


def test_several_groups_in_one_fetch(wire: Wire, simple: Member, topic: str) -> None:
    simple.commit(topic, 7)
    other = f"{simple.group}-other"
    answer = wire.ask(
        "offset_fetch",
        8,
        groups=[
            {"group_id": simple.group, "topics": None},
            {"group_id": other, "topics": [{"name": topic, "partition_indexes": [0]}]},
        ],
    )
    by_group = {each.group_id: offsets(each) for each in answer.groups}
    assert by_group == {simple.group: {(topic, 0): 7}, other: {(topic, 0): -1}}


def test_commits_by_topic_id(wire: Wire, cluster: Cluster, simple: Member, topic: str) -> None:
    topic_id = cluster.topic_id(topic)
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1}
    answer = wire.ask(
        "offset_commit",
        10,
        group_id=simple.group,
        generation_id_or_member_epoch=-1,
        topics=[{"topic_id": topic_id, "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    wanted = [{"topic_id": topic_id, "partition_indexes": [0]}]
    groups = [{"group_id": simple.group, "member_epoch": -1, "topics": wanted}]
    found = wire.ask("offset_fetch", 10, groups=groups).groups[0].topics[0]
    assert (found.topic_id, found.partitions[0].committed_offset) == (topic_id, 5)


def test_unknown_topic_ids_in_commits_are_named(wire: Wire, simple: Member, new_uuid: Any) -> None:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1}
    answer = wire.ask(
        "offset_commit",
        10,
        group_id=simple.group,
        generation_id_or_member_epoch=-1,
        topics=[{"topic_id": new_uuid, "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id
    wanted = [{"topic_id": new_uuid, "partition_indexes": [0]}]
    groups = [{"group_id": simple.group, "member_epoch": -1, "topics": wanted}]
    found = wire.ask("offset_fetch", 10, groups=groups).groups[0].topics[0]
    assert found.partitions[0].error_code is ErrorCode.unknown_topic_id


def test_a_commit_to_an_unknown_topic_is_refused(simple: Member, topic: str) -> None:
    assert simple.commit(f"{topic}-not", 1) is ErrorCode.unknown_topic_or_partition
    assert simple.commit(topic, 1, partition=9) is ErrorCode.unknown_topic_or_partition


def test_too_much_metadata_is_refused(wire: Wire, simple: Member, topic: str) -> None:
    row = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "x" * 4097}
    topics = [{"name": topic, "partitions": [{"partition_index": 0, **row}]}]
    assert simple.commit(topic, 0, topics=topics) is ErrorCode.offset_metadata_too_large
    assert offsets(committed(wire, simple.group, None)) == {}


def test_commits_from_outside_a_live_group_are_refused(
    wire: Wire, cluster: Cluster, simple: Member, topic: str
) -> None:
    with cluster.wire() as other:
        member = joined(other, simple.group)
        assert member.commit(topic, 3) is ErrorCode.none
        assert simple.commit(topic, 9) is ErrorCode.unknown_member_id
        stranger = simple.commit(
            topic, 9, member_id="stranger", generation_id_or_member_epoch=member.generation
        )
        assert stranger is ErrorCode.unknown_member_id
        stale = member.commit(topic, 9, generation_id_or_member_epoch=member.generation + 1)
        assert stale is ErrorCode.illegal_generation
    assert offsets(committed(wire, simple.group, None)) == {(topic, 0): 3}


def test_a_generation_in_a_group_that_does_not_exist_is_refused(simple: Member, topic: str) -> None:
    ghost: dict[str, Any] = {"generation_id_or_member_epoch": 4, "member_id": "m"}
    assert simple.commit(topic, 1, version=8, **ghost) is ErrorCode.illegal_generation
    assert simple.commit(topic, 1, version=9, **ghost) is ErrorCode.group_id_not_found


def test_a_commit_during_a_rebalance_is_told_so(
    wire: Wire, cluster: Cluster, simple: Member, topic: str
) -> None:
    member = Member(wire, simple.group)
    member.join()
    assert member.commit(topic, 1) is ErrorCode.rebalance_in_progress


def delete_offsets(wire: Wire, group: str, topic: str, partition: int) -> Any:
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    return wire.ask("offset_delete", 0, group_id=group, topics=topics)


def test_offsets_can_be_deleted_one_by_one(wire: Wire, simple: Member, topic: str) -> None:
    simple.commit(topic, 1, partition=0)
    simple.commit(topic, 2, partition=1)
    answer = delete_offsets(wire, simple.group, topic, 0)
    assert answer.error_code is ErrorCode.none
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    assert offsets(committed(wire, simple.group, None)) == {(topic, 1): 2}


def test_offsets_of_an_unknown_group_cannot_be_deleted(
    wire: Wire, simple: Member, topic: str
) -> None:
    answer = delete_offsets(wire, f"{simple.group}-not", topic, 0)
    assert answer.error_code is ErrorCode.group_id_not_found


def group_rows(wire: Wire, **filters: Any) -> dict[str, Any]:
    return {each.group_id: each for each in wire.ask("list_groups", 5, **filters).groups}


def test_list_groups_by_state_and_type(
    wire: Wire, cluster: Cluster, simple: Member, topic: str
) -> None:
    simple.commit(topic, 1)
    live = f"{simple.group}-live"
    with cluster.wire() as other:
        joined(other, live)
        rows = group_rows(wire)
        assert (rows[live].group_state, rows[live].protocol_type) == ("Stable", "consumer")
        assert rows[live].group_type == "classic"
        assert rows[simple.group].group_state == "Empty"
        stable = group_rows(wire, states_filter=["stable"])
        assert live in stable
        assert simple.group not in stable
        assert live in group_rows(wire, types_filter=["Classic"])
        assert live not in group_rows(wire, types_filter=["consumer"])


def test_describe_groups_shows_members(wire: Wire, cluster: Cluster, simple: Member) -> None:
    with cluster.wire() as other:
        member = Member(other, simple.group, group_instance_id="desk-1")
        member.join()
        member.sync({member.member_id: b"plan"})
        (found,) = wire.ask("describe_groups", 5, groups=[simple.group]).groups
        assert (found.group_state, found.protocol_type) == ("Stable", "consumer")
        assert found.protocol_data == "range"
        (row,) = found.members
        assert (row.member_id, row.group_instance_id) == (member.member_id, "desk-1")
        assert (row.client_id, row.client_host.strip("/")) == ("wire", "127.0.0.1")
        assert (row.member_metadata, row.member_assignment) == (subscription(), b"plan")


def test_an_unknown_group_is_dead_or_not_found(wire: Wire, simple: Member) -> None:
    (old,) = wire.ask("describe_groups", 5, groups=[f"{simple.group}-not"]).groups
    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    (new,) = wire.ask("describe_groups", 6, groups=[f"{simple.group}-not"]).groups
    assert (new.error_code, new.group_state) == (ErrorCode.group_id_not_found, "Dead")


def test_delete_groups(wire: Wire, cluster: Cluster, simple: Member, topic: str) -> None:
    simple.commit(topic, 1)
    live, missing = f"{simple.group}-live", f"{simple.group}-not"
    with cluster.wire() as other:
        joined(other, live)
        names = [simple.group, live, missing, ""]
        results = wire.ask("delete_groups", 2, groups_names=names).results
    assert {each.group_id: each.error_code for each in results} == {
        simple.group: ErrorCode.none,
        live: ErrorCode.non_empty_group,
        missing: ErrorCode.group_id_not_found,
        "": ErrorCode.group_id_not_found,
    }
    assert offsets(committed(wire, simple.group, None)) == {}
    assert simple.group not in group_rows(wire)


def test_deleting_a_topic_deletes_its_offsets(wire: Wire, simple: Member, topic: str) -> None:
    simple.commit(topic, 1)
    wire.ask("delete_topics", 6, topics=[{"name": topic}], timeout=9000)
    until(lambda: offsets(committed(wire, simple.group, None)) == {}, "its offsets to go too")
