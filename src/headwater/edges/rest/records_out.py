"""Records as JSON on their way out, for those who read by a group, in a format that they chose; pure.

| format | key and value                                            |
|--------|----------------------------------------------------------|
| binary | base64                                                   |
| json   | as they are, where they are JSON; a key also as its text |
| string | as their text                                            |

What does not fit stands beside it as base64 (`value_base64`), and holds up nobody: `null` is a tombstone only
where there is no such field.
"""

from __future__ import annotations

import base64

import orjson

from headwater.client.records import Record
from headwater.edges import json_values
from headwater.edges.rest.answers import V2, Json

FORMATS = ("binary", "json", "string")
RECORDS: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["topic", "key", "value", "partition", "offset"],
        "properties": {
            "topic": {"type": "string"},
            "partition": {"type": "integer"},
            "offset": {"type": "integer"},
            "timestamp": {"type": "integer"},
        },
    },
}


def media_type(format: str) -> str:
    return f"application/vnd.kafka.{format}.v2+json"


def accepts(header: str, format: str) -> bool:
    """Whether a client that sends this `Accept` takes the format of its instance."""
    kinds = [each.partition(";")[0].strip().lower() for each in header.split(",")]
    taken = ("", "*/*", "application/*", "application/json", V2, media_type(format))
    return any(kind in taken for kind in kinds)


def shown(record: Record, format: str) -> Json:
    found: Json = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_field("key", record.key, format),
        **_field("value", record.value, format),
    }
    if record.headers:
        found["headers"] = [
            {"name": name, "value": None if value is None else _text(value)}
            for name, value in record.headers
        ]
    return found


def _field(name: str, data: bytes | None, format: str) -> Json:
    if data is None:
        return {name: None}
    if format == "binary":
        return {name: _text(data)}
    if format == "json" and json_values.is_json(data):
        return {name: orjson.Fragment(data)}
    if format == "string" or name == "key":
        try:
            return {name: data.decode()}
        except UnicodeDecodeError:
            pass
    return {name: None, f"{name}_base64": _text(data)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
