"""The steps that a streams group takes: look at the topics, raise the epoch, assign, reconcile.

`heartbeat` puts them together for one request, `service` for time-outs. A step changes the group and notes
in `Changes` what it touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.broker.groups.effects import Now
from headwater.broker.groups.group import Image, topics_hash
from headwater.broker.groups.streams import reconcile
from headwater.broker.groups.streams.assignor import Claim, Work, assign
from headwater.broker.groups.streams.changes import Changes
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.member import Assignment, StreamsMember
from headwater.broker.groups.streams.partitions import Configured, configured
from headwater.broker.groups.streams.status import Status, StatusCode
from headwater.broker.groups.streams.topology import Topology

STANDBYS = "num.standby.replicas"


@dataclass(frozen=True, slots=True)
class StreamsLimits:
    """The settings of one group, as they are at this moment."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    initial_delay_ms: int = 0
    standbys: int = 0
    max_size: int = 2**31 - 1

    @property
    def configs(self) -> dict[str, str]:
        """What an assignment depends on, as Kafka writes it down."""
        return {STANDBYS: str(self.standbys)}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a turn looks at besides the group: topics, limits, time."""

    image: Image
    limits: StreamsLimits
    now: Now


def look(group: StreamsGroup, topology: Topology, image: Image) -> tuple[int, Configured]:
    """The topics' hash and what the topology is beside them; changes nothing. Raises `HeartbeatRefused`."""
    known = group.configured if group.topology is not None else None
    if known is not None and group.topics_seen == image.version:
        return group.metadata_hash, known
    found = topics_hash(topology.topics, image)
    if known is not None and found == group.metadata_hash:
        return found, known
    return found, configured(topology, image)


def follow(
    group: StreamsGroup,
    changes: Changes,
    setting: Setting,
    looked: tuple[int, Configured],
    member_changed: bool,
) -> None:
    """Let the group follow its members, its topics and its configs: a change of these is a new epoch."""
    assert group.topology is not None
    metadata_hash, found = looked
    group.configured, group.topics_seen = found, setting.image.version
    validated = group.topology.epoch if found.is_ready else -1
    now = (metadata_hash, validated, setting.limits.configs)
    if member_changed or now != (group.metadata_hash, group.validated_epoch, group.configs):
        group.metadata_hash, group.validated_epoch, group.configs = now
        changes.raise_epoch()


def assign_anew(group: StreamsGroup, changes: Changes, setting: Setting) -> Status | None:
    """Make a new target if the group has moved on; says why it was put off."""
    now = setting.now
    if group.delayed_until is not None:
        if group.delayed_until > now.monotonic_ms:
            group.assign_at = None
            return _delayed("initial rebalance delay")
        group.delayed_until = None
    if group.epoch <= group.target_epoch or group.configured is None:
        return None
    if group.puts_off_assignment(setting.limits.assignment_interval_ms, now):
        return _delayed("assignment interval")
    _update_target(group, changes, setting.limits.standbys, now)
    return None


def _delayed(what: str) -> Status:
    return Status(
        StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {what}."
    )


def _update_target(group: StreamsGroup, changes: Changes, standbys: int, now: Now) -> None:
    assert group.configured is not None
    work = {
        id: Work(each.tasks, each.is_stateful)
        for id, each in group.configured.subtopologies.items()
        if group.configured.is_ready
    }
    claims = {
        member.id: Claim(member.process_id, group.target.get(member.id, Assignment()))
        for member in group.members.values()
    }
    changes.new_target(group.set_target(assign(claims, work, standbys), now))


def step(
    group: StreamsGroup,
    changes: Changes,
    setting: Setting,
    member: StreamsMember,
    owned: Assignment | None,
) -> None:
    waits = group.delayed_until is not None
    target = Assignment() if waits else group.target.get(member.id, Assignment())
    if reconcile.advance(group, member, owned, target, group.target_epoch):
        changes.current(member.id)
    group.await_release(member, setting.now)


def expel(group: StreamsGroup, changes: Changes, members: Sequence[StreamsMember]) -> None:
    """Remove members; the others are assigned anew when they are next heard of."""
    for member in members:
        group.remove(member)
        changes.gone(member.id)
    changes.raise_epoch()
