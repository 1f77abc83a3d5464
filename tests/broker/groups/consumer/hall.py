"""A hall in which one consumer group lives: topics, a clock and a log that are turned by hand.

`Hall` plays the coordinator around the pure functions; `Client` plays a well-behaved consumer, which
remembers what it was told and lets go of partitions when it is told to, sooner or later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from headwater.broker.groups import timeouts
from headwater.broker.groups.consumer.changes import Changes
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.heartbeat import Beat, Beaten, heartbeat, leave
from headwater.broker.groups.consumer.replay import ConsumerReplay
from headwater.broker.groups.consumer.steps import ConsumerLimits, Setting, expel
from headwater.broker.groups.effects import Now


@dataclass(frozen=True)
class FakeTopic:
    id: UUID
    partitions: int


@dataclass
class FakeImage:
    topics: dict[str, FakeTopic] = field(default_factory=dict)
    version: int = 0
    made: int = 0

    def put(self, name: str, partitions: int) -> None:
        """Make a topic, or let it grow."""
        known = self.topics.get(name)
        self.made += known is None
        topic_id = known.id if known else UUID(int=self.made)
        self.topics[name] = FakeTopic(topic_id, partitions)
        self.version += 1

    def drop(self, name: str) -> None:
        self.topics.pop(name, None)
        self.version += 1


class Hall:
    def __init__(self, **limits: int) -> None:
        self.image = FakeImage()
        self.limits = ConsumerLimits(**{"session_timeout_ms": 10_000, **limits})
        self.ms = 1_000
        self.group = ConsumerGroup("g")
        self.log: list[tuple[bytes, bytes | None]] = []
        self._keep(self._fresh())

    def _fresh(self) -> Changes:
        changes = Changes(self.group)
        changes.group()
        return changes

    def _keep(self, changes: Changes) -> None:
        self.log += changes.records()

    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def beat(self, beat: Beat) -> Beaten:
        """Raises `HeartbeatRefused`."""
        changes = Changes(self.group)
        if beat.epoch < 0:
            member = leave(self.group, changes, beat)
            if member is not None:
                expel(self.group, changes, [member])
            answer = Beaten(member_id=beat.member_id, epoch=beat.epoch)
        else:
            setting = Setting(self.image, self.limits, self.now())
            answer = heartbeat(self.group, changes, beat, setting)
        self._keep(changes)
        return answer

    def pass_ms(self, ms: int) -> None:
        self.ms += ms
        changes = Changes(self.group)
        late = timeouts.late(self.group, self.now())
        if late:
            expel(self.group, changes, late)
        timeouts.set_wake(self.group)
        self._keep(changes)

    def restored(self) -> ConsumerGroup:
        """The group as a restart would find it."""
        replay = ConsumerReplay()
        for key, value in self.log:
            read = replay.read_key(key)
            assert read is not None
            replay.apply(read, value)
        return replay.finished().get("g") or ConsumerGroup("g")


@dataclass
class Client:
    hall: Hall
    id: str
    topics: frozenset[str]
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[UUID, frozenset[int]] = field(default_factory=dict)
    told: dict[UUID, frozenset[int]] = field(default_factory=dict)
    """What it may read; it owns more than that until it has let go."""
    assignor: str | None = None
    regex: str | None = None

    def join(self) -> Beaten:
        self.owned = self.told = {}
        self.epoch = 0
        return self._heard(
            self.hall.beat(
                Beat(
                    self.id,
                    0,
                    self.instance_id,
                    rebalance_timeout_ms=30_000,
                    topic_names=self.topics,
                    topic_regex=self.regex,
                    assignor=self.assignor,
                    owned={},
                )
            )
        )

    def beat(self, let_go: bool = True, full: bool = False) -> Beaten:
        """A heartbeat; a client that is slow to revoke still owns what it had, and one that has
        not heard the last answer says everything anew."""
        if let_go:
            self.owned = self.told
        before = self.owned
        answer = self.hall.beat(
            Beat(
                self.id,
                self.epoch,
                self.instance_id,
                rebalance_timeout_ms=30_000 if full else -1,
                topic_names=self.topics,
                owned=self.owned,
            )
        )
        self._heard(answer)
        if answer.assignment is not None and not let_go:
            self.owned = {
                topic_id: self.owned.get(topic_id, frozenset()) | before.get(topic_id, frozenset())
                for topic_id in {*self.owned, *before}
            }
        return answer

    def beat_until_settled(self) -> None:
        for _ in range(10):
            self.beat()

    def leave(self, epoch: int = -1) -> None:
        self.hall.beat(Beat(self.id, epoch, self.instance_id))
        self.owned = self.told = {}
        self.epoch = 0

    def _heard(self, answer: Beaten) -> Beaten:
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.owned = self.told = dict(answer.assignment)
        return answer

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))
