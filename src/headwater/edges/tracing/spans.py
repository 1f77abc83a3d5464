"""What is told about one record's way, as plain spans; pure. `exporter` puts them into OpenTelemetry's form.

    capture shop ─────────▶ record orders-0@17 ─┬───────▶ view order_search
    (or POST /topics/orders)                    └───────────────▶ webhook billing
     commit … append                              append … the reader's position passes it

Times are nanoseconds since 1970. A record's time is the one in the log: when its producer made it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.client.records import Record
from headwater.edges.tracing.traceparent import (
    TRACEPARENT,
    TRACESTATE,
    Context,
    parse,
    span_id_of,
    state,
)

PRODUCER, CONSUMER, SERVER, INTERNAL = "producer", "consumer", "server", "internal"
_KINDS = {
    "headwater-": "view",
    "headwater.webhook.": "webhook",
    "headwater.bridge.": "bridge",
    "headwater.alert.": "alert",
}
"""How groups of ours are named, and what people call what they belong to."""

_CAPTURED = re.compile(r"capture:(?P<name>[\w-]+):(?P<read_us>\d{1,17})")


@dataclass(frozen=True)
class Span:
    """`failed`: why it did not end well."""

    name: str
    context: Context
    parent_id: int | None
    start_ns: int
    end_ns: int
    kind: str = INTERNAL
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    events: tuple[tuple[int, str], ...] = ()
    failed: str | None = None


@dataclass(frozen=True)
class Followed:
    """A record whose way is told: its trace, and where it lies."""

    context: Context
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def appended_ns(self) -> int:
        return self.timestamp_ms * 1_000_000


def followed(record: Record) -> Followed | None:
    """The record, if its headers say that it is to be followed."""
    for name, value in record.headers:
        if name == TRACEPARENT:
            context = parse(value)
            if context is None or not context.sampled:
                return None
            place = (record.topic, record.partition, record.offset, record.timestamp_ms)
            return Followed(context, *place)
    return None


def capture_span(record: Record, each: Followed) -> Span | None:
    """Of a record that a capture made: from the commit in the database to the append."""
    said = next((value for name, value in record.headers if name == TRACESTATE), None)
    found = _CAPTURED.fullmatch(state(said) or "")
    if found is None:
        return None
    read_ns = int(found["read_us"]) * 1000
    committed_ns = _committed_ns(record.value) or read_ns
    end_ns = max(each.appended_ns, read_ns)
    return Span(
        name=f"capture {found['name']}",
        context=each.context,
        parent_id=None,
        start_ns=min(committed_ns, end_ns),
        end_ns=end_ns,
        kind=PRODUCER,
        attributes=_place(each),
        events=((read_ns, "read from the database"),),
    )


def _committed_ns(value: bytes | None) -> int | None:
    """When the database committed the change, as its envelope says; None: not told, or not in JSON."""
    try:
        document = json.loads(value or b"")
        source = document.get("payload", document)["source"]
        for name, scale in (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000)):
            if isinstance(source.get(name), int) and source[name] > 0:
                return int(source[name]) * scale
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def reader_span(
    each: Followed, group: str, end_ns: int, *, within_ns: int = 0, failed: str | None = None
) -> Span:
    """From the append to the moment when the reader's position was seen to have passed the record.

    `within_ns`: how long before that it may have happened: since then nobody had looked.
    """
    kind, name = described(group)
    attributes = _place(each) | {"messaging.consumer.group.name": group}
    if kind == "view":
        attributes["headwater.view"] = name
    if within_ns:
        attributes["headwater.seen_within_ms"] = round(within_ns / 1e6, 3)
    place = (each.topic, each.partition, each.offset)
    return Span(
        name=f"{kind} {name}",
        context=Context(each.context.trace_id, span_id_of(each.context, group, *place)),
        parent_id=each.context.span_id,
        start_ns=min(each.appended_ns, end_ns),
        end_ns=end_ns,
        kind=CONSUMER,
        attributes=attributes,
        failed=failed,
    )


def described(group: str) -> tuple[str, str]:
    """What reads under a group's name: ("view", "order_search")."""
    for prefix in sorted(_KINDS, key=len, reverse=True):
        if group.startswith(prefix):
            return _KINDS[prefix], group.removeprefix(prefix)
    return "group", group


def is_ours(group: str) -> bool:
    return described(group)[0] != "group"


def _place(each: Followed) -> dict[str, str | int | float]:
    """In the words of OpenTelemetry's conventions for messaging."""
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": each.topic,
        "messaging.destination.partition.id": str(each.partition),
        "messaging.kafka.offset": each.offset,
    }
