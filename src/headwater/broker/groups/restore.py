"""From the log back to memory: what the groups and offsets were when the broker stopped.

The coordinator calls `replay` once, before it answers anybody, with all records of
`__consumer_offsets` in log order. The newest record of a key wins; a tombstone removes. Members get
a full session time-out from the moment of loading, as if each had just been heard of.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headwater.broker.groups import records
from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.core import Core
from headwater.broker.groups.effects import Turn
from headwater.broker.groups.member import Member
from headwater.broker.groups.rebalance import prepare, session_alive
from headwater.broker.groups.records import GroupKey, OffsetKey

log = logging.getLogger(__name__)

Replayed = Iterable[tuple[bytes, bytes | None, int]]
"""Key, value, timestamp in ms."""


def replay(core: Core, replayed: Replayed) -> None:
    groups: dict[str, records.GroupValue] = {}
    skipped = 0
    for key_bytes, value_bytes, _timestamp in replayed:
        try:
            _apply(core, groups, key_bytes, value_bytes)
        except records.BadRecord as error:
            skipped += 1
            log.warning("a record of __consumer_offsets cannot be read: %s", error)
    for group_id, value in groups.items():
        core.groups[group_id] = restored(group_id, value, core.turn())
    if skipped:
        log.error("%d records of __consumer_offsets were skipped", skipped)


def _apply(
    core: Core, groups: dict[str, records.GroupValue], key_bytes: bytes, value: bytes | None
) -> None:
    key = records.read_key(key_bytes)
    if isinstance(key, OffsetKey):
        offset = None if value is None else records.read_offset_value(value)
        core.offsets.open(key.group_id).set(key.topic, key.partition, offset)
        core.offsets.close(key.group_id)
        if offset is not None and key.group_id not in core.groups:
            core.create_classic(key.group_id)
    elif isinstance(key, GroupKey):
        if value is None:
            groups.pop(key.group_id, None)
            if not core.offsets.of(key.group_id):
                core.groups.pop(key.group_id, None)
        else:
            groups[key.group_id] = records.read_group_value(value)


def restored(group_id: str, value: records.GroupValue, turn: Turn) -> ClassicGroup:
    """A group as its last record says: with members it is stable, without it is empty."""
    group = ClassicGroup(group_id, turn.now)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.state_timestamp = value.state_timestamp
    if value.members:
        group.state = State.STABLE
        group.protocol = value.protocol
    for stored in value.members:
        group.add(_member(stored, value.protocol or ""))
    group.leader = value.leader if value.leader in group.members else group.leader
    group.read_subscriptions()
    for member in group.members.values():
        session_alive(group, member, turn)
    return group


def _member(stored: records.MemberValue, protocol: str) -> Member:
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        ((protocol, stored.subscription),),
        stored.assignment,
    )


def shed_excess(group: ClassicGroup, turn: Turn) -> None:
    """A group above a limit that was lowered meanwhile must rebalance, so that some are refused."""
    if len(group.members) > turn.limits.group_max_size:
        prepare(group, turn, "it has more members than group.max.size")
