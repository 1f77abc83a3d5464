"""Produce in version 7, by hand: batches of several partitions to a request, and its answer back. Pure.

`line` calls it; owners are told what became of a batch.

    request   transactional id -1 (int16) | acks -1 (int16) | timeout int32 | topics: name | partitions:
              index int32 | records (int32 size)
    answer    topics: name | partitions: index int32 | error int16 | base offset int64 |
              append time int64 | log start int64;  then throttle int32
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

_PARTITION = struct.Struct(">ihqqq")


class Stored(NamedTuple):
    """What became of a batch; `error` is Kafka's number, or None where no answer came."""

    error: int | None
    base_offset: int


LOST = Stored(None, -1)
Callback = Callable[[Stored], None]


class Batch(NamedTuple):
    topic: str
    partition: int
    data: bytes
    done: Callback


Taken = Mapping[tuple[str, int], Batch]
"""At most one batch of a partition in a request, as the protocol demands."""


def body(taken: Taken) -> list[bytes]:
    topics: dict[str, list[Batch]] = {}
    for each in taken.values():
        topics.setdefault(each.topic, []).append(each)
    parts = [struct.pack(">hhii", -1, -1, 30_000, len(topics))]
    for name, batches in topics.items():
        parts += (string(name), struct.pack(">i", len(batches)))
        for each in batches:
            parts += (struct.pack(">ii", each.partition, len(each.data)), each.data)
    return parts


def string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def stored(frame: bytes | None, taken: Taken) -> dict[tuple[str, int], Stored]:
    """Of each batch of the request; LOST for what the answer does not name."""
    found = dict.fromkeys(taken, LOST)
    if frame is None:
        return found
    (topics,), at = struct.unpack_from(">i", frame), 4
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", frame, at)
        name = frame[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (partitions,) = struct.unpack_from(">i", frame, at)
        at += 4
        for _ in range(partitions):
            index, error, base_offset, _, _ = _PARTITION.unpack_from(frame, at)
            at += _PARTITION.size
            found[name, index] = Stored(error, base_offset)
    return found
