"""AMQP's messages as ours and back; pure. Called by `amqp`, which has the table of headers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headwater.edges.bridges.contract import Message, Record

if TYPE_CHECKING:
    from aiormq import spec
    from aiormq.abc import DeliveredMessage

_LAST_S = 253_402_300_799
"""The last second of the year 9999."""
KEYS = ("routing-key", "message-id", "none")
TOMBSTONE = "headwater-tombstone"
PERSISTENT = 2
SHORT_BYTES_MAX = 255
"""Of a property such as content-type; a longer one goes as a header."""
_PROPERTIES = {
    "content_type": "content-type",
    "content_encoding": "content-encoding",
    "message_id": "message-id",
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
    "message_type": "amqp-type",
    "app_id": "amqp-app-id",
}
# What tells of one hop, and is not carried over the next.
_OF_THE_HOP = {"amqp-exchange", "amqp-routing-key", "amqp-redelivered", "message-id"}


def message_of(delivered: DeliveredMessage, key: str) -> Message:
    """`key`: what the record's key is made of."""
    properties, delivery = delivered.header.properties, delivered.delivery
    headers: list[tuple[str, bytes | None]] = [
        (ours, text.encode())
        for theirs, ours in _PROPERTIES.items()
        if (text := getattr(properties, theirs))
    ]
    own = properties.headers or {}
    headers += [(name, _header(value)) for name, value in own.items()]
    headers.append(("amqp-exchange", (delivered.exchange or "").encode()))
    headers.append(("amqp-routing-key", (delivered.routing_key or "").encode()))
    if getattr(delivery, "redelivered", False):
        headers.append(("amqp-redelivered", b"true"))
    moment = properties.timestamp
    return Message(
        delivered.body,
        _key(delivered, key, own),
        headers,
        timestamp_ms=None if moment is None else int(moment.timestamp() * 1000),
        id=properties.message_id,
        token=getattr(delivery, "delivery_tag", None),
    )


def _key(delivered: DeliveredMessage, key: str, own: dict[str, Any]) -> bytes | None:
    chosen: dict[str, Callable[[], Any]] = {
        "routing-key": lambda: delivered.routing_key,
        "message-id": lambda: delivered.header.properties.message_id,
        "none": lambda: None,
    }
    if key in chosen:
        found = chosen[key]()
    else:
        found = own.get(key.removeprefix("header:"))
    return None if found is None else _header(found)


def _header(value: Any) -> bytes | None:
    """Text and bytes as they are, numbers and tables as JSON."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=str).encode()


def properties_of(record: Record) -> spec.Basic.Properties:
    from aiormq import spec

    ours = {name: theirs for theirs, name in _PROPERTIES.items()}
    known: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in record.headers:
        if name in _OF_THE_HOP:
            continue
        text = _text(value)
        if name in ours and isinstance(text, str) and len(text.encode()) <= SHORT_BYTES_MAX:
            known[ours[name]] = text
        else:
            own[name] = text
    if record.value is None:
        own[TOMBSTONE] = "true"
    return spec.Basic.Properties(
        **{**known, "message_id": record.id},
        headers=own,
        delivery_mode=PERSISTENT,
        timestamp=_moment(record.timestamp_ms // 1000),
    )


def _moment(at_s: int) -> datetime | None:
    """None before 1970, as of a record without a time, and where no calendar goes: AMQP has no such times."""
    return datetime.fromtimestamp(at_s, UTC) if 0 <= at_s <= _LAST_S else None


def _text(value: bytes | None) -> str | bytearray | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return bytearray(value or b"")  # what AMQP's tables have for bytes
