"""What consumers of the classic protocol say in JoinGroup and hear in SyncGroup (KIP-429, KIP-792).

`ClassicGroup` reads only the topics, so that offsets of subscribed topics are neither deleted nor
expired, and otherwise treats these bytes as opaque. A group of the newer protocol reads and writes
them for its classic members (`consumer/classic`), as does the migration between the two.

    subscription   version int16 | topics [] string | user_data bytes?
                   | owned [] of topic string, partitions [] int32 (1+) | generation int32 (2+)
                   | rack string? (3+)
    assignment     version int16 | [] of topic string, partitions [] int32 | user_data bytes?

Later versions only add at the end, so what is unknown there must be read over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.broker.groups.cursor import BadRecord, Cursor

CONSUMER = "consumer"


def topics_of(metadata: bytes) -> frozenset[str]:
    """The subscribed topics; raises `BadRecord` for bytes that are not a subscription."""
    cursor = Cursor(metadata)
    if cursor.i16() < 0:
        raise BadRecord("a subscription of negative version")
    return frozenset([cursor.string() for _ in range(cursor.count())])


class Subscription(NamedTuple):
    version: int
    topics: frozenset[str]
    owned: dict[str, frozenset[int]]
    generation: int = -1
    rack: str | None = None


def read_subscription(metadata: bytes) -> Subscription:
    """Raises `BadRecord`."""
    cursor = Cursor(metadata)
    version = cursor.i16()
    if version < 0:
        raise BadRecord("a subscription of negative version")
    topics = frozenset([cursor.string() for _ in range(cursor.count())])
    _skip_user_data(cursor)
    owned = _partitions(cursor) if version >= 1 else {}
    generation = cursor.i32() if version >= 2 else -1
    rack = cursor.nullable_string() if version >= 3 else None
    return Subscription(version, topics, owned, generation, rack)


def read_assignment(assignment: bytes) -> dict[str, frozenset[int]]:
    """Raises `BadRecord`; no bytes are no partitions."""
    if not assignment:
        return {}
    cursor = Cursor(assignment)
    if cursor.i16() < 0:
        raise BadRecord("an assignment of negative version")
    return _partitions(cursor)


def write_assignment(version: int, partitions: Mapping[str, Iterable[int]]) -> bytes:
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic, numbers in sorted(partitions.items()):
        name, each = topic.encode(), sorted(numbers)
        parts.append(struct.pack(">h", len(name)) + name)
        parts.append(struct.pack(f">i{len(each)}i", len(each), *each))
    return b"".join((*parts, struct.pack(">i", -1)))


def _partitions(cursor: Cursor) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for _ in range(cursor.count()):
        topic = cursor.string()
        numbers = frozenset([cursor.i32() for _ in range(cursor.count())])
        if numbers:
            found[topic] = found.get(topic, frozenset()) | numbers
    return found


def _skip_user_data(cursor: Cursor) -> None:
    length = cursor.i32()
    if length >= 0:
        cursor.take(length)
