"""BSON as extended JSON and back: what positions, requests and people have of keys and queries; pure.

Called by `driver` for tokens, `_id`s and documents, and by `source` for the documents that somebody asks for.

Documents are decoded whatever the server took. It stores bytes of BSON's UUID types (3 and 4) that are no
UUID, and of the old binary type (2) whose own length disagrees; pymongo refuses a document with one. Such
bytes are decoded under a type that nobody uses in that document, and get theirs back. An element's parts:

    type  1 byte
    name  text, then a zero
    value of a fixed size, or with its length before it
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import bson
from bson import Binary, Code, DBRef, json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument

from headwater.capture.change import BATCH_BYTES
from headwater.capture.errors import Misconfigured
from headwater.capture.mongodb.preflight import Document
from headwater.capture.requests import Entry
from headwater.capture.source import Range

_OPTIONS = json_util.JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


NO_TEXT = "\ufffd"
"""Stands for bytes that are no UTF-8: a value with it does not come back as it was."""


def to_json(value: Any) -> str:
    """Any BSON value as canonical extended JSON: comes back as the same type."""
    return json_util.dumps(value, json_options=_OPTIONS)


def from_json(text: str) -> Any:
    return json_util.loads(text, json_options=_OPTIONS)


def batch_of(cursor: Iterable[Document], after: str | None = None) -> list[Document]:
    """Its documents but the one with that `_id`, or so many of them as make a batch: to one that can be gone
    on from."""
    found: list[Document] = []
    size = 0
    for raw in cursor:
        document = decoded(raw)
        identity = to_json(document["_id"])
        if identity == after:
            continue
        assert isinstance(raw, RawBSONDocument), "asked for with RAW"
        found.append(document)
        size += len(raw.raw)
        if size >= BATCH_BYTES and NO_TEXT not in identity:
            break
    return found


def condition(within: Range) -> str:
    """A query in extended JSON for some of a collection's documents."""
    parts = [] if within.where is None else [_given("where", within.where)]
    bounds = {"$gte": within.first, "$lte": within.last}
    asked = {sign: _given("key", value) for sign, value in bounds.items() if value is not None}
    if asked:
        parts.append({"_id": asked})
    return to_json(parts[0] if len(parts) == 1 else {"$and": parts})


def _given(what: str, text: str) -> object:
    """As it was typed: extended JSON; a key may be bare text."""
    try:
        return from_json(text)
    except (ValueError, TypeError):
        if what == "key":
            return text
        raise Misconfigured(
            f"{text!r} is no query of MongoDB in JSON",
            hint="""for example --where '{"n": {"$gt": 5}}'""",
        ) from None


def asked(wanted: list[Entry]) -> dict[str, str | None]:
    """Collection → which of its documents, None being all, for requests that came together."""
    found: dict[str, str | None] = {}
    for one in wanted:
        name, where = (one, None) if isinstance(one, str) else (one["table"], one["where"])
        before = found.get(name, where)
        if where is None or before is None or before == where:
            found[name] = before and where
        else:
            found[name] = to_json({"$or": [from_json(before), from_json(where)]})
    return found


# ── documents ──────────────────────────────────────────────────────────────────────────────────────

# A server takes years that Python does not know, and text that is not UTF-8.
_AS_IT_IS: CodecOptions[Document] = CodecOptions(
    tz_aware=True,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="replace",
)
RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
"""How to ask for documents that are to be decoded here."""

_OWN_TYPES = range(0x80, 0x100)
_BINARY, _OLD, _UUIDS, _UUID_BYTES = 0x05, 2, (3, 4), 16
_SIZES = {
    0x01: 8,
    0x06: 0,
    0x07: 12,
    0x08: 1,
    0x09: 8,
    0x0A: 0,
    0x10: 4,
    0x11: 8,
    0x12: 8,
    0x13: 16,
}
_SIZES |= {0x7F: 0, 0xFF: 0}
_TEXTS, _DOCUMENTS, _REGEX, _POINTER, _SCOPED = (0x02, 0x0D, 0x0E), (0x03, 0x04), 0x0B, 0x0C, 0x0F
_LENGTH = struct.Struct("<i").unpack_from


def decoded(document: object) -> Document:
    """Raises InvalidBSON for what no server would store."""
    assert isinstance(document, RawBSONDocument), "asked for with RAW"
    try:
        return bson.decode(document.raw, _AS_IT_IS)
    except InvalidBSON:
        return _with_misfits(bytearray(document.raw))


def _with_misfits(data: bytearray) -> Document:
    places = list(_binaries(data, 0))
    free = iter(set(_OWN_TYPES) - {data[place] for place in places})
    misfits = [place for place in places if _is_misfit(data, place)]
    stand_ins = {kind: next(free) for kind in {data[place] for place in misfits}}
    for place in misfits:
        data[place] = stand_ins[data[place]]
    types = {new: old for old, new in stand_ins.items()}
    found = bson.decode(data, _AS_IT_IS)
    return {name: _restored(value, types) for name, value in found.items()}


def _is_misfit(data: bytearray, place: int) -> bool:
    """Of the bytes whose type stands there; their length stands before it."""
    kind, size = data[place], _LENGTH(data, place - 4)[0]
    if kind == _OLD:
        return bool(size < 4 or _LENGTH(data, place + 1)[0] != size - 4)
    return kind in _UUIDS and size != _UUID_BYTES


def _binaries(data: bytearray, at: int) -> Iterator[int]:
    """Where the types of a document's bytes stand, also of those within."""
    end = at + _LENGTH(data, at)[0] - 1
    at += 4
    while at < end:
        kind, at = data[at], data.index(0, at + 1) + 1
        if kind in _SIZES:
            at += _SIZES[kind]
        elif kind == _REGEX:
            at = data.index(0, data.index(0, at) + 1) + 1
        elif kind in _DOCUMENTS:
            yield from _binaries(data, at)
            at += _LENGTH(data, at)[0]
        elif kind == _SCOPED:
            yield from _binaries(data, at + 8 + _LENGTH(data, at + 4)[0])
            at += _LENGTH(data, at)[0]
        elif kind == _BINARY:
            yield at + 4
            at += 5 + _LENGTH(data, at)[0]
        elif kind in _TEXTS or kind == _POINTER:
            at += 4 + _LENGTH(data, at)[0] + (12 if kind == _POINTER else 0)
        else:
            raise InvalidBSON(f"a value of type {kind} is not known")


def _restored(value: object, types: dict[int, int]) -> object:
    """The same with the types that its bytes have."""
    if isinstance(value, dict):
        return {name: _restored(each, types) for name, each in value.items()}
    if isinstance(value, list):
        return [_restored(each, types) for each in value]
    if isinstance(value, DBRef):
        return _restored(value.as_doc(), types)
    if isinstance(value, Code) and value.scope is not None:
        return Code(
            str(value), {name: _restored(each, types) for name, each in value.scope.items()}
        )
    if isinstance(value, Binary) and value.subtype in types:
        return Binary(bytes(value), types[value.subtype])
    return value
