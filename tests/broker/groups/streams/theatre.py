"""A theatre in which one streams group lives: topics, a clock and a log that are turned by hand.

`Theatre` plays the coordinator around the pure functions; `Player` plays a well-behaved member, which
remembers what it was told and lets go of tasks when it is told to, sooner or later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headwater.broker.groups import timeouts
from headwater.broker.groups.effects import Now
from headwater.broker.groups.streams.changes import Changes
from headwater.broker.groups.streams.group import StreamsGroup
from headwater.broker.groups.streams.heartbeat import Beat, Beaten, heartbeat
from headwater.broker.groups.streams.member import Assignment, Task, each_task
from headwater.broker.groups.streams.replay import StreamsReplay
from headwater.broker.groups.streams.steps import Setting, StreamsLimits, expel
from headwater.broker.groups.streams.topology import Subtopology, TopicInfo, Topology
from tests.broker.groups.consumer.hall import FakeImage

COUNTING = Topology(
    0,
    (
        Subtopology("0", sources=("lines",), sinks=("words",)),
        Subtopology("1", repartitions=(TopicInfo("words"),), changelogs=(TopicInfo("counts"),)),
    ),
)
"""A word count."""


class Theatre:
    def __init__(self, topology: Topology = COUNTING, partitions: int = 4, **limits: int) -> None:
        self.image = FakeImage()
        for name in ("lines", "words", "counts"):
            self.image.put(name, partitions)
        self.topology = topology
        self.limits = StreamsLimits(**{"session_timeout_ms": 10_000, **limits})
        self.ms = 1_000
        self.group = StreamsGroup("g")
        self.log: list[tuple[bytes, bytes | None]] = []

    def setting(self) -> Setting:
        return Setting(self.image, self.limits, Now(self.ms, 1_700_000_000_000 + self.ms))

    def beat(self, beat: Beat) -> Beaten:
        """Raises `HeartbeatRefused`."""
        changes = Changes(self.group)
        answer = heartbeat(self.group, changes, beat, self.setting())
        self.log += changes.records()
        return answer

    def leave(self, member_id: str) -> None:
        changes = Changes(self.group)
        expel(self.group, changes, [self.group.members[member_id]])
        self.log += changes.records()

    def pass_ms(self, ms: int) -> None:
        self.ms += ms
        changes = Changes(self.group)
        late = timeouts.late(self.group, self.setting().now)
        if late:
            expel(self.group, changes, late)
        timeouts.set_wake(self.group)
        self.log += changes.records()

    def restart(self) -> None:
        self.group = self.restored()

    def restored(self) -> StreamsGroup:
        """The group as a restart would find it."""
        replay = StreamsReplay()
        for key, value in self.log:
            read = replay.read_key(key)
            assert read is not None
            replay.apply(read, value)
        return replay.finished().get("g") or StreamsGroup("g")

    def player(self, member_id: str, process_id: str | None = None, **said: Any) -> Player:
        return Player(self, member_id, process_id or member_id, said)


@dataclass
class Player:
    theatre: Theatre
    id: str
    process_id: str
    said: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    owned: Assignment = field(default_factory=Assignment)
    told: Assignment = field(default_factory=Assignment)
    """What it may work on; it owns more than that until it has let go."""

    def join(self) -> Beaten:
        self.owned = self.told = Assignment()
        topology = self.said.get("topology", self.theatre.topology)
        return self._heard(
            Beat(
                self.id,
                0,
                rebalance_timeout_ms=5_000,
                owned=Assignment(),
                process_id=self.process_id,
                **{**self.said, "topology": topology},
            )
        )

    def beat(self, **said: Any) -> Beaten:
        return self._heard(Beat(self.id, self.epoch, owned=self.owned, **said))

    def let_go(self) -> None:
        """It does what it was told: what it has is what it may have."""
        self.owned = self.told

    def _heard(self, beat: Beat) -> Beaten:
        answer = self.theatre.beat(beat)
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.told = answer.assignment
            merged = (
                {id: old.get(id, frozenset()) | new.get(id, frozenset()) for id in {*old, *new}}
                for old, new in zip(self.owned, self.told, strict=True)
            )
            self.owned = Assignment(*merged)
        return answer

    @property
    def active(self) -> set[Task]:
        return set(each_task(self.owned.active))

    @property
    def standby(self) -> set[Task]:
        return set(each_task(self.owned.standby))


def settle(*players: Player) -> None:
    """Heartbeats until nobody is told anything new."""
    for _ in range(20):
        for player in players:
            player.let_go()
            player.beat()
        group = players[0].theatre.group
        if group.state_name == "Stable" and all(p.owned == p.told for p in players):
            return
    raise AssertionError(f"it is {group.state_name} after many heartbeats")
