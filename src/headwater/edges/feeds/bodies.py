"""A record, or a row of a view, as the JSON of an event: made once, for all clients. Pure.

    {"partition":0,"offset":17,"timestamp":"2026-11-15T15:00:00.000Z","key":"17","value":{"total":12},
     "headers":[["trace","a1"]]}                       of a topic: a tombstone has "tombstone":true
    {"key":"17","row":{"id":17,"total":12},"position":"orders:0=18"}                          of a view

A value that is JSON stands there byte for byte as it was sent, so that no number loses a digit; only line
ends are taken out, as an event of SSE is lines. What was sent as `text/…` is a text. What is no text is
hexadecimal, as `value_hex`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from headwater import json_size
from headwater.browse.decoder import Decoder
from headwater.client.records import Record
from headwater.edges import json_values
from headwater.schemas.values.header import PREFIX_BYTES

POSITION_HEADER = "headwater-position"
Body = Callable[[Record, Decoder], bytes]
_JSON_BEGINS = b'{["-0123456789tfn'
_WHITESPACE = b" \t\n\r"
"""Before and behind a value of JSON (RFC 8259)."""
_ON_ONE_LINE = bytes.maketrans(b"\n\r", b"  ")
"""In valid JSON they stand between values only: inside a text they are escaped."""


def of_record(record: Record, decoder: Decoder) -> bytes:
    shown: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment(record.timestamp_ms),
        **_field("key", record.key, record.topic, decoder),
        **_field("value", record.value, record.topic, decoder, _json_begins(record)),
    }
    if record.value is None:
        shown["tombstone"] = True  # and not the value null, which is JSON
    if record.headers:
        shown["headers"] = [[name, _header(value)] for name, value in record.headers]
    return json_values.kept(shown)


def of_row(record: Record, decoder: Decoder) -> bytes:
    """A change of a view, as `views.changes` has written it, or a query that goes to a topic."""
    position = next((v for name, v in record.headers if name == POSITION_HEADER), None)
    shown = {
        **_field("key", record.key, record.topic, decoder),
        **_field("row", record.value, record.topic, decoder),
        "position": None if position is None else position.decode("utf-8", "replace"),
    }
    return json_values.kept(shown)


def gone(record: Record) -> Record:
    """The record as one of a key that is not there, for those whose filter it does not fit any more."""
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        None,
        record.headers,
    )


def moment(timestamp_ms: int) -> str | int:
    """In UTC; a number of milliseconds that no calendar has stays a number."""
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return timestamp_ms
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def _json_begins(record: Record) -> bytes:
    """Letters with which a value may be JSON; none where its sender said that it is text."""
    kind = next((v for name, v in record.headers if name == "content-type"), None)
    return b"" if kind is not None and kind.lower().startswith(b"text/") else _JSON_BEGINS


def _field(
    name: str, data: bytes | None, topic: str, decoder: Decoder, json_begins: bytes = b"{["
) -> dict[str, Any]:
    """`json_begins`: letters with which JSON is looked for. A key 17 is a text: so it was given."""
    if data is None:
        return {name: None}
    begin = data.lstrip(_WHITESPACE)[:1]
    if begin and begin in json_begins and json_values.is_json(data):
        return {name: orjson.Fragment(data.translate(_ON_ONE_LINE))}
    if len(data) > json_size.VALUES_MAX and data[:1] != b"\0":  # too large to be looked into
        return _large(name, data)
    shown = decoder.decode(data, topic)
    if shown.kind == "hex":
        return {f"{name}_hex": shown.value}
    if shown.is_by_schema:
        body = _json(shown.value) if shown.kind != "json-schema" else _to_the_letter(data)
        return {f"{name}_hex": data.hex()} if body is None else {name: body}
    return {name: shown.text}


def _large(name: str, data: bytes) -> dict[str, str]:
    """Of no schema, and no JSON."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}


def _to_the_letter(data: bytes) -> orjson.Fragment | None:
    """JSON behind the five bytes that name its schema."""
    body = data[PREFIX_BYTES:]
    if not json_values.is_json(body):
        return None  # NaN, which only Python's parser takes
    return orjson.Fragment(body.translate(_ON_ONE_LINE))


def _json(value: object) -> orjson.Fragment | None:
    """None where JSON has no such value."""
    try:
        return orjson.Fragment(orjson.dumps(value))
    except TypeError:
        pass  # a number beyond 64 bits, half a surrogate pair, more levels than it takes
    try:
        return orjson.Fragment(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return None


def _header(value: bytes | None) -> Any:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()} if value is not None else None
