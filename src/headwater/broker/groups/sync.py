"""SyncGroup, Heartbeat and LeaveGroup: the life of a member after it has joined.

The coordinator calls these with a group that exists. The leader's SyncGroup is answered, and with
it everybody else's, only when the record with the assignments is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import GROUP_BYTES_MAX
from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.effects import NO_MEMBER_ID, Left, Synced, Ticket, Turn
from headwater.broker.groups.rebalance import (
    answer_sync,
    answer_syncs,
    complete_if_all_joined,
    drop,
    prepare,
    prepare_or_complete,
    session_alive,
)
from headwater.broker.groups.snapshot import record_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    member_id: str
    instance_id: str | None
    generation: int
    assignments: dict[str, bytes]
    protocol_type: str | None = None
    """Version 5+ says what it believes the group's protocol to be (KIP-559)."""
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A member as LeaveGroup names it; an administrator gives only the instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


def sync(group: ClassicGroup, turn: Turn, request: SyncRequest, ticket: Ticket) -> None:
    error = _sync_error(group, request)
    if error is not ErrorCode.none:
        turn.reply(ticket, Synced(error))
        return
    member = group.members[request.member_id]
    group.pending_syncs.discard(member.id)
    if not group.pending_syncs:
        group.sync_deadline = None
    if group.state is State.STABLE:
        turn.reply(
            ticket,
            Synced(ErrorCode.none, group.protocol_type, group.protocol, member.assignment),
        )
        return
    answer_sync(member, turn, Synced(ErrorCode.rebalance_in_progress))  # an older one, given up
    member.sync = ticket
    if member.id == group.leader and not group.storing:
        _store_assignments(group, turn, request)


def _sync_error(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    error = group.member_error(request.member_id, request.instance_id)
    if error is not ErrorCode.none:
        return error
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.inconsistent_group_protocol
    if request.protocol not in (None, group.protocol):
        return ErrorCode.inconsistent_group_protocol
    if group.state is State.PREPARING:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _store_assignments(group: ClassicGroup, turn: Turn, request: SyncRequest) -> None:
    generation = group.generation
    assignments = {
        member_id: request.assignments.get(member_id, b"") for member_id in group.members
    }

    def done(turn: Turn, error: ErrorCode) -> None:
        if group.state is not State.COMPLETING or group.generation != generation:
            return  # somebody joined or left meanwhile: this assignment is already history
        group.storing = False
        if error is not ErrorCode.none:
            answer_syncs(group, turn, error)
            prepare(group, turn, f"the assignment could not be stored: {error.name}")
            return
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
        group.go(State.STABLE, turn.now)
        answer_syncs(group, turn, ErrorCode.none)

    group.storing = True
    said = sum(len(member.metadata(group.protocol)) for member in group.members.values())
    if said + sum(map(len, assignments.values())) > GROUP_BYTES_MAX:
        done(turn, ErrorCode.unknown_server_error)
    else:
        turn.persist(record_of(group, assignments), done)


def heartbeat(
    group: ClassicGroup, turn: Turn, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    error = group.member_error(member_id, instance_id)
    if error is not ErrorCode.none:
        return error
    if generation != group.generation:
        return ErrorCode.illegal_generation
    session_alive(group, group.members[member_id], turn)
    if group.state is State.PREPARING:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def leave(group: ClassicGroup, turn: Turn, identities: Sequence[Identity], ticket: Ticket) -> None:
    """Remove all that are named, then rebalance once (KIP-345)."""
    if group.state is State.DEAD:
        turn.reply(ticket, Left(ErrorCode.coordinator_not_available))
        return
    errors = tuple(_leave_one(group, turn, identity) for identity in identities)
    if ErrorCode.none in errors:
        if group.in_state(State.STABLE, State.COMPLETING):
            prepare_or_complete(group, turn, "members left")
        else:
            complete_if_all_joined(group, turn)
    turn.reply_when_durable(ticket, Left(members=errors))


def _leave_one(group: ClassicGroup, turn: Turn, identity: Identity) -> ErrorCode:
    member_id = identity.member_id
    if member_id == NO_MEMBER_ID and identity.instance_id is not None:
        member_id = group.static_ids.get(identity.instance_id, NO_MEMBER_ID)
    if member_id not in group.pending_joins:
        error = group.member_error(member_id, identity.instance_id)
        if error is not ErrorCode.none:
            return error
    log.info("group %s: %s leaves (%s)", group.id, member_id, identity.reason or "no reason")
    drop(group, turn, member_id)
    return ErrorCode.none
