"""The receiver's side: order out of what arrives, asks for what does not, gaps where nothing helps. Pure.

`listener` hands in packets and the time, sends the asks and takes the events away. One `Session` per session
of a sender:

    expected     the next sequence to hand out; all before it were handed out or named in a gap
    waiting      arrived, but something before them has not
    holes        known to exist, and missing: each with when to ask again, and how often it was asked for
    lost         given up, not yet handed out as a gap: first → last and reason

Invariants:
- Every sequence from the first on must be handed out exactly once, in order: as a message or within a gap.
- A hole must end: it is filled, or the sender no longer holds it, or it was asked for `ASKS_MAX` times, or
  the sender is silent for `silence_s`, or more waits behind it than the bounds allow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.edges.multicast.packets import (
    ASKED_MAX,
    Ask,
    Data,
    Heartbeat,
    Message,
    ranges_of,
)

ASKS_MAX = 20
"""With waits that double from 20 ms to half a second: about nine seconds."""
ASK_AGAIN_S = 0.02
ASK_AGAIN_MAX_S = 0.5
RANGES_MAX = 64
_TOO_MUCH = "too much waited behind it"
_RESTARTED = "the sender was restarted"
_HAD = "handed out before"


@dataclass(frozen=True)
class Patience:
    """When to ask, and when to give up."""

    ask_after_s: float = 0.005
    """Packets overtake each other; and not all receivers should ask in the same moment: up to twice this."""
    silence_s: float = 5.0
    grace_s: float = 0.1
    """For a repair that is under way, when the sender says that it holds it no longer."""
    window: int = 65_536
    window_bytes: int = 64 * 1024**2


class Arrived(NamedTuple):
    session: int
    sequence: int
    message: Message


class Gap(NamedTuple):
    """Messages that will never come; both ends included."""

    session: int
    first: int
    last: int
    reason: str


class Joined(NamedTuple):
    """A session is heard from this sequence on; what was before it is no concern of this receiver."""

    session: int
    first: int


Event = Arrived | Gap | Joined


@dataclass(slots=True)
class _Hole:
    ask_at: float
    asks: int = 0
    asked_at: float = float("-inf")
    give_up_at: float = float("inf")
    """Once the sender holds it no longer."""


@dataclass
class Session:
    """What was heard of one sender since it started."""

    number: int
    expected: int
    patience: Patience
    heard_at: float
    jitter: Callable[[], float] = random.random
    last: int = field(init=False)
    ends: bool = False
    duplicates: int = 0
    repaired: int = 0
    waiting: dict[int, Message] = field(default_factory=dict)
    waiting_bytes: int = 0
    holes: dict[int, _Hole] = field(default_factory=dict)
    lost: dict[int, tuple[int, str]] = field(default_factory=dict)
    _oldest: int = 0

    def __post_init__(self) -> None:
        self.last = self.expected - 1

    def had(self, sequences: Collection[int]) -> None:
        """These, beyond `expected`, were handed out before a restart: they are not wanted again."""
        for each in sorted(sequences):
            if each > self.last:
                self._reach(each - 1, self.heard_at)
                self.last = each
                self.lost[each] = (each, _HAD)

    def heard(self, packet: Data | Heartbeat, now: float) -> list[Event]:
        self.heard_at = now
        if isinstance(packet, Heartbeat):
            self.ends |= packet.ends
            self._reach(packet.last, now)
        else:
            self._arrived(packet, now)
        if packet.oldest > self._oldest:
            self._oldest = packet.oldest
            self._expire(now)
        return self._bounded()

    def tick(self, now: float) -> tuple[list[Event], Ask | None]:
        """Events that are due by the time alone, and what to ask for now."""
        if not self.holes:
            return [], None
        if now - self.heard_at > self.patience.silence_s:
            return self.give_up("the sender fell silent"), None
        asked: list[int] = []
        ranges = 0
        for sequence, hole in list(self.holes.items()):
            if now >= hole.give_up_at:
                self._lose(sequence, "the sender no longer holds it")
            elif now >= hole.ask_at and hole.asks == ASKS_MAX:
                self._lose(sequence, "the sender did not send it again")
            elif now >= hole.ask_at:
                ranges += not asked or asked[-1] + 1 != sequence
                if len(asked) == ASKED_MAX or ranges > RANGES_MAX:
                    break
                wait = min(ASK_AGAIN_MAX_S, ASK_AGAIN_S * 2**hole.asks)
                # Who is not heard at all has not left an ask unanswered: that is for `silence_s`.
                hole.asks += self.heard_at > hole.asked_at
                hole.asked_at, hole.ask_at = now, now + wait * (1 + self.jitter() / 2)
                asked.append(sequence)
        return self._ready(), Ask(self.number, ranges_of(asked)) if asked else None

    def ended(self, last: int) -> list[Event]:
        """Its sender was restarted, having come as far as `last`: nobody can be asked any more."""
        if last > self.last:
            self.lost[self.last + 1] = (last, _RESTARTED)
            self.last = last
        return self.give_up(_RESTARTED)

    def give_up(self, reason: str) -> list[Event]:
        """All that is missing is lost, and what waited for it is ready."""
        for each in list(self.holes):
            self._lose(each, reason)
        return self._ready()

    # ---- how it comes about ---------------------------------------------------------------------

    def _arrived(self, packet: Data, now: float) -> None:
        sequence = packet.sequence
        if sequence > self.last:
            self._reach(sequence - 1, now)
            self.last = sequence
        elif sequence in self.holes:
            self.repaired += self.holes.pop(sequence).asks > 0
        else:
            self.duplicates += 1
            return
        self.waiting[sequence] = packet.message
        self.waiting_bytes += _size(packet.message)

    def _reach(self, last: int, now: float) -> None:
        """All up to `last` are known to exist: those not yet heard of are holes."""
        if last <= self.last:
            return
        first = self.last + 1
        beyond = last - self.patience.window
        if first <= beyond:  # in one step: it may be very many
            self.lost[first] = (beyond, _TOO_MUCH)
            first = beyond + 1
        ask_at = now + self.patience.ask_after_s * (1 + self.jitter())
        for sequence in range(first, last + 1):
            self.holes[sequence] = _Hole(ask_at)
        self.last = last
        self._expire(now)

    def _expire(self, now: float) -> None:
        for sequence, hole in self.holes.items():  # rising, as all of them were added
            if sequence >= self._oldest:
                break
            hole.give_up_at = min(hole.give_up_at, now + self.patience.grace_s)

    def _lose(self, sequence: int, reason: str) -> None:
        del self.holes[sequence]
        self.lost[sequence] = (sequence, reason)

    def _bounded(self) -> list[Event]:
        """What is ready; where too much waits, also what is ready once the first hole is given up."""
        events = self._ready()
        while self.holes and (
            self.last - self.expected >= self.patience.window
            or self.waiting_bytes > self.patience.window_bytes
        ):
            self._lose(next(iter(self.holes)), _TOO_MUCH)
            self._ready(events)
        return events

    def _ready(self, events: list[Event] | None = None) -> list[Event]:
        events = [] if events is None else events
        while self.expected <= self.last:
            message = self.waiting.pop(self.expected, None)
            if message is not None:
                self.waiting_bytes -= _size(message)
                events.append(Arrived(self.number, self.expected, message))
                self.expected += 1
            elif self.expected in self.lost:
                last, reason = self.lost.pop(self.expected)
                if reason is not _HAD:
                    _add_gap(events, Gap(self.number, self.expected, last, reason))
                self.expected = last + 1
            else:
                break
        return events


def _add_gap(events: list[Event], gap: Gap) -> None:
    before = events[-1] if events else None
    if isinstance(before, Gap) and (before.last + 1, before.reason) == (gap.first, gap.reason):
        events[-1] = before._replace(last=gap.last)
    else:
        events.append(gap)


def _size(message: Message) -> int:
    return len(message.value or b"") + len(message.key or b"") + 100
