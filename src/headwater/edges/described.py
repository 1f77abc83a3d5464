"""How OpenAPI describes `http_in`: parameters, bodies, answers. Data; a test sends what it promises."""

from __future__ import annotations

from typing import Any

from headwater.edges.answers import responses
from headwater.edges.cloud_events import BATCHED, REQUIRED, STRUCTURED

TOPIC: dict[str, Any] = {
    "description": "An existing topic",
    "pattern": r"^[A-Za-z0-9._-]{1,249}$",
}
KEY: dict[str, Any] = {"description": "The key of the record, or of all records of the body"}
KEY_HEADER: dict[str, Any] = {
    "description": "The same as `key`, for keys that are no URL's business"
}
KEY_FIELD: dict[str, Any] = {
    "description": "The field whose value is the key of its record: `id`, `customer.id`",
    "min_length": 1,
}
PARTIAL: dict[str, Any] = {
    "description": "NDJSON: store the good lines, and put the bad ones into TOPIC.dead-letters"
}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "description": "The same key with the same body is stored once, and answered alike, for a day"
}

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
    },
}

POST_TOPIC: dict[str, Any] = {
    "summary": "Append what is sent; answered once it is on disk",
    "description": (
        "JSON and bytes are one record, each line of NDJSON and each event of a batch is one. "
        "CloudEvents in binary mode are recognised by their ce- headers. `Content-Encoding: gzip` is "
        "taken."
    ),
    "operation_id": "append",
    "response_model": None,
    "responses": {
        200: {
            "description": "Stored: where",
            "headers": _HEADERS,
            "content": {"application/json": {"schema": _ANSWER}},
        },
        **responses(400, 401, 403, 404, 408, 413, 415, 422, 429, 503),
    },
    "openapi_extra": {"requestBody": _BODY},
}

_OF_THE_GUARD = (401, 403, 408, 413, 429)


def everywhere(document: dict[str, Any]) -> None:
    """Add to every operation what `guard` may answer before its handler does."""
    for operations in document.get("paths", {}).values():
        for operation in operations.values():
            said = operation.setdefault("responses", {})
            for status, response in responses(*_OF_THE_GUARD).items():
                said.setdefault(str(status), response)
