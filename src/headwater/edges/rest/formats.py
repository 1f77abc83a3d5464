"""Records as JSON on their way in, as POST …/records has them: objects, one or many in a row; pure.

    {"partition_id": 0, "timestamp": "2026-11-17T06:00:00Z", "headers": [{"name": "trace", "value": "YTE="}],
     "key": {"type": "STRING", "data": "17"}, "value": {"type": "JSON", "data": {"total": 12.50}}}

`data` of JSON is stored byte for byte as it was sent; of STRING as UTF-8; BINARY and headers are base64. A
value that is missing or null is a tombstone, and so is null `data`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from headwater import json_size
from headwater.client.publisher import Draft
from headwater.edges import json_values

RECORDS_MAX = 100_000
"""Of one request, and its headers: one takes as much memory as a record."""
BAD_JSON, BAD_RECORD = 400, 42206
TIMESTAMP_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: no calendar shows a later one."""
_TYPES = ("BINARY", "JSON", "STRING")
_WITH_SCHEMA = ("AVRO", "JSONSCHEMA", "PROTOBUF")
SPACE = " \t\r\n"


class _Data(msgspec.Struct):
    type: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Header(msgspec.Struct):
    name: str
    value: str | None = None


class _Sent(msgspec.Struct):
    partition_id: int | None = None
    headers: list[_Header] | None = None
    key: _Data | None = None
    value: _Data | None = None
    timestamp: str | int | None = None


class Bad(NamedTuple):
    """What cannot be stored, with the code to answer."""

    code: int
    reason: str


class Produced(NamedTuple):
    """A record to be, and of which types its key and value were given."""

    draft: Draft
    key_type: str | None
    value_type: str | None


class Wrong(Exception):
    """What is wrong with one record."""


def read(body: bytes, now_ms: int) -> Iterator[Produced | Bad]:
    """In order; `now_ms` is the time of those that have none. Behind what is no JSON, nothing is read."""
    count = 0
    for piece in pieces(body, SPACE):
        if isinstance(piece, Bad):
            yield piece
            return
        found = _one(piece, now_ms)
        count += 1 if isinstance(found, Bad) else 1 + len(found.draft.headers)
        if count > RECORDS_MAX:
            said = f"a request has at most {RECORDS_MAX} records and headers: send another"
            yield Bad(BAD_RECORD, said)
            return
        yield found


def pieces(body: bytes, between: str) -> Iterator[str | Bad]:
    """The values in a row, with any of these characters between them; the last may be where JSON ends."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        yield Bad(BAD_JSON, f"the body is no UTF-8: {error.reason} at byte {error.start}")
        return
    is_much = json_size.many(body) is not None
    place = _behind(text, 0, between)
    while place < len(text):
        try:
            end = (
                json_values.end_of(text, place) if is_much else _DECODER.raw_decode(text, place)[1]
            )
        except (ValueError, RecursionError) as error:
            yield Bad(BAD_JSON, f"no JSON at character {place}: {error}")
            return
        yield text[place:end]
        place = _behind(text, end, between)


def _one(text: str, now_ms: int) -> Produced | Bad:
    try:
        sent = msgspec.json.decode(text, type=_Sent)
        key, key_type = _bytes("key", sent.key)
        value, value_type = _bytes("value", sent.value)
        headers = [(each.name, _header(each)) for each in sent.headers or ()]
        at_ms = _timestamp(sent.timestamp, now_ms)
        draft = Draft(key, value, headers, partition_of(sent.partition_id), at_ms)
    except Wrong as error:
        return Bad(BAD_RECORD, str(error))
    except msgspec.ValidationError as error:
        return Bad(BAD_RECORD, f"the record does not fit: {error}")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Bad(BAD_JSON, f"the record is no JSON: {error}")
    return Produced(draft, key_type, value_type)


def _bytes(what: str, given: _Data | None) -> tuple[bytes | None, str | None]:
    if given is None or bytes(given.data) == b"null":
        return None, None
    kind = (given.type or "").upper()
    if kind in _WITH_SCHEMA:
        raise Wrong(f"{what}: {kind} needs a schema registry: encode it, and send it as BINARY")
    if kind not in _TYPES:
        raise Wrong(f"{what}: the type is BINARY, JSON or STRING, not {given.type!r:.50}")
    return (bytes(given.data) if kind == "JSON" else bytes_of(what, given.data, kind)), kind


def bytes_of(what: str, given: msgspec.Raw, kind: str) -> bytes:
    """Of a text: its UTF-8, or what it is the base64 of."""
    try:
        text = msgspec.json.decode(given, type=str)
    except msgspec.ValidationError:
        raise Wrong(f"{what}: data of {kind} is a text in quotes") from None
    return text.encode() if kind == "STRING" else _base64(what, text)


def _header(given: _Header) -> bytes | None:
    if not given.name:
        raise Wrong("a header has no name")
    return None if given.value is None else _base64(f"the header {given.name[:50]}", given.value)


def _base64(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Wrong(f"{what} is no base64") from None


def partition_of(given: int | None) -> int | None:
    if given is not None and not 0 <= given < 2**31:
        raise Wrong(f"partition_id is 0 or more, not {given}")
    return given


def _timestamp(given: str | int | None, now_ms: int) -> int:
    if given is None:
        return now_ms
    found = given if isinstance(given, int) else _milliseconds(given)
    if not 0 < found <= TIMESTAMP_MAX:
        raise Wrong("timestamp lies outside of 1970 to 9999")
    return found


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Wrong("timestamp is no time as in 2026-11-17T06:00:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round((moment - _EPOCH).total_seconds() * 1000)


def _behind(text: str, place: int, passed: str) -> int:
    while place < len(text) and text[place] in passed:
        place += 1
    return place


_DECODER = json.JSONDecoder()
_EPOCH = datetime.fromtimestamp(0, UTC)
