"""StreamsGroupHeartbeat: how a member joins, stays, hears which tasks it has, and leaves.

`service` calls `heartbeat` with a request whose form is right and a group that exists. It changes the group
and notes what it touched; the answer is given when that is durable. A refusal changes nothing. Sentences
are Apache Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.modern.member import JOIN_EPOCH
from headwater.broker.groups.streams.changes import Changes
from headwater.broker.groups.streams.endpoints import EndpointPartitions, partitions_by_endpoint
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Assignment, Endpoint, Holding, StreamsMember
from headwater.broker.groups.streams.partitions import Configured, ConfiguredTopic
from headwater.broker.groups.streams.status import Status, StatusCode
from headwater.broker.groups.streams.steps import (
    Setting,
    assign_anew,
    follow,
    look,
    step,
)
from headwater.broker.groups.streams.topology import Topology


@dataclass(frozen=True, slots=True)
class Beat:
    """The request. None (or -1) means: as I said before."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    owned: Assignment | None = None
    endpoint_epoch: int = 0
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answer."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    statuses: tuple[Status, ...] = ()
    assignment: Assignment | None = None
    """None: as you know it."""
    more_tasks: int = 0
    """How many more it has than before; below 0: fewer."""
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    missing: tuple[ConfiguredTopic, ...] = ()
    """Internal topics that are to be made."""


def heartbeat(group: StreamsGroup, changes: Changes, beat: Beat, setting: Setting) -> Beaten:
    """Raises `HeartbeatRefused`."""
    known = _known(group, beat, setting.limits.max_size)
    topology = _topology(group, beat)
    looked = look(group, topology, setting.image)
    _check_tasks(looked[1], beat.owned)
    was_empty = group.is_empty
    if group.topology is None:
        group.topology = topology
        changes.topology()
    member = known or StreamsMember(beat.member_id)
    changed = _update(member, beat)
    if changed:
        changes.member(member.id)
    if known is None:
        group.add(member)
    follow(group, changes, setting, looked, changed)
    if was_empty and setting.limits.initial_delay_ms > 0:
        group.delayed_until = setting.now.monotonic_ms + setting.limits.initial_delay_ms
        group.wake(group.delayed_until)
    before = member.assigned
    delayed = assign_anew(group, changes, setting)
    step(group, changes, setting, member, beat.owned)
    group.stay(member, setting.now, setting.limits.session_timeout_ms)
    if beat.shuts_down:
        group.shutdown_by = group.shutdown_by or member.id
    return _answer(group, member, beat, setting, before, delayed)


def _known(group: StreamsGroup, beat: Beat, max_size: int) -> StreamsMember | None:
    member = group.members.get(beat.member_id)
    if member is None:
        if beat.epoch != JOIN_EPOCH:
            raise group.unknown_member(beat.member_id)
        if len(group.members) >= max_size:
            raise HeartbeatRefused(
                ErrorCode.group_max_size_reached,
                f"The streams group has reached its maximum capacity of {max_size} members.",
            )
    elif beat.epoch != JOIN_EPOCH:
        member.check_epoch("streams", beat.epoch, _is_subset(beat.owned, member.assigned))
    return member


def _is_subset(owned: Assignment | None, assigned: Holding) -> bool:
    if owned is None:
        return False
    return all(
        numbers <= held.get(subtopology, {}).keys()
        for tasks, held in zip(owned, assigned, strict=True)
        for subtopology, numbers in tasks.items()
    )


def _topology(group: StreamsGroup, beat: Beat) -> Topology:
    said, has = beat.topology, group.topology
    if has is None:
        if (
            said is None
        ):  # only a lost record can have caused that: the member joins anew, and says it
            raise group.unknown_member(beat.member_id)
        return said
    if said is not None and said.epoch >= has.epoch and said != has:
        raise HeartbeatRefused(ErrorCode.invalid_request, "Topology updates are not supported yet.")
    return has


def _check_tasks(configured: Configured, owned: Assignment | None) -> None:
    if owned is None or not configured.is_ready:
        return
    for subtopology, numbers in ((id, tasks[id]) for tasks in owned for id in tasks):
        found = configured.subtopologies.get(subtopology)
        if found is None:
            raise HeartbeatRefused(
                ErrorCode.invalid_request,
                f"Subtopology {subtopology} does not exist in the topology.",
            )
        for number in numbers:
            if not 0 <= number < found.tasks:
                raise HeartbeatRefused(
                    ErrorCode.invalid_request,
                    f"Task {number} for subtopology {subtopology} is invalid. Number of tasks for this "
                    f"subtopology: {found.tasks}",
                )


def _update(member: StreamsMember, beat: Beat) -> bool:
    """Take over what the member says now; True if it is anything new."""
    before = replace(member)
    member.rack_id = beat.rack_id or member.rack_id
    member.client_id, member.client_host = beat.client_id, beat.client_host
    if beat.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = beat.rebalance_timeout_ms
    if beat.topology is not None:
        member.topology_epoch = beat.topology.epoch
    member.process_id = member.process_id if beat.process_id is None else beat.process_id
    member.endpoint = beat.endpoint or member.endpoint
    member.tags = member.tags if beat.tags is None else beat.tags
    return member != before


def _answer(
    group: StreamsGroup,
    member: StreamsMember,
    beat: Beat,
    setting: Setting,
    before: Holding,
    delayed: Status | None,
) -> Beaten:
    is_new = beat.epoch == JOIN_EPOCH or before != member.assigned
    if is_new and member.endpoint is not None:
        group.endpoint_epoch += 1
    # What it was told last may not have reached it, or was not written: it is told until it says the same.
    tell = is_new or (beat.owned is not None and beat.owned != member.assigned.tasks())
    stale_endpoints = group.endpoint_epoch != beat.endpoint_epoch
    configured = group.configured
    assert configured is not None
    return Beaten(
        member_id=member.id,
        epoch=member.epoch,
        interval_ms=setting.limits.heartbeat_interval_ms,
        statuses=tuple(_statuses(group, member, configured, delayed)),
        assignment=member.assigned.tasks() if tell else None,
        more_tasks=member.assigned.size - before.size,
        endpoint_epoch=group.endpoint_epoch,
        endpoints=partitions_by_endpoint(group, setting.image) if stale_endpoints else None,
        missing=configured.missing,
    )


def _statuses(
    group: StreamsGroup, member: StreamsMember, configured: Configured, delayed: Status | None
) -> list[Status]:
    found = []
    assert group.topology is not None
    if member.topology_epoch < group.topology.epoch:
        found.append(
            Status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
                f"epoch {group.topology.epoch}.",
            )
        )
    found += [status for status in (delayed, configured.problem) if status is not None]
    if group.shutdown_by is not None:
        found.append(
            Status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a "
                "shutdown for the entire application.",
            )
        )
    return found
