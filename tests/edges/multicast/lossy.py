"""A network that loses, repeats and reorders, from a seed; sender and receivers on it; a manual clock."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from headwater.edges.multicast.packets import Ask, Message, decode
from headwater.edges.multicast.receiver import Arrived, Event, Gap, Joined, Patience
from headwater.edges.multicast.sender import Holding, Sender
from headwater.edges.multicast.sessions import Resumed, Sessions

STEP_S = 0.001
BEAT_S = 0.05
SENDER = ("10.0.0.1", 1000)


@dataclass(frozen=True)
class Weather:
    """Of the network, for every datagram and every way."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay_s: float = 0.0
    """At most; so packets overtake each other."""


class Network:
    def __init__(self, seed: int, weather: Weather) -> None:
        self.random = random.Random(seed)
        self.weather = weather
        self.dropped = 0
        self._under_way: list[tuple[float, int, Callable[[bytes], None], bytes]] = []
        self._count = 0

    def send(self, datagram: bytes, to: Callable[[bytes], None], now: float) -> None:
        copies = 1 + (self.random.random() < self.weather.duplicate)
        for _ in range(copies):
            if self.random.random() < self.weather.drop:
                self.dropped += 1
                continue
            self._count += 1
            at = now + self.random.random() * self.weather.delay_s
            heapq.heappush(self._under_way, (at, self._count, to, datagram))

    def deliver(self, now: float) -> None:
        while self._under_way and self._under_way[0][0] <= now:
            _, _, to, datagram = heapq.heappop(self._under_way)
            to(datagram)


class Receiver:
    """The pure core, with its events kept."""

    def __init__(
        self,
        world: World,
        seed: int,
        patience: Patience,
        resumed: dict[int, Resumed] | None = None,
    ) -> None:
        self.sessions = Sessions(patience, seed=seed, resumed=resumed)
        self.events: list[Event] = []
        self.joined: list[Joined] = []
        self._world = world

    def hears(self, datagram: bytes) -> None:
        for event in self.sessions.heard(datagram, SENDER, self._world.now):
            (self.joined if isinstance(event, Joined) else self.events).append(event)  # type: ignore[arg-type]

    def tick(self) -> None:
        events, asks = self.sessions.tick(self._world.now)
        self.events += events
        for to, ask in asks:
            assert to == SENDER
            self._world.network.send(ask, self._world.asked_by(self), self._world.now)

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.events if isinstance(each, Gap)]


class World:
    def __init__(
        self, seed: int, weather: Weather, holding: Holding | None = None, session: int = 1
    ) -> None:
        self.seed = seed
        self.now = 0.0
        self.network = Network(seed, weather)
        self.holding = holding or Holding()
        self.sender: Sender | None = Sender(session, self.holding)
        self.receivers: list[Receiver] = []
        self.sent: dict[tuple[int, int], bytes] = {}
        self._spoke_at = 0.0

    def receiver(self, resumed: dict[int, Resumed] | None = None, **patience: float) -> Receiver:
        made = Receiver(self, self.seed, Patience(**patience), resumed)  # type: ignore[arg-type]
        self.receivers.append(made)
        return made

    def asked_by(self, receiver: Receiver) -> Callable[[bytes], None]:
        def asked(datagram: bytes) -> None:
            ask = decode(datagram)
            assert isinstance(ask, Ask)
            if self.sender is not None:
                for answer in self.sender.asked(ask, self.now):
                    self.network.send(answer, receiver.hears, self.now)

        return asked

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.sender is not None
            value = b"%d of %d" % (self.sender.last + 1, self.sender.session)
            self._cast(self.sender.take(Message(value), self.now))
            self.sent[self.sender.session, self.sender.last] = value

    def run(self, seconds: float, each_step: int = 0) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            if each_step:
                self.send(each_step)
            if self.sender is not None and self.now - self._spoke_at >= BEAT_S:
                self._cast(self.sender.heartbeat())
            self.network.deliver(self.now)
            for receiver in self.receivers:
                receiver.tick()

    def settle(self, seconds: float = 30.0) -> None:
        """Until no receiver lacks anything that it knows of, and heartbeats have told of the rest."""
        self.run(0.5)
        deadline = self.now + seconds
        while any(each.sessions.is_missing_some for each in self.receivers):
            assert self.now < deadline, f"seed {self.seed}: still missing some"
            self.run(0.1)

    def check(self, receiver: Receiver, session: int = 1, first: int = 1, last: int = 0) -> None:
        """Every sequence once and in order: as it was sent, or within a gap."""
        expected = first
        for event in receiver.events:
            if event.session != session:
                continue
            where = f"seed {self.seed}: {event} where {expected} was due"
            if isinstance(event, Arrived):
                assert event.sequence == expected, where
                assert event.message.value == self.sent[session, expected], where
                expected += 1
            else:
                assert isinstance(event, Gap)
                assert event.first == expected <= event.last, where
                expected = event.last + 1
        assert expected == last + 1, f"seed {self.seed}: ended at {expected - 1} of {last}"

    def _cast(self, packet: bytes) -> None:
        self._spoke_at = self.now
        for receiver in self.receivers:
            self.network.send(packet, receiver.hears, self.now)
