"""Any order of joins, syncs, leaves, time and storage failures keeps a group consistent.

Invariants: one leader, who is a member; no request is answered twice (the room asserts that) or
forgotten; every deadline has a wake-up; a stable group is what the log says it is.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.broker.groups.classic import ClassicGroup, State
from headwater.broker.groups.records import read_group_value
from headwater.broker.groups.snapshot import restored
from headwater.broker.groups.sync import Identity

from .room import Room

INSTANCES = ["i1", "i2"]
PROTOCOLS = [
    (("range", b"\0\0\0\0\0\0"),),
    (("range", b"\0\0\0\0\0\1\0\1t"), ("sticky", b"x")),
    (("sticky", b"y"), ("range", b"")),
]


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room: Room = Room(initial_rebalance_delay_ms=3_000, group_max_size=4)
        self.room.hold = True
        self.generation = 0
        self.ids: list[str] = []

    @property
    def group(self) -> ClassicGroup:
        return self.room.group

    def _learn(self) -> None:
        for answer in self.room.answers.values():
            member_id = getattr(answer, "member_id", "")
            if member_id and member_id not in self.ids:
                self.ids.append(member_id)

    def _somebody(self, data: st.DataObject) -> str:
        self._learn()
        known = [*self.group.members, *self.group.pending_joins, *self.ids[-3:], "stranger"]
        return data.draw(st.sampled_from(known))

    def _instance_of(self, member_id: str) -> str | None:
        member = self.group.members.get(member_id)
        return member.instance_id if member else None

    @rule(
        version=st.sampled_from([3, 5, 9]),
        protocols=st.sampled_from(PROTOCOLS),
        instance=st.none() | st.sampled_from(INSTANCES),
    )
    def join_as_a_new_member(self, version: int, protocols: Any, instance: str | None) -> None:
        self.room.send_join(version=version, protocols=protocols, instance=instance)

    @rule(data=st.data(), protocols=st.sampled_from(PROTOCOLS))
    def join_again(self, data: st.DataObject, protocols: Any) -> None:
        member_id = self._somebody(data)
        self.room.send_join(member_id, protocols=protocols, instance=self._instance_of(member_id))

    @rule(data=st.data(), stale=st.booleans())
    def sync(self, data: st.DataObject, stale: bool) -> None:
        member_id = self._somebody(data)
        self.room.send_sync(
            member_id,
            {each: f"{self.group.generation}-{each}".encode() for each in self.group.members},
            instance=self._instance_of(member_id),
            generation=self.group.generation - stale,
        )

    @precondition(lambda self: self.group.state is State.COMPLETING)
    @rule()
    def everybody_syncs(self) -> None:
        for member_id in list(self.group.members):
            assignments = {each: each.encode() for each in self.group.members}
            self.room.send_sync(member_id, assignments, instance=self._instance_of(member_id))

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        member_id = self._somebody(data)
        self.room.heartbeat(member_id, self._instance_of(member_id))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.room.send_leave(self._somebody(data))

    @rule(instance=st.sampled_from(INSTANCES))
    def an_administrator_removes(self, instance: str) -> None:
        self.room.send_leave(Identity("", instance))

    @rule(ms=st.sampled_from([1, 2_000, 5_000, 12_000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.room.pass_ms(ms)

    @precondition(lambda self: self.room.writing)
    @rule()
    def a_record_is_durable(self) -> None:
        self.room.write()

    @precondition(lambda self: self.room.writing)
    @rule()
    def a_record_fails(self) -> None:
        self.room.fail()

    @invariant()
    def the_leader_is_a_member(self) -> None:
        assert (self.group.leader is None) == (not self.group.members)
        assert self.group.leader is None or self.group.leader in self.group.members

    @invariant()
    def states_and_members_agree(self) -> None:
        group = self.group
        if group.state is State.EMPTY:
            assert not group.members
        if group.in_state(State.STABLE, State.COMPLETING):
            assert group.members
            assert all(member.supports(group.protocol or "") for member in group.members.values())
        assert group.pending_syncs <= set(group.members)
        assert set(group.pending_joins).isdisjoint(group.members)
        by_instance = {m.instance_id: m.id for m in group.members.values() if m.instance_id}
        assert group.static_ids == by_instance

    @invariant()
    def the_generation_never_goes_back(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @invariant()
    def every_request_is_answered_or_waits_in_one_place(self) -> None:
        members = self.group.members.values()
        waiting = [t for m in members for t in (m.join, m.sync) if t is not None]
        assert len(waiting) == len(set(waiting))
        assert not set(waiting) & set(self.room.answers)
        if not self.room.writing:  # a LeaveGroup may wait for a record
            assert set(waiting) | set(self.room.answers) == set(range(1, self.room.tickets + 1))

    @invariant()
    def every_deadline_has_a_wake_up(self) -> None:
        first = min((at for at, _, _ in self.group.deadlines()), default=None)
        if first is not None:
            assert self.group.wake_at is not None
            assert self.group.wake_at <= first

    @invariant()
    def a_stable_group_is_what_the_log_says(self) -> None:
        if self.group.state is not State.STABLE or self.room.writing or not self.room.log:
            return
        again = restored("g", read_group_value(self.room.log[-1]), self.room.now())
        assert _durable(again) == _durable(self.group)

    def teardown(self) -> None:
        self.room.hold = False
        while self.room.writing:
            self.room.write()
        self.room.pass_ms(10_000_000)
        assert len(self.room.answers) == self.room.tickets
        assert self.group.state is State.EMPTY
        assert self.group.wake_at is None


def _durable(group: ClassicGroup) -> Any:
    members = {
        m.id: (m.instance_id, m.assignment, m.metadata(group.protocol), m.session_timeout_ms)
        for m in group.members.values()
    }
    return group.state, group.generation, group.protocol, group.leader, members, group.subscribed


AnyOrder.TestCase.settings = AnyOrder.TestCase.settings.__class__(
    stateful_step_count=60, deadline=None
)
test_any_order = AnyOrder.TestCase
