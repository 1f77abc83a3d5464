"""All senders that a receiver hears, each with a `Session`. Pure; `listener` calls it from its thread.

A session that is heard for the first time begins with the oldest message that its sender still holds, so that
a receiver started a little later misses nothing; one that the log knows (`resumption`) goes on where it was.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from headwater.edges.multicast.packets import (
    Ask,
    Data,
    Heartbeat,
    Ranges,
    Unreadable,
    decode,
    encode,
)
from headwater.edges.multicast.receiver import Event, Gap, Joined, Patience, Session
from headwater.edges.multicast.replay_window import Address, ReplayWindow, Stamps

SESSIONS_MAX = 256


class Resumed(NamedTuple):
    """What the log has of a session: all before `next`, and these beyond it."""

    next: int
    beyond: Collection[int] = ()


@dataclass
class Heard:
    """What was heard, for counters and /status."""

    packets: int = 0
    unreadable: int = 0
    stale: int = 0
    """Sealed, and made too long ago or sent from elsewhere: copies, or clocks that are apart."""
    gone_duplicates: int = 0
    gone_repaired: int = 0


class Sessions:
    """For one thread."""

    def __init__(
        self,
        patience: Patience,
        secret: bytes = b"",
        resumed: Mapping[int, Resumed] | None = None,
        seed: int | None = None,
        window: ReplayWindow | None = None,
    ) -> None:
        self.counts = Heard()
        self._patience = patience
        self._secret = secret
        self._resumed = dict(resumed or {})
        self._random = random.Random(seed)
        self._open: dict[int, _Known] = {}
        self._window = window or ReplayWindow()
        self._stamps: Stamps | None = None

    def asks_from(self, address: Address) -> None:
        """Where the socket is that asks."""
        self._stamps = Stamps(address)

    def heard(self, datagram: bytes, source: Address, now: float) -> list[Event]:
        """What can be handed out now that this has arrived."""
        try:
            packet = decode(datagram, self._secret)
        except Unreadable:
            self.counts.unreadable += 1
            return []
        if isinstance(packet, Ask):  # somebody's answer to nobody
            self.counts.unreadable += 1
            return []
        if not self._is_believed(packet, source):
            self.counts.stale += 1
            return []
        self.counts.packets += 1
        known = self._open.pop(packet.session, None)
        events: list[Event] = []
        if known is None:
            events = self._make_room()
            is_new = packet.session not in self._resumed
            newest = packet.sequence if isinstance(packet, Data) else packet.last
            session = self._begun(packet.session, packet.oldest, newest, now)
            known = _Known(session, source, session.expected if is_new else 1)
            if is_new:
                events.append(Joined(packet.session, session.expected))
        self._open[packet.session] = known  # at the end: the first is the one longest silent
        if isinstance(packet, Heartbeat) and packet.previous:
            events += self._earlier(packet.previous, known, now)
        return events + known.session.heard(packet, now)

    def _is_believed(self, packet: Data | Heartbeat, source: Address) -> bool:
        """Of a session that we know, sequences tell what is a copy; without a secret, nothing does."""
        known = not self._secret or packet.session in self._open
        return known or self._window.is_genuine(packet.stamp, source)

    def _earlier(self, sessions: Ranges, known: _Known, now: float) -> list[Event]:
        """A sender's sessions before this one, oldest first. From the first that we had something of on,
        we were there: so of all that followed, what lacks is missing, even if nothing was ever heard."""
        events: list[Event] = []
        were_there = False
        for number, last in sessions:
            if number in self._open:
                events += self._open[number].session.ended(last)
                were_there = True
            elif were_there or number in self._resumed:
                session = self._begun(number, 1, 1, now)
                events += session.ended(last)
                self._resumed[number] = Resumed(session.expected)
                were_there = True
        if were_there and known.first > 1:
            first, known.first = known.first, 1
            events.append(Gap(known.session.number, 1, first - 1, "it was heard of too late"))
        return events

    def tick(self, now: float) -> tuple[list[Event], list[tuple[Address, bytes]]]:
        """What is due by the time alone, and what to ask of whom."""
        events: list[Event] = []
        asks: list[tuple[Address, bytes]] = []
        for known in self._open.values():
            found, ask = known.session.tick(now)
            events += found
            if ask is not None:
                stamp = ask.stamp if self._stamps is None else self._stamps.next()
                asks.append((known.source, encode(replace(ask, stamp=stamp), self._secret)))
        return events, asks

    def was_deaf(self, seconds: float) -> None:
        """Nobody was listening for so long: that was not the senders' silence."""
        for known in self._open.values():
            known.session.heard_at += seconds

    @property
    def is_missing_some(self) -> bool:
        return any(known.session.holes for known in self._open.values())

    def status(self) -> dict[str, int]:
        sessions = [known.session for known in self._open.values()]
        return {
            "sessions": len(sessions),
            "missing": sum(len(each.holes) for each in sessions),
            "waiting": sum(len(each.waiting) for each in sessions),
            "duplicates": self.counts.gone_duplicates + sum(each.duplicates for each in sessions),
            "repaired": self.counts.gone_repaired + sum(each.repaired for each in sessions),
            "unreadable": self.counts.unreadable,
            "stale": self.counts.stale,
        }

    def _begun(self, number: int, oldest: int, newest: int, now: float) -> Session:
        resumed = self._resumed.pop(number, None)
        # Not more than can be asked for: what lies before the first that we want is no gap of ours.
        first = max(oldest, newest - self._patience.window + 1)
        expected = first if resumed is None else resumed.next
        session = Session(number, expected, self._patience, now, self._random.random)
        if resumed is not None:
            session.had(resumed.beyond)
        return session

    def _make_room(self) -> list[Event]:
        if len(self._open) < SESSIONS_MAX:
            return []
        hosts = Counter(known.source[0] for known in self._open.values())
        greediest = hosts.most_common(1)[0][0]  # who has one session loses it to nobody with many
        number = next(n for n, known in self._open.items() if known.source[0] == greediest)
        gone = self._open.pop(number).session
        self.counts.gone_duplicates += gone.duplicates
        self.counts.gone_repaired += gone.repaired
        events = gone.give_up("too many senders at once")
        self._resumed[gone.number] = Resumed(gone.last + 1)
        while len(self._resumed) > 4 * SESSIONS_MAX:
            del self._resumed[next(iter(self._resumed))]
        return events


@dataclass
class _Known:
    session: Session
    source: Address
    """Where it is asked: a session has one socket, so the first packet says it for good."""
    first: int
    """Where we joined, as long as it is not known that we should have been there before."""
