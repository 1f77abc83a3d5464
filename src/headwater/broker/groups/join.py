"""JoinGroup: how somebody becomes a member of a classic group, or comes back to it.

The coordinator calls `join` with a request that passed its own checks (group id, session time-out).
The answer goes to the ticket: at once, when the group is complete, or when a record is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.effects import NO_MEMBER_ID, Joined, Synced, Ticket, Turn
from headwater.broker.groups.member import Member, Protocols
from headwater.broker.groups.rebalance import (
    answer_join,
    answer_sync,
    complete_if_all_joined,
    drop,
    live_for,
    prepare,
    prepare_or_complete,
    session_alive,
)
from headwater.broker.groups.snapshot import record_of


@dataclass(frozen=True, slots=True)
class JoinRequest:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_id: str
    """The id that a new member gets (handed in, because chance is not ours to take)."""
    needs_known_id: bool = True
    """Version 4+: a new member first learns its id and joins again with it (KIP-394)."""
    may_skip_assignment: bool = True
    """Version 9+: a returning static leader can be told to leave the assignment alone (KIP-814)."""
    reason: str | None = None


def join(group: ClassicGroup, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
    member_id = request.member_id
    if not group.accepts(member_id, turn.limits):
        drop(group, turn, member_id)
        turn.reply(ticket, Joined(ErrorCode.group_max_size_reached))
        complete_if_all_joined(group, turn)
    elif group.state is State.DEAD:
        turn.reply(ticket, Joined(ErrorCode.coordinator_not_available, member_id))
    elif not group.supports(request.protocol_type, request.protocols):
        turn.reply(ticket, Joined(ErrorCode.inconsistent_group_protocol, member_id))
    elif member_id == NO_MEMBER_ID:
        _join_new(group, turn, request, ticket)
    elif member_id in group.pending_joins and request.instance_id is None:
        _add(group, turn, request, member_id, ticket)
    else:
        _rejoin(group, turn, request, ticket)


def _join_new(group: ClassicGroup, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
    if request.instance_id is not None:
        old_id = group.static_ids.get(request.instance_id)
        if old_id is not None:
            _replace_static(group, turn, request, old_id, ticket)
            return
    elif request.needs_known_id:
        deadline = turn.now.monotonic_ms + request.session_timeout_ms
        group.pending_joins[request.fresh_id] = deadline
        group.wake(deadline)
        turn.reply(ticket, Joined(ErrorCode.member_id_required, request.fresh_id))
        return
    _add(group, turn, request, request.fresh_id, ticket)


def _add(
    group: ClassicGroup, turn: Turn, request: JoinRequest, member_id: str, ticket: Ticket
) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        join=ticket,
        is_new=True,
    )
    if group.state is State.PREPARING and group.previous_state is State.EMPTY:
        group.new_member_added = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    # It cannot send heartbeats before it knows its id, and a lost connection is not seen while its
    # request waits: hence this bound instead of the session time-out.
    live_for(group, member, turn, turn.limits.new_member_join_timeout_ms)
    prepare_or_complete(group, turn, f"new member {member_id} ({request.reason or 'no reason'})")


def _rejoin(group: ClassicGroup, turn: Turn, request: JoinRequest, ticket: Ticket) -> None:
    member_id = request.member_id
    error = group.member_error(member_id, request.instance_id)
    if error is ErrorCode.none and group.is_empty:
        error = ErrorCode.unknown_member_id
    if error is not ErrorCode.none:
        turn.reply(ticket, Joined(error, member_id))
        return
    member = group.members[member_id]
    unchanged = member.protocols == request.protocols
    # The leader joins again to say that the assignment must change though its own metadata did not
    # (new partitions, for example). Anybody else without news has only missed our last answer.
    news = not unchanged or (group.state is State.STABLE and member_id == group.leader)
    if group.state is not State.PREPARING and not news:
        turn.reply(ticket, group.joined(member_id))
        return
    _update(group, turn, member, request, ticket)
    prepare_or_complete(group, turn, f"member {member_id} ({request.reason or 'no reason'})")


def _update(
    group: ClassicGroup, turn: Turn, member: Member, request: JoinRequest, ticket: Ticket
) -> None:
    # An older JoinGroup of the same member gave up waiting, but may sit in front of other answers.
    answer_join(member, turn, Joined(ErrorCode.rebalance_in_progress, member.id))
    group.change_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.join = ticket


def _replace_static(
    group: ClassicGroup, turn: Turn, request: JoinRequest, old_id: str, ticket: Ticket
) -> None:
    """A static member is back as a new process: it takes over its place, the old one is fenced."""
    old_leader = group.leader
    member = group.members[old_id]
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    answer_join(member, turn, Joined(ErrorCode.fenced_instance_id, old_id))
    answer_sync(member, turn, Synced(ErrorCode.fenced_instance_id))
    group.rename(old_id, request.fresh_id)
    member.is_new = False
    session_alive(group, member, turn)
    _update(group, turn, member, request, ticket)
    if group.state is State.COMPLETING:
        # The leader may already be assigning partitions to the old id, which would be lost.
        prepare(group, turn, f"static member {request.instance_id} came back")
    elif group.state is State.PREPARING:
        complete_if_all_joined(group, turn)
    elif group.vote() != group.protocol:
        prepare(group, turn, f"static member {request.instance_id} changed the group's protocol")
    else:
        _store_takeover(group, turn, request, member, old_id, old_leader, before, ticket)


def _store_takeover(
    group: ClassicGroup,
    turn: Turn,
    request: JoinRequest,
    member: Member,
    old_id: str,
    old_leader: str | None,
    before: tuple[Protocols, int, int],
    ticket: Ticket,
) -> None:
    """No rebalance: what changed has to be durable before the member hears of its new id.

    It may have come back with another subscription. Kafka protects the offsets of the new topics
    only from the next generation or restart on; here they count as soon as the log says so.
    """

    def done(turn: Turn, error: ErrorCode) -> None:
        if member.join is not ticket or group.state is not State.STABLE:
            return  # a rebalance has begun since; it will answer
        if error is not ErrorCode.none:
            group.change_protocols(member, before[0])
            member.rebalance_timeout_ms, member.session_timeout_ms = before[1:]
            group.rename(member.id, old_id)
            answer = Joined(
                error, NO_MEMBER_ID, group.generation, group.protocol_type, group.protocol
            )
        elif request.may_skip_assignment:
            answer = group.joined(member.id, skip_assignment=member.id == group.leader)
        else:
            # An older client that sees itself as leader would assign anew: name the old id instead.
            answer = group.joined(member.id)._replace(leader=old_leader or "", members=())
        group.read_subscriptions()
        answer_join(member, turn, answer)
        session_alive(group, member, turn)

    turn.persist(record_of(group), done)
