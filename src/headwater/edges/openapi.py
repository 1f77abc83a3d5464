"""How OpenAPI describes `http_in`: parameters, bodies, answers. Data; a test sends what it promises."""

from __future__ import annotations

from typing import Any

from headwater.edges.answers import responses
from headwater.edges.cloud_events import BATCHED, REQUIRED, STRUCTURED
from headwater.edges.rest import records_v2
from headwater.edges.rest.answers import ERROR_SCHEMA, V2, V3
from headwater.edges.rest.records_out import media_type

_PARAMETERS: list[dict[str, Any]] = [
    {
        "name": "topic",
        "in": "path",
        "required": True,
        "description": "An existing topic",
        "schema": {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,249}$"},
    },
    {
        "name": "key",
        "in": "query",
        "description": "The key of the record, or of all records of the body",
        "schema": {"type": "string"},
    },
    {
        "name": "Headwater-Key",
        "in": "header",
        "description": "The same as `key`, for keys that should not stand in addresses",
        "schema": {"type": "string"},
    },
    {
        "name": "key_field",
        "in": "query",
        "description": "The field whose value is the key of its record: `id`, `customer.id`",
        "schema": {"type": "string", "minLength": 1},
    },
    {
        "name": "partial",
        "in": "query",
        "description": "NDJSON: store the good lines, and put the bad ones into TOPIC.dead-letters",
        "schema": {"type": "boolean", "default": False},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same key with the same body is stored once, and answered alike, for a day",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
]

_EVENT = {
    "type": "object",
    "required": list(REQUIRED),
    "properties": {
        "specversion": {"const": "1.0"},
        **{name: {"type": "string", "minLength": 1} for name in ("id", "source", "type")},
        "subject": {"type": "string", "minLength": 1},
        "time": {"type": "string", "format": "date-time"},
        "datacontenttype": {"type": "string", "minLength": 1},
        "data": {},
    },
    "additionalProperties": False,
}
_SPAN = {
    "type": "object",
    "required": ["partition", "first", "last", "records"],
    "properties": {
        "partition": {"type": "integer"},
        "first": {"type": "integer", "description": "Offset of the first record"},
        "last": {
            "type": "integer",
            "description": "Offset of the last one; others may lie between",
        },
        "records": {"type": "integer"},
    },
}
_ANSWER = {
    "type": "object",
    "required": ["topic"],
    "properties": {
        "topic": {"type": "string"},
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "records": {"type": "integer", "description": "Of NDJSON and batches: how many are stored"},
        "ranges": {"type": "array", "items": _SPAN},
        "refused": {"type": "integer", "description": "With partial: how many lines are not"},
        "lines": {"type": "array", "items": {"type": "object"}},
        "letters": {"type": "string", "description": "The topic that has the refused lines"},
    },
}
_HEADERS = {
    "Headwater-Position": {
        "description": "What a view must have reached to contain the records: TOPIC:PARTITION=NEXT,…",
        "schema": {"type": "string"},
    },
    "Idempotent-Replay": {
        "description": "`true` where an earlier request has stored the records",
        "schema": {"type": "string"},
    },
}
_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {}},
        "application/x-ndjson": {"schema": {"type": "string", "pattern": r"^(\{\}\n)*$"}},
        STRUCTURED: {"schema": _EVENT},
        BATCHED: {"schema": {"type": "array", "items": _EVENT}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        **{media_type(each): {"schema": records_v2.BODY} for each in records_v2.FORMATS},
    },
}

_PROBLEMS = responses(400, 401, 403, 404, 408, 413, 415, 422, 429, 503)
for _each in _PROBLEMS.values():  # in the form of either
    _each["content"] = {**_each["content"], V3: {"schema": ERROR_SCHEMA}}

POST_TOPIC: dict[str, Any] = {
    "summary": "Append what is sent; answered once it is on disk",
    "description": (
        "JSON and bytes are one record, each line of NDJSON and each event of a batch is one. "
        "CloudEvents in binary mode are recognised by their ce- headers. `Content-Encoding: gzip` is "
        "taken. Bodies of Confluent's REST proxy v2 are records as it has them, and errors have its form."
    ),
    "operation_id": "append",
    "response_model": None,
    "responses": {
        200: {
            "description": "Stored: where",
            "headers": _HEADERS,
            "content": {
                "application/json": {"schema": _ANSWER},
                V2: {"schema": records_v2.ANSWER},
            },
        },
        **_PROBLEMS,
    },
    "openapi_extra": {"parameters": _PARAMETERS, "requestBody": _BODY},
}

_OF_THE_GUARD = (401, 403, 408, 413, 429)


def everywhere(document: dict[str, Any]) -> None:
    """Add to every operation what `guard` may answer before its handler does."""
    for operations in document.get("paths", {}).values():
        for operation in operations.values():
            said = operation.setdefault("responses", {})
            for status, response in responses(*_OF_THE_GUARD).items():
                said.setdefault(str(status), response)
