"""How a key may be written in a topic, and the partitions in which producers put it; pure.

A person says `17`; a captured table's key is `{"id":17}`, or the same inside Connect's schema and
payload. One key of the topic, as an example, tells which. Java's clients and Spark place a key by
murmur2, librdkafka's by CRC-32; whoever looks a key up tries them in this order.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

_M, _R, _SEED = 0x5BD1E995, 24, 0x9747B28C
_MASK = 0xFFFFFFFF


def forms_of(text: str, example: bytes | None) -> list[bytes]:
    """The bytes that `text` may mean, the plainest first."""
    forms = [text.encode()]
    said = _parsed(text)
    if isinstance(said, dict):
        forms.append(_compact(said))
    shape = _parsed(example)
    if isinstance(shape, dict) and (formed := _formed(text, said, shape)) is not None:
        forms.append(_compact(formed))
    return list(dict.fromkeys(forms))


def _formed(text: str, said: Any, shape: dict[str, Any]) -> dict[str, Any] | None:
    """`text` in the place of the example's values; None where it does not fit."""
    if set(shape) == {"schema", "payload"} and isinstance(shape["payload"], dict):
        inner = _formed(text, said, shape["payload"])
        return None if inner is None else {"schema": shape["schema"], "payload": inner}
    if isinstance(said, dict):
        return {name: said[name] for name in shape} if set(said) == set(shape) else None
    if len(shape) != 1:
        return None
    ((name, value),) = shape.items()
    if isinstance(value, str):
        return {name: text}
    return {name: said} if isinstance(said, int | float) else None


def _parsed(text: str | bytes | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def by_murmur2(key: bytes, partitions: int) -> int:
    """Where Kafka's own partitioner puts a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions if partitions > 1 else 0


def by_crc32(key: bytes, partitions: int) -> int:
    """Where librdkafka's default partitioner (`consistent_random`) puts a key."""
    return zlib.crc32(key) % partitions


def murmur2(data: bytes) -> int:
    """As in Kafka's Utils.murmur2, unsigned."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> _R)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)
