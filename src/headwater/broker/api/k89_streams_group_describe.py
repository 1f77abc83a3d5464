"""StreamsGroupDescribe (key 89), version 0: state, epochs, topology and members of streams groups.

The topology with the partitions that its internal topics have, where all of them are there; each member
with the tasks that it has now and those that it is to have in the end. A group that does not exist, or is
of another type, is GROUP_ID_NOT_FOUND.

KIP-1071.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.api.k15_describe_groups import ALL_OPERATIONS
from headwater.broker.bounds import shown
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Assignment, StreamsMember, task_rows
from headwater.broker.groups.streams.partitions import ConfiguredTopic
from headwater.broker.groups.streams.topology import Subtopology, TopicInfo
from headwater.broker.once import once
from headwater.broker.registry import Api, Context, always
from headwater.broker.turns import Pace, in_turns

if TYPE_CHECKING:
    from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest

    from headwater.broker.broker import Broker

Row = dict[str, object]


async def handle(broker: Broker, request: StreamsGroupDescribeRequest, context: Context) -> Row:
    pace = Pace(broker.supervisor.monotonic)
    answer = []
    for group_id in once(request.group_ids):
        answer.append(await _describe(broker, group_id))
        await pace.rest()  # a topology is large
    if request.include_authorized_operations:
        for group in answer:
            if group["error_code"] is ErrorCode.none:
                group["authorized_operations"] = ALL_OPERATIONS
    return {"groups": answer}


async def _describe(broker: Broker, group_id: str) -> Row:
    if broker.groups.refusal is not ErrorCode.none:
        return {"group_id": group_id, "error_code": broker.groups.refusal}
    if not group_id:
        return {"group_id": group_id, "error_code": ErrorCode.invalid_group_id}
    group = broker.groups.groups.get(group_id)
    if not isinstance(group, StreamsGroup) or group.dead:
        problem = "not found" if group is None else "is not a streams group"
        return {
            "group_id": group_id,
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {shown(group_id)} {problem}.",
        }
    members = in_turns(list(group.members.values()), broker.supervisor.monotonic)
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": group.state_name,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "topology": _topology(group),
        "members": [_member(group, member) async for member in members],
    }


def _topology(group: StreamsGroup) -> Row | None:
    if group.topology is None:
        return None
    configured = group.configured
    if configured is not None and configured.is_ready:
        found = [
            _subtopology(
                each.subtopology, _made_topics(each.repartitions), _made_topics(each.changelogs)
            )
            for each in configured.subtopologies.values()
        ]
    else:
        found = [
            _subtopology(each, _topics(each.repartitions), _topics(each.changelogs))
            for each in group.topology.subtopologies
        ]
    return {"epoch": group.topology.epoch, "subtopologies": found}


def _subtopology(each: Subtopology, repartitions: list[Row], changelogs: list[Row]) -> Row:
    return {
        "subtopology_id": each.id,
        "source_topics": sorted(set(each.sources)),
        "repartition_sink_topics": sorted(set(each.sinks)),
        "repartition_source_topics": repartitions,
        "state_changelog_topics": changelogs,
    }


def _made_topics(topics: tuple[ConfiguredTopic, ...]) -> list[Row]:
    return sorted((_topic(each.info, each.partitions) for each in topics), key=_name)


def _topics(topics: tuple[TopicInfo, ...]) -> list[Row]:
    return sorted((_topic(info, info.partitions) for info in topics), key=_name)


def _topic(info: TopicInfo, partitions: int) -> Row:
    return {
        "name": info.name,
        "partitions": partitions,
        "replication_factor": info.replication_factor,
        "topic_configs": _pairs(info.configs),
    }


def _name(row: Row) -> str:
    return str(row["name"])


def _member(group: StreamsGroup, member: StreamsMember) -> Row:
    endpoint = member.endpoint
    return {
        "member_id": member.id,
        "member_epoch": member.epoch,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None
        if endpoint is None
        else {"host": endpoint.host, "port": endpoint.port},
        "client_tags": _pairs(member.tags),
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": _assignment(member.assigned.tasks()),
        "target_assignment": _assignment(group.target.get(member.id, Assignment())),
        "is_classic": False,
    }


def _assignment(tasks: Assignment) -> Row:
    active, standby, warmup = map(task_rows, tasks)
    return {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": warmup}


def _pairs(pairs: tuple[tuple[str, str], ...]) -> list[Row]:
    return [{"key": key, "value": value} for key, value in pairs]


API = Api(89, "StreamsGroupDescribe", (0, 0), handle, only_looks=True, lists=always)
