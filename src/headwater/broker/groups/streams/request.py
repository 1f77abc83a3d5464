"""A StreamsGroupHeartbeat as `heartbeat` wants it: k88 calls `read_beat`, before any group is looked at.

What a stranger may say is bounded here: names that fit a record's key, and a topology that fits a record.
The sentences are Kafka's, because clients show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker import bounds, internal_topics
from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.modern.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from headwater.broker.groups.streams.heartbeat import Beat
from headwater.broker.groups.streams.member import Assignment, Endpoint, Tasks
from headwater.broker.groups.streams.topology import Copartition, Subtopology, TopicInfo, Topology
from headwater.broker.topic_admission import TopicError, check_name

if TYPE_CHECKING:
    from kio.schema.streams_group_heartbeat.v0 import request as sent
    from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest

_MS = timedelta(milliseconds=1)


def read_beat(request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str) -> Beat:
    """Raises `HeartbeatRefused`."""
    check(request, client_id)
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    endpoint, tags = request.user_endpoint, request.client_tags
    return Beat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // _MS,
        topology=None if request.topology is None else _topology(request.topology),
        process_id=request.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=None if tags is None else _pairs(tags),
        owned=None if None in roles else Assignment(*(_tasks(role or ()) for role in roles)),
        endpoint_epoch=request.endpoint_information_epoch,
        shuts_down=request.shutdown_application,
        client_id=client_id,
        client_host=f"/{client_host}",
    )


def _tasks(said: Iterable[sent.TaskIds]) -> Tasks:
    tasks: dict[str, set[int]] = {}
    for each in said:
        tasks.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {id: frozenset(numbers) for id, numbers in tasks.items() if numbers}


def _pairs(said: Iterable[sent.KeyValue]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({each.key: each.value for each in said}.items()))


def _topology(said: sent.Topology) -> Topology:
    """Raises `HeartbeatRefused`."""
    if len(said.subtopologies) > bounds.SUBTOPOLOGIES_MAX:
        raise _wrong(f"The topology has more than {bounds.SUBTOPOLOGIES_MAX} subtopologies.")
    if sum(map(_parts, said.subtopologies)) > bounds.TOPOLOGY_PARTS_MAX:
        raise _wrong(
            f"The topology has more than {bounds.TOPOLOGY_PARTS_MAX} topics and copartition groups."
        )
    found = [_subtopology(each) for each in said.subtopologies]
    if any(len(each.id.encode()) > bounds.SUBTOPOLOGY_ID_BYTES_MAX for each in found):
        raise _wrong("A subtopology id is too long.")
    by_id = {each.id: each for each in found}
    if len(by_id) != len(found):
        raise _wrong("A subtopology id is in the topology more than once.")
    if said.epoch < 0:
        raise _wrong("Topology epoch must be non-negative.")
    topology = Topology(said.epoch, tuple(by_id[id] for id in sorted(by_id)))
    for each in found:
        if each.has_wrong_places:
            raise _wrong(f"Subtopology {each.id} copartitions topics that it does not have.")
    _check_topics(topology)
    if topology.record_bytes > bounds.TOPOLOGY_BYTES_MAX:
        raise _wrong(f"The topology has more than {bounds.TOPOLOGY_BYTES_MAX} bytes.")
    return topology


def _parts(said: sent.Subtopology) -> int:
    return sum(
        len(each)
        for each in (
            said.source_topics,
            said.state_changelog_topics,
            said.repartition_sink_topics,
            said.repartition_source_topics,
            said.copartition_groups,
        )
    )


def _subtopology(said: sent.Subtopology) -> Subtopology:
    return Subtopology(
        said.subtopology_id,
        tuple(said.source_topics),
        tuple(said.source_topic_regex),
        tuple(map(_topic, said.state_changelog_topics)),
        tuple(said.repartition_sink_topics),
        tuple(map(_topic, said.repartition_source_topics)),
        tuple(
            Copartition(
                tuple(group.source_topics),
                tuple(group.source_topic_regex),
                tuple(group.repartition_source_topics),
            )
            for group in said.copartition_groups
        ),
    )


def _topic(said: sent.TopicInfo) -> TopicInfo:
    configs = _pairs(said.topic_configs)
    return TopicInfo(said.name, said.partitions, said.replication_factor, configs)


def _check_topics(topology: Topology) -> None:
    prohibited = sorted(topology.topics & set(internal_topics.KAFKAS))
    if prohibited:
        raise _wrong(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is "
            "prohibited."
        )
    sinks = {sink for each in topology.subtopologies for sink in each.sinks}
    invalid = sorted(filter(_is_invalid, topology.topics | sinks))
    if invalid:
        names = ",".join(map(bounds.shown, invalid[:3]))
        raise _wrong(f"Topic names {names} are not valid topic names.")
    for each in topology.subtopologies:
        for changelog in each.changelogs:
            if changelog.partitions:
                raise _wrong(
                    f"Changelog topic {changelog.name} must have an undefined partition count, but it "
                    f"is set to {changelog.partitions}."
                )
        if any(topic.partitions < 0 for topic in each.repartitions):
            raise _wrong("A repartition topic has a negative number of partitions.")


def _is_invalid(name: str) -> bool:
    try:
        check_name(name)
    except TopicError:
        return True
    return False


def _wrong(why: str) -> HeartbeatRefused:
    return HeartbeatRefused(ErrorCode.streams_invalid_topology, why)


def check(request: StreamsGroupHeartbeatRequest, client_id: str) -> None:
    """Raises `HeartbeatRefused`."""
    problem = _unsupported(request) or _problem(request) or _too_long(request, client_id)
    if problem is not None:
        raise HeartbeatRefused(ErrorCode.invalid_request, problem)


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    subtopologies = () if request.topology is None else request.topology.subtopologies
    if any(each.source_topic_regex for each in subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _problem(request: StreamsGroupHeartbeatRequest) -> str | None:
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if request.member_epoch == JOIN_EPOCH:
        if (problem := _joining_problem(request)) is not None:
            return problem
    elif request.member_epoch == LEAVE_STATIC_EPOCH:
        return "InstanceId can't be null."
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        return f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in roles and any(role is not None for role in roles):
        return "If one task-type is non-null, all must be non-null."
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None


def _joining_problem(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout // _MS == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    for name in ("Active", "Standby", "Warmup"):
        tasks = getattr(request, f"{name.lower()}_tasks")
        if tasks is None or tasks:
            return f"{name}Tasks must be empty when (re-)joining."
    if request.topology is None:
        return "Topology must be non-null when (re-)joining."
    return None


def _too_long(request: StreamsGroupHeartbeatRequest, client_id: str) -> str | None:
    """What cannot stand in a record's key or value must not get into the group."""
    endpoint = request.user_endpoint
    for name, value in (
        ("MemberId", request.member_id),
        ("RackId", request.rack_id),
        ("ProcessId", request.process_id),
        ("UserEndpoint", None if endpoint is None else endpoint.host),
        ("ClientId", client_id),
    ):
        if len(value or "") > bounds.NAME_CHARS_MAX:
            return f"{name} is too long."
    tags = request.client_tags or ()
    if sum(len(tag.key) + len(tag.value) for tag in tags) > bounds.NAME_CHARS_MAX:
        return "ClientTags are too long."
    return None


def names_of(beat: Beat) -> tuple[str | None, ...]:
    """What stays of it as long as the member does, beside its id and the sizes."""
    host = None if beat.endpoint is None else beat.endpoint.host
    tags = (text for tag in beat.tags or () for text in tag)
    return (beat.client_id, beat.rack_id, beat.process_id, host, *tags)


def size_of(beat: Beat, is_new: bool) -> int:
    """What the request would leave behind, about; a group that is there has its topology already."""
    said = beat.topology if is_new else None
    return 0 if said is None else said.record_bytes
