"""Whatever members, topics and time do: no partition has two owners, and in the end each has one.

The clients here play by the protocol, but are slow, get lost, come back, and repeat themselves. After
every step the group as the log has it must be the group as memory has it.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.group import HeartbeatRefused

from .hall import Client, Hall

TOPICS = ["a", "b", "c"]


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.hall = Hall()
        self.hall.image.put("a", 3)
        self.clients: dict[str, Client] = {}
        self.epochs: dict[str, int] = {}
        self.made = 0

    def _somebody(self, data: st.DataObject) -> Client:
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    def _try(self, client: Client, action: Any) -> None:
        """A client that is refused has lost its place: it lets go of everything."""
        try:
            action()
        except HeartbeatRefused:
            client.owned = {}
            del self.clients[client.id]

    @rule(
        topics=st.frozensets(st.sampled_from(TOPICS)),
        instance=st.sampled_from([None, None, "i1", "i2"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
        regex=st.sampled_from([None, None, "[ab]", "c|x.*"]),
    )
    def join(
        self, topics: frozenset[str], instance: str | None, assignor: str | None, regex: str | None
    ) -> None:
        self.made += 1
        client = Client(self.hall, f"m{self.made}", topics, instance)
        client.assignor, client.regex = assignor, regex
        self.clients[client.id] = client
        self._try(client, client.join)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), let_go=st.booleans())
    def beat(self, data: st.DataObject, let_go: bool) -> None:
        client = self._somebody(data)
        self._try(client, lambda: client.beat(let_go))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def lose_an_answer(self, data: st.DataObject) -> None:
        """The client repeats its last heartbeat, as if the answer had not reached it."""
        client = self._somebody(data)
        before = client.epoch, client.owned, client.told
        self._try(client, client.beat)
        if client.id in self.clients:
            client.epoch, client.owned, client.told = before
            self._try(client, lambda: client.beat(full=True))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=st.frozensets(st.sampled_from(TOPICS)))
    def subscribe_anew(self, data: st.DataObject, topics: frozenset[str]) -> None:
        client = self._somebody(data)
        client.topics = topics
        self._try(client, client.beat)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_a_moment=st.booleans())
    def leave(self, data: st.DataObject, for_a_moment: bool) -> None:
        client = self._somebody(data)
        epoch = -2 if for_a_moment and client.instance_id else -1
        self._try(client, lambda: client.leave(epoch))
        self.clients.pop(client.id, None)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def forget_everything_and_join_again(self, data: st.DataObject) -> None:
        client = self._somebody(data)
        self._try(client, client.join)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), instance=st.sampled_from(["i1", "i2"]))
    def join_again_under_another_instance_id(self, data: st.DataObject, instance: str) -> None:
        client = self._somebody(data)
        client.instance_id = instance
        self._try(client, client.join)

    @rule(ms=st.sampled_from([10, 4_000, 11_000]))
    def time_passes(self, ms: int) -> None:
        self.hall.pass_ms(ms)
        # Whoever was silent for its session knows that, too: a zombie is what commits fence.
        self.clients = {id: c for id, c in self.clients.items() if id in self.hall.group.members}

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(1, 5))
    def make_or_grow(self, topic: str, partitions: int) -> None:
        known = self.hall.image.topics.get(topic)
        self.hall.image.put(topic, max(partitions, known.partitions if known else 0))

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        self.hall.image.drop(topic)

    # ---- what must always hold -------------------------------------------------------------------

    @invariant()
    def no_partition_is_read_by_two(self) -> None:
        read: Counter[tuple[UUID, int]] = Counter()
        for client in self.clients.values():
            read.update((id, n) for id, numbers in client.owned.items() for n in numbers)
        assert all(count == 1 for count in read.values()), read

    @invariant()
    def owners_are_who_hold(self) -> None:
        group = self.hall.group
        held = {
            (id, number): member.id
            for member in group.members.values()
            for part in (member.assigned, member.revoking)
            for id, numbers in part.items()
            for number in numbers
        }
        assert held == group.owners
        assert all(member.epoch <= group.target_epoch for member in group.members.values())
        assert group.target_epoch <= group.epoch

    @invariant()
    def the_log_tells_the_same_story(self) -> None:
        assert _story(self.hall.restored()) == _story(self.hall.group)

    @invariant()
    def every_deadline_has_a_wake_up(self) -> None:
        group = self.hall.group
        deadlines = [at for member in group.members.values() for at in member.deadlines()]
        assert not deadlines or (group.wake_at is not None and group.wake_at <= min(deadlines))

    def teardown(self) -> None:
        """Left in peace, the group comes to rest: every partition is read, and by whom it may be."""
        hall = self.hall
        for member in list(hall.group.members.values()):
            if member.id not in self.clients:  # lost ones are found out by their silence
                member.session_deadline = hall.ms
        hall.pass_ms(0)
        for _ in range(12):
            for client in list(self.clients.values()):
                self._try(client, client.beat)
        if not self.clients:
            return
        assert hall.group.state_name == "Stable"
        quiet = len(hall.log)
        for client in self.clients.values():
            client.beat()
        assert len(hall.log) == quiet, "a group at rest writes nothing"
        self._all_is_read()

    def _all_is_read(self) -> None:
        group, image = self.hall.group, self.hall.image
        wanted = {
            (topic.id, number)
            for name, topic in image.topics.items()
            if name in group.subscribed
            for number in range(topic.partitions)
        }
        read = {
            (id, n): client.id
            for client in self.clients.values()
            for id, numbers in client.owned.items()
            for n in numbers
        }
        assert read.keys() == wanted
        for (topic_id, _), reader in read.items():
            topics = group.topics_of(group.members[reader])
            assert topic_id in {image.topics[name].id for name in topics if name in image.topics}


def _story(group: ConsumerGroup) -> Any:
    members = {
        member.id: (
            member.epoch,
            member.previous_epoch,
            member.state,
            member.assigned,
            member.revoking,
            member.topic_names,
            member.topic_regex,
            member.instance_id,
            member.assignor,
            member.rebalance_timeout_ms,
        )
        for member in group.members.values()
    }
    targets = {id: target for id, target in group.target.items() if target}
    return (
        group.epoch,
        group.target_epoch,
        group.metadata_hash,
        members,
        targets,
        group.owners,
        {expression: value.topics for expression, value in group.regexes.items()},
        group.static_ids,
    )


TestAnyOrder = AnyOrder.TestCase
EXAMPLES = 4_000 if os.environ.get("HEADWATER_SOAK") else 100
TestAnyOrder.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
