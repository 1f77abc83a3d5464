"""Bytes to requests and responses to bytes: the only module that knows how Kafka's messages look.

The connection calls `Wire.decode` for a frame and `Wire.encode` for a handler's answer. The shape of
every message, in every version, comes from kio's generated entities:

- a request becomes kio's entity of that version (kio's native parser). A field that a version does
  not have is absent: handlers read it with `getattr(request, name, default)`.
- a response is a plain dict (nested dicts and lists), written straight along the fields of kio's
  response entity of that version. Keys that this version does not have are left out, fields that the
  dict does not name get the protocol's default; so one handler serves all versions. Durations and
  times are integers of milliseconds. `records` may be a list of buffers, which is passed on uncopied.

Frame:  size int32 | header | body        (size counts what follows it)
Request header v1: api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string
        v2: the same + tagged fields. Response header v0: correlation_id, v1: + tagged fields
        (ApiVersions always answers with v0, so that any client can read it: KIP-511).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    is_optional,
)

from headwater.broker import guard
from headwater.broker.errors import WireError
from headwater.broker.guard import unsigned_varint
from headwater.record.varint import Buffer

Append = Callable[[Buffer], None]
Put = Callable[[Append, Any], None]

API_VERSIONS = 18
STRICT = False
"""Tests switch this on: a response key that no version of the message has is then an error."""

_HEADER = struct.Struct(">hhih")
_pack_i16 = struct.Struct(">h").pack
_pack_i32 = struct.Struct(">i").pack
_ZERO_UUID = bytes(16)


class Header(NamedTuple):
    """What every request starts with."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    size: int


def read_header(frame: Buffer) -> Header:
    """The version-independent part of a request header (tagged fields are skipped by `decode`)."""
    view = memoryview(frame)
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(view)
    except struct.error:
        raise WireError(f"a request of {len(view)} bytes is shorter than its header") from None
    end = _HEADER.size + max(length, 0)
    if length < -1 or end > len(view):
        raise WireError(f"client id length {length} exceeds the request's {len(view)} bytes")
    try:
        client_id = str(view[_HEADER.size : end], "utf-8")
    except UnicodeDecodeError:
        raise WireError("the client id is not UTF-8") from None
    return Header(api_key, api_version, correlation_id, client_id, end)


def decode(frame: Buffer, header: Header) -> Any:
    """The body of a request, as kio's entity of its version."""
    return weighed(frame, header)[0]


def weighed(frame: Buffer, header: Header) -> tuple[Any, int]:
    """The same, and about how many bytes of memory it takes.

    Bytes behind it are ignored, as Kafka does: librdkafka leaves three in some Metadata requests.
    """
    read, schema = _request_reader(header.api_key, header.api_version)
    view = memoryview(frame).toreadonly()
    try:
        position = _skip_tagged_fields(view, header.size) if schema.__flexible__ else header.size
        elements = guard.check(schema, view, position)
        entity, _ = read(view, position)
    except WireError:
        raise
    except Exception as error:  # kio raises what its parser met: underflow, bad UTF-8, bad enum
        raise WireError(f"cannot be parsed: {error or type(error).__name__}") from error
    return entity, len(view) + elements * guard.ELEMENT_BYTES


def encode(
    api_key: int, api_version: int, correlation_id: int, body: Mapping[str, Any]
) -> list[Buffer]:
    """The whole response frame as a list of buffers, ready for `writelines`."""
    put, header = _response_writer(api_key, api_version)
    chunks: list[Buffer] = []
    put(chunks.append, body)
    size = sum(map(len, chunks)) + 4 + len(header)
    prefix = _pack_i32(size) + _pack_i32(correlation_id) + header
    if len(chunks) == 1 or size < 4096:
        return [b"".join((prefix, *chunks))]
    return _coalesced(prefix, chunks)


def _coalesced(prefix: bytes, chunks: list[Buffer]) -> list[Buffer]:
    """Join the small pieces, so that only record data stands on its own."""
    out: list[Buffer] = []
    small: list[Buffer] = [prefix]
    for chunk in chunks:
        if len(chunk) < 4096:
            small.append(chunk)
        else:
            out += (b"".join(small), chunk)
            small = []
    if small:
        out.append(b"".join(small))
    return out


@cache
def _request_reader(api_key: int, api_version: int) -> tuple[Callable[[Buffer, int], Any], Any]:
    schema: Any = load_request_schema(api_key, api_version)
    return entity_reader(schema), schema


@cache
def _response_writer(api_key: int, api_version: int) -> tuple[Put, bytes]:
    schema: Any = load_response_schema(api_key, api_version)
    header = b"\0" if schema.__flexible__ and api_key != API_VERSIONS else b""
    return entity_writer(schema), header


def _skip_tagged_fields(view: memoryview, position: int) -> int:
    count, position = unsigned_varint(view, position)
    for _ in range(min(count, len(view))):
        _, position = unsigned_varint(view, position)
        size, position = unsigned_varint(view, position)
        position += size
        if position > len(view):
            raise WireError("a tagged field exceeds the request")
    return position


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---- writers -----------------------------------------------------------------------------------


def _fixed(pack: Callable[[Any], bytes]) -> Put:
    return lambda append, value: append(pack(value))


def _put_uuid(append: Append, value: uuid.UUID | None) -> None:
    append(_ZERO_UUID if value is None else value.bytes)


def _put_compact(append: Append, value: str | Buffer | None) -> None:
    if value is None:
        append(b"\0")
        return
    data: Any = value.encode() if isinstance(value, str) else value
    append(uvarint(len(data) + 1))
    append(data)


def _put_compact_records(append: Append, value: list[Buffer] | Buffer | None) -> None:
    if not isinstance(value, list):
        _put_compact(append, value)
        return
    append(uvarint(sum(map(len, value)) + 1))
    for piece in value:
        append(piece)


def _put_string(append: Append, value: str | None) -> None:
    if value is None:
        append(b"\xff\xff")
        return
    data = value.encode()
    append(_pack_i16(len(data)))
    append(data)


def _put_bytes(append: Append, value: Any) -> None:
    if value is None:
        append(b"\xff\xff\xff\xff")
        return
    pieces = value if isinstance(value, list) else [value]
    append(_pack_i32(sum(map(len, pieces))))
    for piece in pieces:
        append(piece)


_CODES = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""Kafka's types of fixed size, as `struct` spells them."""


def _primitive(kafka_type: str, flexible: bool) -> Put:
    if kafka_type in _CODES:
        return _fixed(struct.Struct(">" + _CODES[kafka_type]).pack)
    if kafka_type == "uuid":
        return _put_uuid
    if kafka_type == "records":
        return _put_compact_records if flexible else _put_bytes
    if flexible:
        return _put_compact
    return {"string": _put_string, "bytes": _put_bytes}[kafka_type]


def _array(put_item: Put, flexible: bool) -> Put:
    def put(append: Append, items: Sequence[Any] | None) -> None:
        if items is None:
            append(b"\0" if flexible else b"\xff\xff\xff\xff")
            return
        append(uvarint(len(items) + 1) if flexible else _pack_i32(len(items)))
        for item in items:
            put_item(append, item)

    return put


def _nullable_entity(put_entity: Put) -> Put:
    def put(append: Append, entity: Mapping[str, Any] | None) -> None:  # KIP-893
        append(b"\xff" if entity is None else b"\x01")
        if entity is not None:
            put_entity(append, entity)

    return put


class _FieldPlan(NamedTuple):
    name: str
    put: Put
    default: Any
    code: str
    """For `struct`, if the field has a fixed size."""


def _plan(field: Field[Any], flexible: bool, tagged: bool) -> _FieldPlan:
    kind = classify_field(field)
    nullable = is_optional(field)
    if isinstance(kind, EntityField | EntityTupleField):
        put = entity_writer(kind.type_)
        if not kind.is_array and nullable and not tagged:
            put = _nullable_entity(put)
    else:
        put = _primitive(field.metadata["kafka_type"], flexible)
    if kind.is_array:
        put = _array(put, flexible)
    code = "" if kind.is_array else _CODES.get(field.metadata.get("kafka_type", ""), "")
    return _FieldPlan(field.name, put, _default(field, kind.is_array, nullable), code)


def _default(field: Field[Any], is_array: bool, nullable: bool) -> Any:
    """The protocol's default, in the form that our writers take."""
    value = field.default
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if value is None and field.metadata.get("kafka_type") == "datetime_i64":
        return -1
    if value is not MISSING:
        return {} if hasattr(value, "__dataclass_fields__") else value
    if is_array:
        return ()
    if nullable:
        return -1 if field.metadata.get("kafka_type") == "datetime_i64" else None
    kafka_type = field.metadata.get("kafka_type")
    if kafka_type is None:
        return {}
    return {"string": "", "bytes": b"", "records": None, "uuid": None, "bool": False}.get(
        kafka_type, 0
    )


def _run(plans: list[_FieldPlan]) -> Put:
    """Several fields in a row; those of fixed size are packed together."""
    steps: list[Put] = []
    fixed: list[_FieldPlan] = []
    for plan in [*plans, None]:
        if plan is not None and plan.code:
            fixed.append(plan)
            continue
        if fixed:
            steps.append(_pack_together(fixed))
            fixed = []
        if plan is not None:
            steps.append(_put_field(plan))

    def put(append: Append, body: Mapping[str, Any]) -> None:
        for step in steps:
            step(append, body)

    return steps[0] if len(steps) == 1 else put


def _pack_together(plans: list[_FieldPlan]) -> Put:
    pack = struct.Struct(">" + "".join(plan.code for plan in plans)).pack
    wanted = [(plan.name, plan.default) for plan in plans]

    def put(append: Append, body: Mapping[str, Any]) -> None:
        get = body.get
        append(pack(*[get(name, default) for name, default in wanted]))

    return put


def _put_field(plan: _FieldPlan) -> Put:
    name, put_value, default, _ = plan

    def put(append: Append, body: Mapping[str, Any]) -> None:
        put_value(append, body.get(name, default))

    return put


@cache
def entity_writer(entity: Any) -> Put:
    """A function that writes a dict as this kio entity."""
    flexible: bool = entity.__flexible__
    plain: list[_FieldPlan] = []
    tagged: dict[int, _FieldPlan] = {}
    for field in fields(entity):
        tag = get_field_tag(field)
        plan = _plan(field, flexible, tag is not None)
        if tag is None:
            plain.append(plan)
        else:
            tagged[int(tag)] = plan
    put_plain = _run(plain) if plain else None
    ordered = sorted(tagged.items())

    def put(append: Append, body: Mapping[str, Any]) -> None:
        if STRICT:
            _check_names(entity, body)
        if put_plain is not None:
            put_plain(append, body)
        if flexible:
            if ordered:
                _put_tagged(append, body, ordered)
            else:
                append(b"\0")

    return put


def _put_tagged(
    append: Append, body: Mapping[str, Any], ordered: list[tuple[int, _FieldPlan]]
) -> None:
    present = [
        (tag, plan)
        for tag, plan in ordered
        if plan.name in body and body[plan.name] != plan.default
    ]
    append(uvarint(len(present)))
    for tag, plan in present:
        chunks: list[Buffer] = []
        plan.put(chunks.append, body[plan.name])
        data = b"".join(chunks)
        append(uvarint(tag) + uvarint(len(data)))
        append(data)


def _check_names(entity: Any, body: Mapping[str, Any]) -> None:
    unknown = set(body) - _names_in_any_version(entity)
    assert not unknown, f"no version of {entity.__name__} has {sorted(unknown)}"


@cache
def _names_in_any_version(entity: Any) -> frozenset[str]:
    """All field names that entities of this name have, in any version of their message."""
    import importlib
    import pkgutil

    message = entity.__module__.rsplit(".", 2)[0]
    leaf = entity.__module__.rsplit(".", 1)[1]
    names: set[str] = set()
    for version in pkgutil.iter_modules(importlib.import_module(message).__path__):
        module = importlib.import_module(f"{message}.{version.name}.{leaf}")
        other = getattr(module, entity.__name__, None)
        if other is not None:
            names.update(field.name for field in fields(other))
    return frozenset(names)
