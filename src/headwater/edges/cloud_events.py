"""CloudEvents 1.0 over HTTP as records, as the Kafka protocol binding has them; pure.

Called by `http_in`.

    HTTP                                             the record
    binary      ce-id: 7, ce-type: …, body           ce_id: 7, ce_type: …, content-type; the body
    structured  application/cloudevents+json         the event as it was sent, with its content-type
    batched     application/cloudevents-batch+json   one such record for each event of the array
    either of these, to a topic with a subject       as binary: the subject is of the data alone

The key is the event's `partitionkey`, where it has one. What the specification demands of attributes is
checked: a consumer further on would otherwise meet what the sender should have been told.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from headwater import json_size
from headwater.client.errors import BadRequest
from headwater.client.publisher import Draft

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json"
PREFIX = "application/cloudevents"
REQUIRED = ("specversion", "id", "source", "type")
_NAME = re.compile(r"[a-z0-9]+")
_TEXTS = (*REQUIRED, "datacontenttype", "dataschema", "subject", "time", "partitionkey")
_HOUR = r"(?:[01]\d|2[0-3])"
_TIME = re.compile(
    rf"\d{{4}}-\d\d-\d\d[Tt]{_HOUR}:\d\d:\d\d(\.\d+)?([Zz]|[+-]{_HOUR}:[0-5]\d)", re.ASCII
)
_REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:.")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+\-]+/[A-Za-z0-9!#$&^_.+\-]+\s*(?:;|$)")
_NOT_ATTRIBUTES = ("data", "data_base64")
_INT_MOST = 2**31


class NotAnEvent(BadRequest):
    """What was sent as a CloudEvent is none."""


class Event(NamedTuple):
    """`data` is what a topic's schema is about; None where there is none or it is no JSON."""

    draft: Draft
    data: Any
    has_json: bool


def is_binary(headers: Mapping[str, str]) -> bool:
    """Any of the binding's headers: one without the others is a mistake to be told, not to be dropped."""
    return any(name.startswith("ce-") for name in headers)


def binary(headers: Iterable[tuple[str, str]], body: bytes, content_type: str | None) -> Event:
    """`headers` of the request, names in lower case."""
    attributes = {
        name.removeprefix("ce-"): _attribute(name, value)
        for name, value in headers
        if name.startswith("ce-")
    }
    for name in _NOT_ATTRIBUTES:
        if name in attributes:
            raise NotAnEvent(f"ce-{name} is no attribute", hint="the data is the request's body")
    declared = attributes.pop("datacontenttype", None)
    if declared is not None and declared != content_type:
        raise NotAnEvent(
            f"ce-datacontenttype says {declared[:50]!r}, and Content-Type {str(content_type)[:50]!r}",
            hint="leave ce-datacontenttype away: the header Content-Type is what says it",
        )
    _check(attributes)
    said = [(f"ce_{name}", str(value).encode()) for name, value in attributes.items()]
    has_json = content_type is not None and is_json(content_type)
    if content_type is not None:
        said.append(("content-type", content_type.encode()))
    meant = None
    if has_json and body:
        meant = _meant(body)
    return Event(Draft(_key(attributes), body or None, said), meant, has_json and bool(body))


def structured(body: bytes, content_type: str) -> Event:
    return _event(_meant(body), body, content_type)


class _Head(msgspec.Struct):
    """What every event begins with, so that nothing smaller is counted: objects take much memory."""

    specversion: str


_HEADS = msgspec.json.Decoder(list[_Head])
COUNTED_FROM = 10_000


def count(body: bytes) -> int:
    """Of a batch, before it is taken apart; 0: few. Raises NotAnEvent where many are none."""
    if max(body.count(b"{"), body.count(b",")) < COUNTED_FROM:
        return 0
    try:
        return len(_HEADS.decode(body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotAnEvent(f"the batch is no array of CloudEvents: {error}") from None


def parts(body: bytes) -> list[msgspec.Raw]:
    """Of a batch, one for each event."""
    try:
        return msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotAnEvent(f"a batch of CloudEvents is an array of them: {error}") from None


def batched(raws: Iterable[msgspec.Raw]) -> Iterator[Event]:
    """One after the other: what an event means takes many times its bytes."""
    for number, raw in enumerate(raws):
        try:
            body = bytes(raw)
            yield _event(_meant(body), body, STRUCTURED)
        except NotAnEvent as error:
            raise NotAnEvent(f"event {number} of the batch: {error}", hint=error.hint) from None


def as_binary(event: Event) -> Event:
    """An event of the structured mode in the binary one, for a topic whose values are data alone; its data to
    the letter. Events without JSON data stay as they are."""
    if not event.has_json:
        return event
    assert event.draft.value is not None
    parts = msgspec.json.decode(event.draft.value, type=dict[str, msgspec.Raw])
    data = bytes(parts.pop("data"))
    said = {name: msgspec.json.decode(each) for name, each in parts.items()}
    kind = said.pop("datacontenttype", None) or "application/json"
    headers = [(f"ce_{name}", _text(each)) for name, each in said.items() if each is not None]
    headers.append(("content-type", kind.encode()))
    return event._replace(draft=Draft(event.draft.key, data, headers))


def _text(value: str | int | bool) -> bytes:
    return (str(value).lower() if isinstance(value, bool) else str(value)).encode()


def is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _event(event: Any, value: bytes, content_type: str) -> Event:
    if not isinstance(event, dict):
        raise NotAnEvent("a CloudEvent is a JSON object", hint='{"specversion": "1.0", "id": …}')
    _check({name: each for name, each in event.items() if name not in _NOT_ATTRIBUTES})
    if "data" in event and "data_base64" in event:
        raise NotAnEvent("an event has data or data_base64, not both")
    if "data_base64" in event:
        _check_base64(event["data_base64"])
    draft = Draft(_key(event), value, [("content-type", content_type.encode())])
    return Event(draft, event.get("data"), "data" in event)


def _check(attributes: Mapping[str, Any]) -> None:
    for name in REQUIRED:
        if attributes.get(name) in (None, ""):
            raise NotAnEvent(
                f"the event has no {name}", hint=f"it needs {', '.join(REQUIRED)} (CloudEvents 1.0)"
            )
    if attributes["specversion"] != "1.0":
        raise NotAnEvent(f"specversion {str(attributes['specversion'])[:20]!r} is unknown: 1.0 is")
    for name, value in attributes.items():
        if not _NAME.fullmatch(name):
            raise NotAnEvent(f"{name[:50]!r} is no attribute's name: small letters and digits are")
        _check_value(name, value)
    if not _REFERENCE.fullmatch(attributes["source"]):
        raise NotAnEvent(f"source {attributes['source'][:50]!r} is no URI reference (RFC 3986)")
    schema = attributes.get("dataschema")
    if schema is not None and not (_REFERENCE.fullmatch(schema) and _SCHEME.match(schema)):
        raise NotAnEvent(f"dataschema {schema[:50]!r} is no absolute URI (RFC 3986)")
    kind = attributes.get("datacontenttype")
    if kind is not None and not _MEDIA_TYPE.match(kind):
        raise NotAnEvent(f"datacontenttype {kind[:50]!r} is no media type, as in application/json")
    time = attributes.get("time")
    if time is not None and not _is_time(time):
        raise NotAnEvent(f"time {time[:50]!r} is none of RFC 3339, as in 2026-11-15T15:00:00Z")


def _check_value(name: str, value: Any) -> None:
    if name in _TEXTS:
        if value is not None and (not isinstance(value, str) or not value):
            raise NotAnEvent(f"{name} is a text, and not an empty one")
    elif isinstance(value, dict | list | float):
        raise NotAnEvent(f"{name} is no text, no whole number and no boolean")
    elif isinstance(value, int) and not -_INT_MOST <= value < _INT_MOST:
        raise NotAnEvent(f"{name} is no whole number of 32 bits")


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    second = "59" if text[17:19] == "60" else text[17:19]  # a leap second
    try:
        datetime.fromisoformat(text[:17] + second)
    except ValueError:
        return False
    return True


def _check_base64(text: Any) -> None:
    try:
        if not isinstance(text, str):
            raise ValueError
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise NotAnEvent("data_base64 is no Base64") from None


def _key(attributes: Mapping[str, Any]) -> bytes | None:
    key = attributes.get("partitionkey")
    return key.encode("utf-8", "surrogateescape") if isinstance(key, str) else None


def _attribute(name: str, value: str) -> str:
    """An address has percent signs of its own, and not every sender doubles them."""
    found = _unquoted(value)
    is_address = name in ("ce-source", "ce-dataschema")
    return value if is_address and not _REFERENCE.fullmatch(found) else found


def _unquoted(value: str) -> str:
    """The HTTP binding has percent signs for what a header cannot hold, and quotes around some."""
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise NotAnEvent(f"the value {value[:50]!r} is no UTF-8 in percent signs") from None


def _meant(body: bytes) -> Any:
    if (why := json_size.many(body)) is not None:
        raise NotAnEvent(f"the event is too much: {why}", hint="send less in one event")
    try:
        body.decode()
        return msgspec.json.decode(body)
    except UnicodeDecodeError:
        raise NotAnEvent("the event is no UTF-8") from None
    except RecursionError:
        raise NotAnEvent("the event is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise NotAnEvent(f"the event is no JSON: {error}") from None
