"""Dicts to the bytes of Kafka's messages; `messages` calls it for answers, the client for requests.

A message is a plain dict (nested dicts and lists), written straight along the fields of kio's entity of
that version. Keys that this version does not have are left out, fields that the dict does not name get the
protocol's default; so one handler serves all versions. Durations and times are integers of milliseconds.
`records` may be a list of buffers, which is passed on uncopied.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    is_optional,
)

from headwater.record.varint import Buffer

Append = Callable[[Buffer], None]
Put = Callable[[Append, Any], None]

STRICT = False
"""Tests switch this on: a response key that no version of the message has is then an error."""

_pack_i16 = struct.Struct(">h").pack
_pack_i32 = struct.Struct(">i").pack
_ZERO_UUID = bytes(16)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


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
