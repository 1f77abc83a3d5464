"""How a classic group gets from one generation to the next, and what happens when time runs out.

`join` and `sync` call `prepare_or_complete` after every change of membership; the coordinator
calls `tick` when a deadline of the group has come. A rebalance has two phases: join (until all
known members have sent JoinGroup, or the longest rebalance time-out has passed) and sync (until the
leader has sent the assignment and its record is durable).
"""

from __future__ import annotations

import logging
from heapq import nsmallest

from kio.schema.errors import ErrorCode

from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.effects import Joined, Synced, Turn
from headwater.broker.groups.member import Member
from headwater.broker.groups.snapshot import record_of
from headwater.broker.groups.timeouts import AT_ONCE, few_of

log = logging.getLogger(__name__)


def prepare_or_complete(group: ClassicGroup, turn: Turn, reason: str) -> None:
    """Start a rebalance, or, if one is under way, see whether this was what it waited for."""
    if group.in_state(State.STABLE, State.COMPLETING, State.EMPTY):
        prepare(group, turn, reason)
    else:
        complete_if_all_joined(group, turn)


def prepare(group: ClassicGroup, turn: Turn, reason: str) -> None:
    if group.state is State.COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(group, turn, ErrorCode.rebalance_in_progress)
    group.pending_syncs.clear()
    group.sync_deadline = None
    first = group.is_empty
    log.info("group %s prepares generation %d: %s", group.id, group.generation + 1, reason)
    group.go(State.PREPARING, turn.now)
    if first:
        delay = turn.limits.initial_rebalance_delay_ms
        _wait_for_more(group, turn, delay, max(group.rebalance_timeout_ms() - delay, 0))
    elif group.all_joined():
        complete_join(group, turn)
    else:
        _join_until(group, turn, group.rebalance_timeout_ms())


def complete_if_all_joined(group: ClassicGroup, turn: Turn) -> None:
    """A first rebalance is not cut short: it waits for members that we do not know of (KIP-134)."""
    waits_for_strangers = group.previous_state is State.EMPTY
    if group.state is State.PREPARING and not waits_for_strangers and group.all_joined():
        complete_join(group, turn)


def complete_join(group: ClassicGroup, turn: Turn) -> None:
    """End the join phase with those who came; static members stay until their session ends."""
    group.join_deadline = group.initial_delay_left_ms = None
    group.new_member_added = False
    late = [m.id for m in group.members.values() if m.join is None and not m.is_static]
    for member_id in late:
        group.remove(member_id)
    if late:
        log.info("group %s removed members that did not rejoin: %s", group.id, few_of(late))
    if group.members and not _elect_joined_leader(group):
        _join_until(group, turn, group.rebalance_timeout_ms())
    else:
        _next_generation(group, turn)


def _elect_joined_leader(group: ClassicGroup) -> bool:
    assert group.leader is not None
    if group.members[group.leader].join is not None:
        return True
    joined = next((m.id for m in group.members.values() if m.join is not None), None)
    group.leader = joined or group.leader
    return joined is not None


def _next_generation(group: ClassicGroup, turn: Turn) -> None:
    group.generation += 1
    group.pending_syncs.clear()
    group.storing = False
    if not group.members:
        group.protocol = None
        group.read_subscriptions()
        group.go(State.EMPTY, turn.now)
        turn.persist(record_of(group), lambda _turn, error: _warn_if_not_stored(group, error))
        return
    group.protocol = group.vote()
    group.read_subscriptions()
    group.go(State.COMPLETING, turn.now)
    for member in group.members.values():
        answer_join(member, turn, group.joined(member.id))
        member.is_new = False
        session_alive(group, member, turn)
        group.pending_syncs.add(member.id)
    group.sync_deadline = turn.now.monotonic_ms + group.rebalance_timeout_ms()
    group.wake(group.sync_deadline)


def _warn_if_not_stored(group: ClassicGroup, error: ErrorCode) -> None:
    # Harmless: after a restart the older generation is back and its members time out again.
    if error is not ErrorCode.none:
        log.warning("group %s is empty, but its record was not stored: %s", group.id, error.name)


# ---- answers -------------------------------------------------------------------------------------


def answer_join(member: Member, turn: Turn, answer: Joined) -> None:
    if member.join is not None:
        ticket, member.join = member.join, None
        turn.reply(ticket, answer)


def answer_sync(member: Member, turn: Turn, answer: Synced) -> bool:
    if member.sync is None:
        return False
    ticket, member.sync = member.sync, None
    turn.reply(ticket, answer)
    return True


def answer_syncs(group: ClassicGroup, turn: Turn, error: ErrorCode) -> None:
    """Hand every waiting member its assignment, or all of them an error."""
    ok = error is ErrorCode.none
    for member in group.members.values():
        answer = Synced(
            error,
            group.protocol_type if ok else None,
            group.protocol if ok else None,
            member.assignment,
        )
        if answer_sync(member, turn, answer):
            session_alive(group, member, turn)  # its deadline may have passed while it waited


def session_alive(group: ClassicGroup, member: Member, turn: Turn) -> None:
    live_for(group, member, turn, member.session_timeout_ms)


def live_for(group: ClassicGroup, member: Member, turn: Turn, timeout_ms: int) -> None:
    member.session_deadline = turn.now.monotonic_ms + timeout_ms
    group.wake(member.session_deadline)


def drop(group: ClassicGroup, turn: Turn, member_id: str) -> None:
    """Remove a member; what it waits for is answered first, so that it comes back as a new one."""
    member = group.members.get(member_id)
    if member is not None:
        answer_join(member, turn, Joined(ErrorCode.unknown_member_id))
        answer_sync(member, turn, Synced(ErrorCode.unknown_member_id))
    group.remove(member_id)


def stop(group: ClassicGroup, turn: Turn) -> None:
    """Answer all that waits, as Kafka does when a coordinator moves: clients look for the next."""
    for member in group.members.values():
        answer_join(member, turn, Joined(ErrorCode.not_coordinator, member.id))
        answer_sync(member, turn, Synced(ErrorCode.not_coordinator))


def committed_by(group: ClassicGroup, turn: Turn, member_id: str) -> None:
    """A commit counts as a heartbeat, except in the sync phase, in which it is refused anyway."""
    member = group.members.get(member_id)
    if member is not None and group.in_state(State.STABLE, State.PREPARING):
        session_alive(group, member, turn)


# ---- time ----------------------------------------------------------------------------------------


def _join_until(group: ClassicGroup, turn: Turn, timeout_ms: int) -> None:
    group.join_deadline = turn.now.monotonic_ms + timeout_ms
    group.wake(group.join_deadline)


def _wait_for_more(group: ClassicGroup, turn: Turn, delay_ms: int, left_ms: int) -> None:
    group.initial_delay_left_ms = left_ms
    _join_until(group, turn, delay_ms)


def tick(group: ClassicGroup, turn: Turn) -> None:
    """Do what is due, in the order in which it became due, and set the next wake-up."""
    now = turn.now.monotonic_ms
    due = (deadline for deadline in group.deadlines() if deadline[0] <= now)
    for deadline, kind, member_id in nsmallest(AT_ONCE, due):  # the rest in the turns behind
        if kind == "pending" and group.pending_joins.get(member_id) == deadline:
            _expire_pending(group, turn, member_id)
        elif kind == "session":
            _expire_session(group, turn, member_id)
        elif kind == "join" and group.join_deadline == deadline:
            _expire_join(group, turn)
        elif kind == "sync" and group.sync_deadline == deadline:
            _expire_sync(group, turn)
    group.wake_at = min((deadline for deadline, _, _ in group.deadlines()), default=None)


def _expire_pending(group: ClassicGroup, turn: Turn, member_id: str) -> None:
    group.remove(member_id)
    if group.state is State.PREPARING and group.all_joined():
        complete_join(group, turn)


def _expire_session(group: ClassicGroup, turn: Turn, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None or member.session_deadline is None:
        return
    if member.session_deadline > turn.now.monotonic_ms:
        return
    if member.is_waiting:
        member.session_deadline = None  # it cannot speak while we hold its request
        return
    log.info("group %s: the session of member %s has expired", group.id, member_id)
    drop(group, turn, member_id)
    if group.in_state(State.STABLE, State.COMPLETING):
        prepare(group, turn, f"the session of member {member_id} expired")
    elif group.state is State.PREPARING and group.all_joined():
        complete_join(group, turn)


def _expire_join(group: ClassicGroup, turn: Turn) -> None:
    left = group.initial_delay_left_ms
    if group.new_member_added and left:
        group.new_member_added = False
        delay = min(turn.limits.initial_rebalance_delay_ms, left)
        _wait_for_more(group, turn, delay, left - delay)
    else:
        complete_join(group, turn)


def _expire_sync(group: ClassicGroup, turn: Turn) -> None:
    group.sync_deadline = None
    silent = sorted(group.pending_syncs)
    if not silent or not group.in_state(State.COMPLETING, State.STABLE):
        return
    for member_id in silent:
        drop(group, turn, member_id)
    prepare(group, turn, f"no SyncGroup came from {few_of(silent)}")
