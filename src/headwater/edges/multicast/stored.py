"""Events of a receiver as messages for the log, and back: what `resuming` needs stands in the records.

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
from typing import Any, NamedTuple

from headwater.edges.bridges.contract import Headers, Message
from headwater.edges.multicast.receiver import Arrived, Event, Gap, Joined

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
