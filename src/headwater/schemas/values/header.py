"""The five bytes before a value that a registry knows the schema of.

| bytes | |
|-------|--------------------------------------------------------|
| 0     | 0                                                      |
| 1–4   | the schema's id, big-endian                            |
| 5–    | Avro's or JSON's bytes; Protobuf's behind its indexes  |
"""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""What JSON has: None, a truth, a number, a text, a list or an object of these."""
PREFIX_BYTES = 5


def identity_of(data: bytes | None) -> int | None:
    """The id that a value begins with; None: it begins otherwise."""
    if data is None or len(data) < PREFIX_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:PREFIX_BYTES], "big")


def prefix(identity: int) -> bytes:
    return b"\0" + identity.to_bytes(4, "big")


def values_max(size: int) -> int:
    """So many values may stand in this many bytes: schemas of strangers have some that take none."""
    return 1_000_000 + 4 * size
