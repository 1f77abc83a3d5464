"""W3C Trace Context, the part that travels with a record; pure.

    traceparent  00-<trace id, 32 hex>-<span id, 16 hex>-<flags, 2 hex>      flag 01: sampled
    tracestate   headwater=<what one of ours has to say>,<others' entries>

A record's `traceparent` names the span that made the record. A reader makes its own spans with that one as
their parent. Where a capture has begun the trace, nobody has told that span yet: `tracestate` says so
(`capture.traceparent`), and the one who follows the topics tells it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
OURS = "headwater"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ALL_64 = 1 << 64
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class Context:
    """Which trace, and which span of it."""

    trace_id: int
    span_id: int
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def parse(text: str | bytes | None) -> Context | None:
    """What a header says; None where it says nothing that the standard allows."""
    if text is None:
        return None
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    found = _FORM.fullmatch(text.strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # Versions to come may add fields; this one has none, and ff is none.
    if version == "ff" or (version == "00" and more):
        return None
    context = Context(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED))
    return context if context.trace_id and context.span_id else None


def state(text: str | bytes | None) -> str | None:
    """What one of ours has written into a `tracestate`."""
    for name, value in _entries(text):
        if name == OURS:
            return value
    return None


def without_ours(text: str | bytes | None) -> str:
    """The entries of others, to be handed on."""
    return ",".join(f"{name}={value}" for name, value in _entries(text) if name != OURS)


def _entries(text: str | bytes | None) -> Iterable[tuple[str, str]]:
    if text is None:
        return
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    for entry in text.split(","):
        name, equals, value = entry.strip(" \t").partition("=")
        if equals:
            yield name, value


def begun(ratio: float, chance: random.Random) -> Context | None:
    """A new trace for one of `1/ratio` calls, else None.

    Whoever samples by the trace's id, as OpenTelemetry's TraceIdRatioBased does, keeps it at any ratio that
    is no smaller than ours: its last 64 bits lie below ratio * 2**64.
    """
    if ratio <= 0 or chance.random() >= ratio:
        return None
    below = max(1, min(_ALL_64, int(ratio * _ALL_64)))
    trace_id = chance.getrandbits(64) << 64 | chance.randrange(below)
    return Context(trace_id or 1, new_span_id(chance))


def child(parent: Context, chance: random.Random) -> Context:
    return Context(parent.trace_id, new_span_id(chance), parent.sampled)


def new_span_id(chance: random.Random) -> int:
    return chance.getrandbits(64) or 1


def span_id_of(*said: object) -> int:
    """Always the same for the same words: a span that is told twice, after a restart, is one span."""
    digest = blake2b("\0".join(map(str, said)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1
