"""One request to excise, read and judged; pure. `excisions` calls `read` for every record of its topic.

Whoever may write to the topic can write anything: what is not exactly as it should be is `ExcisionRefused`,
with a sentence for the audit record, and never an error of ours.

    {"id": "…", "topic": "orders", "target": {"salt": hex, "digest": hex}, "partitions": null,
     "dry_run": false, "who": "…", "why": "…", "asked_ms": 0, "topic_id": "…"}

`who` is what the client says of itself; who it is stands beside the request (`authorship`). `topic_id`
may be left out; the topic that has the name when the request is written is meant then.
`target` names a key by the SHA-256 of salt and key, or `first_offset` and `last_offset`.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from headwater.log.excision import Selection

BYTES_MAX = 64 * 1024
TEXT_CHARS_MAX = 1000
OFFSET_MAX = 2**63 - 1
_DIGEST_BYTES = 32
_TARGET = {"salt": str, "digest": str, "first_offset": int, "last_offset": int}
_TOLD = {"id": str, "topic": str, "who": str, "why": str, "asked_ms": int, "dry_run": bool}
"""What the audit repeats of a request, if it is of this type."""


class ExcisionRefused(Exception):
    """A request that cannot be carried out, now or later."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done."""

    id: str
    topic: str
    target: Selection
    partitions: tuple[int, ...] | None
    """None: all of the topic."""
    dry_run: bool
    topic_id: uuid.UUID | None
    """None: of the topic that had this name when the request was written."""


def told(value: bytes | None) -> dict[str, Any]:
    """What may be repeated of a request, however wrong the rest of it is."""
    fields = _object(value)
    target = fields.get("target")
    found: dict[str, Any] = {
        name: fields[name][:TEXT_CHARS_MAX] if kind is str else fields[name]
        for name, kind in _TOLD.items()
        if type(fields.get(name)) is kind
    }
    if isinstance(target, dict):
        found["target"] = {
            name: target[name][:TEXT_CHARS_MAX] if kind is str else target[name]
            for name, kind in _TARGET.items()
            if type(target.get(name)) is kind
        }
    return found


def _object(value: bytes | None) -> dict[str, Any]:
    if value is None or len(value) > BYTES_MAX:
        return {}
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read(value: bytes | None) -> Request:
    """Raises ExcisionRefused."""
    if value is not None and len(value) > BYTES_MAX:
        raise ExcisionRefused(f"the request has {len(value)} bytes; {BYTES_MAX} are allowed")
    fields = _object(value)
    if not fields:
        raise ExcisionRefused("the request is not a JSON object")
    dry_run = fields.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise ExcisionRefused("dry_run is neither true nor false")
    return Request(
        _text(fields, "id"),
        _text(fields, "topic"),
        _target(fields.get("target")),
        _partitions(fields.get("partitions")),
        dry_run,
        _id(fields.get("topic_id")),
    )


def _id(given: object) -> uuid.UUID | None:
    if given is None:
        return None
    try:
        return uuid.UUID(_text({"topic_id": given}, "topic_id"))
    except ValueError:
        raise ExcisionRefused("topic_id is not a UUID") from None


def _text(fields: dict[str, Any], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= TEXT_CHARS_MAX:
        raise ExcisionRefused(f"{name} is not a text of 1 to {TEXT_CHARS_MAX} characters")
    if not found.isprintable():
        raise ExcisionRefused(f"{name} has characters that cannot be written")
    return found


def _target(given: object) -> Selection:
    if not isinstance(given, dict):
        raise ExcisionRefused("target is not an object")
    for name, value in given.items():
        kind = _TARGET.get(name)
        if kind is None:
            raise ExcisionRefused(f"target has an unknown field {str(name)[:100]!r}")
        if type(value) is not kind:
            raise ExcisionRefused(f"target: {name} is not of type {kind.__name__}")
    target = Selection(**given)
    try:
        digest, _ = bytes.fromhex(target.digest), bytes.fromhex(target.salt)
    except ValueError:
        raise ExcisionRefused("target: salt and digest are not hexadecimal") from None
    if "digest" in given:
        if len(digest) != _DIGEST_BYTES:
            raise ExcisionRefused("target: digest is not a SHA-256")
        if {"first_offset", "last_offset"} & given.keys():
            raise ExcisionRefused("target names a key and offsets; only one of them is allowed")
    elif not 0 <= target.first_offset <= target.last_offset <= OFFSET_MAX:
        raise ExcisionRefused("target names neither a key nor a range of offsets")
    return target


def _partitions(given: object) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or not given:
        raise ExcisionRefused("partitions is not a list of numbers")
    if any(type(number) is not int or number < 0 for number in given):
        raise ExcisionRefused("partitions has something in it that is no partition's number")
    if len(set(given)) < len(given):
        raise ExcisionRefused("partitions names one of them twice")
    return tuple(given)
