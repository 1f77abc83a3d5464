"""Walks a request's bytes along its schema before kio's parser may see them.

kio reserves memory for as many array elements as a request announces, before it looks whether they
are there: thirty bytes could ask for 100 GB and end the process. So every length and every count is
compared with what is really left of the request, and the number of elements is bounded. Called by
`messages.decode` for each request; nothing is decoded here, only stepped over:

    fixed fields        their size, those in a row in one step
    strings and bytes   the length (int16, int32, or varint less one), and as many bytes; a string has
                        no more than an int16 can say, as in Kafka
    arrays              the count (int32, or varint less one), which must not exceed the bytes left
    tagged fields       each of the size that it says; known ones are walked inside of it
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from typing import Any

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    is_optional,
)

from headwater.wire.errors import StringTooLong, TooManyElements, WireError

ELEMENTS_MAX = 32_000
"""Of all arrays of one request: 10,000 partitions, each of a topic of its own, take three elements each
(its name in a subscription, the topic and the partition), and a thousand topics may be made with
thirty configs each. An element is a few microseconds of the event loop, here and in its handler, and
`ELEMENT_BYTES` of memory."""
STRING_BYTES_MAX = 0x7FFF
ELEMENT_BYTES = 160
"""What a decoded element takes, however few bytes it has on the wire."""

Step = Callable[[memoryview, int, list[int]], int]
"""(bytes, position, [elements still allowed]) → position behind it."""

_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_I16, _I32 = struct.Struct(">h").unpack_from, struct.Struct(">i").unpack_from


def check(schema: Any, view: memoryview, position: int) -> int:
    """How many elements the body at `position` has. Raises WireError unless it stays within its bytes."""
    allowed = [ELEMENTS_MAX]
    try:
        end = entity_step(schema)(view, position, allowed)
    except (IndexError, struct.error):
        raise WireError("the request ends in the middle of a field") from None
    if end > len(view):
        raise WireError("a field reaches beyond the end of the request")
    return ELEMENTS_MAX - allowed[0]


def tagged_fields(view: memoryview, position: int) -> int:
    """The position behind the tagged fields of a header, of which none means anything. Raises WireError,
    and IndexError at the end of the bytes."""
    return _NO_TAGS(view, position, [ELEMENTS_MAX])


def unsigned_varint(view: memoryview, position: int) -> tuple[int, int]:
    """A varint of at most five bytes, and the position behind it."""
    value = view[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise WireError("a varint is longer than five bytes")


@cache
def entity_step(entity: Any) -> Step:
    """Steps over one entity."""
    flexible: bool = entity.__flexible__
    steps: list[Step] = []
    size = 0
    tagged: dict[int, Step] = {}
    for field in fields(entity):
        tag = get_field_tag(field)
        if tag is not None:
            tagged[int(tag)] = _field_step(field, flexible, tagged=True)
            continue
        if _is_fixed(field):
            size += _SIZES[field.metadata["kafka_type"]]
            continue
        if size:
            steps.append(_over(size))
            size = 0
        steps.append(_field_step(field, flexible, tagged=False))
    if size:
        steps.append(_over(size))
    if flexible:
        steps.append(_tagged_step(tagged))
    return steps[0] if len(steps) == 1 else _all(steps)


def _all(steps: list[Step]) -> Step:
    def step(view: memoryview, position: int, allowed: list[int]) -> int:
        for one in steps:
            position = one(view, position, allowed)
        return position

    return step


def _over(size: int) -> Step:
    return lambda view, position, allowed: position + size


def _is_fixed(field: Field[Any]) -> bool:
    return not classify_field(field).is_array and field.metadata.get("kafka_type") in _SIZES


def _field_step(field: Field[Any], flexible: bool, *, tagged: bool) -> Step:
    kind = classify_field(field)
    if isinstance(kind, EntityField | EntityTupleField):
        item = entity_step(kind.type_)
        if not kind.is_array and is_optional(field) and not tagged:
            item = _nullable(item)
    else:
        item = _primitive(field.metadata["kafka_type"], flexible)
    return _array(item, flexible, is_optional(field)) if kind.is_array else item


def _primitive(kafka_type: str, flexible: bool) -> Step:
    if kafka_type in _SIZES:
        return _over(_SIZES[kafka_type])
    if flexible:
        return _compact_string if kafka_type == "string" else _compact_bytes
    return _string if kafka_type == "string" else _bytes


def _compact_bytes(view: memoryview, position: int, allowed: list[int]) -> int:
    length, position = unsigned_varint(view, position)
    return _within(view, position + max(length - 1, 0))


def _compact_string(view: memoryview, position: int, allowed: list[int]) -> int:
    length, position = unsigned_varint(view, position)
    if length > STRING_BYTES_MAX + 1:
        raise StringTooLong(f"a string of {length - 1} bytes ({STRING_BYTES_MAX} are allowed)")
    return _within(view, position + max(length - 1, 0))


def _string(view: memoryview, position: int, allowed: list[int]) -> int:
    (length,) = _I16(view, position)
    return _within(view, position + 2 + max(length, 0))


def _bytes(view: memoryview, position: int, allowed: list[int]) -> int:
    (length,) = _I32(view, position)
    return _within(view, position + 4 + max(length, 0))


def _within(view: memoryview, position: int) -> int:
    if position > len(view):
        raise WireError("a field reaches beyond the end of the request")
    return position


def _nullable(item: Step) -> Step:
    def step(view: memoryview, position: int, allowed: list[int]) -> int:
        is_there = view[position] < 0x80  # int8: -1 is null (KIP-893)
        return item(view, position + 1, allowed) if is_there else position + 1

    return step


def _array(item: Step, flexible: bool, nullable: bool) -> Step:
    def step(view: memoryview, position: int, allowed: list[int]) -> int:
        if flexible:
            count, position = unsigned_varint(view, position)
            count -= 1
        else:
            (count,) = _I32(view, position)
            position += 4
        if count < 0 and not nullable:
            raise WireError("an array is null that must not be")
        if count > len(view) - position:
            raise WireError(f"an array of {count} elements in {len(view) - position} bytes")
        allowed[0] -= max(count, 0)
        if allowed[0] < 0:
            raise TooManyElements(f"more than {ELEMENTS_MAX} elements in one request")
        for _ in range(count):
            position = item(view, position, allowed)
        return _within(view, position)

    return step


def _tagged_step(tagged: dict[int, Step]) -> Step:
    def step(view: memoryview, position: int, allowed: list[int]) -> int:
        if view[position] == 0:
            return position + 1
        count, position = unsigned_varint(view, position)
        allowed[0] -= count
        if allowed[0] < 0:
            raise TooManyElements(f"more than {ELEMENTS_MAX} elements in one request")
        for _ in range(count):
            tag, position = unsigned_varint(view, position)
            size, position = unsigned_varint(view, position)
            end = _within(view, position + size)
            if tag in tagged and tagged[tag](view[:end], position, allowed) > end:
                raise WireError("a tagged field is longer than it says")
            position = end
        return position

    return step


_NO_TAGS = _tagged_step({})
