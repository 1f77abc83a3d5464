"""Where a receiver was when it ended: read back from the last records of its topic and of TOPIC.gaps.

Called by `bridge` at its start. Batches are stored one after the other, so only of the last one can some be
stored and some not (a topic has several partitions): at most `listener.TAKEN_MAX` sequences below the last
one of a session are looked at. That holds as long as the topic is not also written to by others, or less
than LOOKED_BACK records lie behind.

Also here: how far a sender came, kept in TOPIC.sessions: so that a gap is named even if nobody heard of it.

A sender that dies takes its buffer with it, and receivers may not know that its last packets existed. The
next start tells them (heartbeats carry it), and they name what they lack. One record after each batch:

    key     the bridge
    value   {"session": …, "last": 17, "before": [[session, last], …]}   the last few starts, oldest first

Invariant: the record of a batch must be on disk before the position of that batch is committed. What was not
committed is sent again in the next session; what was is therefore known to have been sent.

Also here: events of a receiver as messages for the log, and back: what `resumption` needs stands in the
records.

    TOPIC         key, value, headers and timestamp as they were sent; headers of ours:
                  multicast-session    16 hexadecimal digits
                  multicast-sequence   decimal
    TOPIC.gaps    key: the session; value: JSON
                  {"kind": "joined", "session": …, "first": 1}
                  {"kind": "gap", "session": …, "first": 17, "last": 19, "reason": "…"}

Invariant: `joined` must be in the log before the first message of its session; the store keeps that order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from headwater.browse.pages import page
from headwater.client import topics
from headwater.client.errors import NotThere
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.publisher import Draft, Publisher
from headwater.edges.bridges.contract import Headers, Message
from headwater.edges.multicast.listener import TAKEN_MAX
from headwater.edges.multicast.packets import Ranges
from headwater.edges.multicast.receiver import Arrived, Event, Gap, Joined
from headwater.edges.multicast.sessions import Resumed

LOOKED_BACK = 4 * TAKEN_MAX


def resumed(log: Log, topic: str) -> dict[int, Resumed]:
    """Session → where to go on. Synchronous; a second at most."""
    places: list[Place] = []
    for partition in log.partitions(topic):
        found = page(log, topic, back=True, limit=LOOKED_BACK, partitions=[partition]).records
        places += [place for each in found if (place := place_of(each.headers)) is not None]
    try:
        beside = page(log, topic + GAPS, back=True, limit=LOOKED_BACK).records
    except NotThere:
        beside = []
    events = [event for each in beside if (event := event_of(each.value)) is not None]
    return folded(places, events)


def folded(places: Iterable[Place], events: Iterable[Joined | Gap]) -> dict[int, Resumed]:
    """Pure; in any order."""
    done: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for session, sequence in places:
        done.setdefault(session, set()).add(sequence)
        last[session] = max(last.get(session, 0), sequence)
    gaps: list[Gap] = []
    for event in events:
        if isinstance(event, Joined):
            first[event.session] = event.first
        else:
            gaps.append(event)
            last[event.session] = max(last.get(event.session, 0), event.last)
    found = {}
    for session in {*first, *last}:
        start = max(first.get(session, 1), last.get(session, 0) - TAKEN_MAX + 1)
        stored = done.get(session, set())
        for gap in gaps:
            if gap.session == session:
                stored |= set(range(max(gap.first, start), gap.last + 1))
        found[session] = _resumed(stored, start)
    return found


def _resumed(stored: set[int], start: int) -> Resumed:
    following = start
    while following in stored:
        following += 1
    return Resumed(following, sorted(each for each in stored if each > following))


SESSIONS = ".sessions"
EARLIER_MAX = 8


class Reached:
    """Of one bridge. Synchronous."""

    def __init__(self, log: Log, topic: str, bridge: str) -> None:
        self._log, self._topic, self._key = log, topic + SESSIONS, bridge.encode()
        self._publisher = Publisher(log.settings, TIMEOUT_S + 1)
        self._written = 0
        self._before: Ranges = ()

    def read(self) -> Ranges:
        """Sessions before this start, and how far each came. Makes the topic where there is none."""
        topics.ensure(self._log, self._topic, 1, cleanup_policy="compact")
        keep = self._key.__eq__
        found = page(
            self._log, self._topic, back=True, limit=1, keep=lambda record: keep(record.key)
        ).records
        if found:
            said = json.loads(found[0].value or b"{}")
            pairs = [*said["before"], [said["session"], said["last"]]][-EARLIER_MAX:]
            self._before = tuple((int(session, 16), int(last)) for session, last in pairs)
        return self._before

    def write(self, session: int, last: int) -> None:
        """On disk when this returns."""
        if last == self._written:
            return
        before = [[f"{each:016x}", reached] for each, reached in self._before]
        value = json.dumps({"session": f"{session:016x}", "last": last, "before": before})
        self._publisher.put(self._topic, Draft(self._key, value.encode(), partition=0))
        self._written = last


SESSION, SEQUENCE = "multicast-session", "multicast-sequence"
GAPS = ".gaps"


class Place(NamedTuple):
    session: int
    sequence: int


def message_of(event: Event) -> Message:
    session = f"{event.session:016x}"
    if isinstance(event, Arrived):
        own = ((SESSION, session.encode()), (SEQUENCE, b"%d" % event.sequence))
        return Message(
            event.message.value,
            event.message.key,
            (*event.message.headers, *own),
            event.message.timestamp_ms if event.message.timestamp_ms >= 0 else None,
            id=f"{session}-{event.sequence}",
        )
    if isinstance(event, Joined):
        told: dict[str, Any] = {"kind": "joined", "session": session, "first": event.first}
    else:
        told = {"kind": "gap", "session": session, "first": event.first, "last": event.last}
        told["reason"] = event.reason
    return Message(json.dumps(told).encode(), session.encode(), beside=GAPS)


def place_of(headers: Headers) -> Place | None:
    """Where a record of TOPIC was in its session; None: it came another way."""
    found = dict(headers)
    try:
        session, sequence = found[SESSION] or b"", found[SEQUENCE] or b""
        return Place(int(session, 16), int(sequence))
    except (KeyError, ValueError):
        return None


def event_of(value: bytes | None) -> Joined | Gap | None:
    """Of a record of TOPIC.gaps."""
    try:
        told = json.loads(value or b"")
        session = int(told["session"], 16)
        if told["kind"] == "joined":
            return Joined(session, int(told["first"]))
        return Gap(session, int(told["first"]), int(told["last"]), str(told["reason"]))
    except (ValueError, KeyError, TypeError):
        return None
