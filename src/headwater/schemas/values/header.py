"""The five bytes before a value that a registry knows the schema of.

| bytes | |
|-------|--------------------------------------------------------|
| 0     | 0                                                      |
| 1–4   | the schema's id, big-endian                            |
| 5–    | Avro's or JSON's bytes; Protobuf's behind its indexes  |
"""

from __future__ import annotations

from typing import Any, TypeAlias

from headwater.schemas.values.errors import NotOfItsSchema

Json: TypeAlias = Any
"""What JSON has: None, a truth, a number, a text, a list or an object of these."""
PREFIX_BYTES = 5
INDEXES_MAX = 32


def identity_of(data: bytes | None) -> int | None:
    """The id that a value begins with; None: it begins otherwise."""
    if data is None or len(data) < PREFIX_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:PREFIX_BYTES], "big")


def prefix(identity: int) -> bytes:
    return b"\0" + identity.to_bytes(4, "big")


def letters_max(size: int) -> int:
    """So many letters all the values in this many bytes may have in JSON, of which schemas of strangers have
    some that take no byte, and `letters_of` as their names."""
    return 32_000_000 + 128 * size


def letters_of(name: str) -> int:
    """Of a field, with a value that is short."""
    return 32 + len(name)


def indexes_of(body: bytes) -> tuple[tuple[int, ...], int]:
    """Which message it is, and where its bytes begin."""
    count, at = _varint(body, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise NotOfItsSchema("it does not say which message of its schema it is")
    found = []
    for _ in range(count):
        index, at = _varint(body, at)
        if index < 0:
            raise NotOfItsSchema("it does not say which message of its schema it is")
        found.append(index)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise NotOfItsSchema("it does not say which message of its schema it is")
