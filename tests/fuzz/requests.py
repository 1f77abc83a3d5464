"""Valid requests of every API and version, with random content, to be mutated.

The shapes come from kio's schemas. Names and ids are mostly those that the broker knows, so that
handlers are entered and not only the parser; numbers are small ones, and often those at which
something overflows.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any

from kio.index import load_request_schema
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    is_optional,
)

from headwater.wire.writer import entity_writer
from tests.compat.batches import batch
from tests.fuzz.lies import lying_batch

_BITS = {
    "int8": 8,
    "int16": 16,
    "error_code": 16,
    "int32": 32,
    "timedelta_i32": 32,
    "int64": 64,
    "timedelta_i64": 64,
    "datetime_i64": 64,
}
_UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
_SMALL_MS = {"max_wait", "timeout", "rebalance_timeout", "session_timeout"}
_PATTERNS = ("fuzz.*", "(a|b)+c", "[", "(" * 30, "(a+)+$", "")
_WORDS = (
    "",
    "range",
    "uniform",
    "consumer",
    "classic",
    "share",
    "earliest",
    "PLAIN",
    "SCRAM-SHA-256",
    "user",
    "client-id",
    "ip",
    "User:fuzz",
    "*",
    "127.0.0.1",
    "retention.ms",
    "cleanup.policy",
    "compact",
    "share.version",
    "5",
    "-1",
    "é\u0000\U0001f600",
    "x" * 300,
)


@dataclass(frozen=True)
class Known:
    """What there is on the broker."""

    topics: Sequence[str]
    topic_ids: Sequence[uuid.UUID]
    groups: Sequence[str]


class Requests:
    """Builds frames without their length: header and body."""

    def __init__(self, known: Known, dice: random.Random, wild: bool = False) -> None:
        """`wild`: fields have each other's values, the largest, the smallest, or none at all."""
        self._known = known
        self._dice = dice
        self._wild = wild

    def frame(self, key: int, version: int) -> bytes:
        schema: Any = load_request_schema(key, version)
        client = self._dice.choice((b"fuzz", b"", b"honest-looking"))
        header = struct.pack(">hhih", key, version, self._dice.getrandbits(31), len(client))
        chunks: list[Any] = [header, client, b"\0" if schema.__flexible__ else b""]
        entity_writer(schema)(chunks.append, self._entity(schema))
        return b"".join(chunks)

    def produce(self) -> bytes:
        """Produce to a topic that is there, and only the records are wrong."""
        parts = [
            {"index": self._dice.randrange(2), "records": lying_batch(self._dice)}
            for _ in range(self._dice.choice((1, 1, 2)))
        ]
        topic = {"name": self._dice.choice(self._known.topics[:2]), "partition_data": parts}
        body = {"acks": self._dice.choice((-1, -1, 1)), "timeout": 1000, "topic_data": [topic]}
        header = struct.pack(">hhih", 0, 9, self._dice.getrandbits(31), 4) + b"fuzz\0"
        chunks: list[Any] = [header]
        entity_writer(load_request_schema(0, 9))(chunks.append, body)
        return b"".join(chunks)

    def _entity(self, schema: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in fields(schema):
            if get_field_tag(field) is not None and self._dice.random() < 0.5:
                continue
            values[field.name] = self._field(field)
        return values

    def _field(self, field: Field[Any]) -> Any:
        kind = classify_field(field)
        kafka_type = field.metadata.get("kafka_type")
        if is_optional(field) and self._dice.random() < 0.15:
            return None if kafka_type != "datetime_i64" else -1
        if self._wild and kafka_type in ("string", "bytes") and self._dice.random() < 0.02:
            return None  # also where it must not be
        if isinstance(kind, EntityField | EntityTupleField):
            if not kind.is_array:
                return self._entity(kind.type_)
            return [self._entity(kind.type_) for _ in range(self._dice.choice((0, 1, 1, 1, 2)))]
        if kind.is_array:
            count = self._dice.choice((0, 1, 1, 2, 5))
            return [self._value(field.name, field.metadata["kafka_type"]) for _ in range(count)]
        return self._value(field.name, field.metadata["kafka_type"])

    def _value(self, name: str, kafka_type: str) -> Any:
        named = _BY_NAME.get(name)
        if named is not None and self._dice.random() < 0.8:
            return named(self._dice, self._known)
        if kafka_type in _BITS:
            return self._number(name, _BITS[kafka_type])
        if kafka_type in _UNSIGNED_BITS:
            return self._dice.getrandbits(_UNSIGNED_BITS[kafka_type])
        if kafka_type == "string":
            return self._text()
        if kafka_type == "bool":
            return self._dice.random() < 0.5
        if kafka_type == "uuid":
            return self._dice.choice((*self._known.topic_ids, uuid.UUID(int=0), None))
        if kafka_type == "float64":
            return self._dice.choice((0.0, -1.0, 1e308, float("nan"), float("inf"), 1e9))
        return self._dice.randbytes(self._dice.choice((0, 1, 20, 300)))

    def _number(self, name: str, bits: int) -> int:
        if (name in _SMALL_MS or name.endswith("_ms")) and not self._wild:
            return self._dice.choice((0, 1, 5, 20))
        if self._dice.random() < (0.3 if self._wild else 0.7):
            return self._dice.choice((0, 0, 0, 1, 1, 2, 3, -1))
        edge = self._dice.choice((2 ** (bits - 1) - 1, -(2 ** (bits - 1)), -2, 100))
        return max(-(2 ** (bits - 1)), min(edge, 2 ** (bits - 1) - 1))

    def _text(self) -> str:
        known: Sequence[str] = self._dice.choice((self._known.topics, self._known.groups, _WORDS))
        return self._dice.choice(known)


def _topic(dice: random.Random, known: Known) -> str:
    return dice.choice(known.topics)


def _records(dice: random.Random, known: Known) -> bytes:
    if dice.random() < 0.7:
        return lying_batch(dice)
    value = dice.randbytes(dice.choice((0, 10, 200)))
    producer = dice.choice(((-1, -1, -1), (dice.randrange(9), 0, 0)))
    return batch(
        [(b"k", value)] * dice.choice((1, 1, 3)),
        producer=producer,
        attributes=dice.choice((0, 0, 0, 1, 4, 16, 48)),
        crc_error=dice.choice((0, 0, 0, 1)),
    )


_BY_NAME: Mapping[str, Callable[[random.Random, Known], Any]] = {
    "topic": _topic,
    "topic_name": _topic,
    "group_id": lambda dice, known: dice.choice(known.groups),
    "transactional_id": lambda dice, known: dice.choice(known.groups),
    "topic_id": lambda dice, known: dice.choice(known.topic_ids),
    "records": _records,
    # What would change the broker for everybody, or fill the disk, is legal but not the point here.
    "num_partitions": lambda dice, known: 1,
    "count": lambda dice, known: dice.choice((1, 2)),
    "validate_only": lambda dice, known: True,
    "replication_factor": lambda dice, known: 1,
    "resource_type": lambda dice, known: dice.choice((2, 2, 4, 8, 16, 32, 3)),
    "max_wait": lambda dice, known: dice.choice((0, 1, 10)),
    "max_bytes": lambda dice, known: dice.choice((0, 1000, 2**31 - 1)),
    "subscribed_topic_regex": lambda dice, known: dice.choice(_PATTERNS),
}
