"""Whether the values of a batch carry ids of their topic's schemas: `schema.validation=true`, off by default.

`api/k00_produce` asks `of` for each batch; where the topic does not want it that is None, and nothing is
done. Where it does, the batch is checked in a thread (`validation`), after everything else:

    | 0 | id, 4 bytes | the value |    a zero byte and a number, big-endian, as every serializer writes them

The id must be that of a version of the subject TOPIC-value, also of one that is soft deleted; a record
without a value is a tombstone, and passes. Nothing of the value itself is decoded. What is registered is
read from `_schemas` in this broker's own log, when a batch comes and something was written there since
the last one.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from headwater.broker.internal_topics import SCHEMAS
from headwater.log import replay
from headwater.log.partition import PartitionLog
from headwater.record import records
from headwater.record.errors import InvalidBatch
from headwater.record.varint import Buffer

if TYPE_CHECKING:
    from headwater.broker.catalogue import Topic
    from headwater.broker.topics import Topics

_HEADER_BYTES = 5
_TRIES = 3
_NO_RECORD = (
    ArithmeticError,  # an id of 1e999
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Whatever a stranger's holds: who reads it must get past it, or nothing is taken any more."""


class SubjectIds:
    """A view of `_schemas`: which ids a subject has. Used by the threads that check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log: PartitionLog | None = None
        self._position = 0
        self._versions: dict[str, dict[int, int]] = {}
        """Subject → version → id."""
        self._known: set[int] = set()

    def of(self, topics: Topics, topic: Topic) -> SchemaCheck | None:
        """The check of a topic's batches; None: it wants none."""
        if topic.configs.get("schema.validation", "").lower() != "true":
            return None
        found = topics.partitions.get((SCHEMAS, 0))
        return SchemaCheck(self, f"{topic.name}-value", None if found is None else found.log)

    def ids(self, subject: str, log: PartitionLog | None) -> set[int]:
        """Those of a subject, as far as `_schemas` is durable now."""
        with self._lock:
            if log is not self._log:
                self._log, self._position = log, 0
                self._versions.clear()
                self._known.clear()
            if log is not None and log.durable_offset > self._position:
                self._read(log)
            return set(self._versions.get(subject, {}).values())

    def is_known(self, identity: int) -> bool:
        """Whether some subject has had it."""
        return identity in self._known

    def _read(self, log: PartitionLog) -> None:
        for attempt in range(_TRIES):
            try:
                for batch in replay.read(log, self._position, lambda damage: None):
                    for record in batch.records:
                        self._apply(record.key, record.value)
                    self._position = batch.header.next_offset
                return
            except (OSError, ValueError) as error:
                # Compaction has put other files in the place of those that were being read.
                if attempt == _TRIES - 1:
                    raise InvalidBatch(
                        f"{SCHEMAS} cannot be read: {error}; send it again"
                    ) from None

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        try:
            named = json.loads(key or b"")
            found = None if value is None else json.loads(value)
            kind, subject = named["keytype"], named.get("subject")
            if kind == "SCHEMA":
                if found is None:
                    self._versions.get(subject, {}).pop(named["version"], None)
                else:
                    self._versions.setdefault(subject, {})[named["version"]] = int(found["id"])
                    self._known.add(int(found["id"]))
            elif kind == "CLEAR_SUBJECT":
                self._versions.pop(subject, None)
        except _NO_RECORD:
            return  # not a registry's: the registry itself tells of it


class SchemaCheck:
    """Of one topic, for one batch."""

    __slots__ = ("_ids", "_log", "_subject")

    def __init__(self, ids: SubjectIds, subject: str, log: PartitionLog | None) -> None:
        self._ids, self._subject, self._log = ids, subject, log

    def check(self, batch: Buffer) -> None:
        """Raises InvalidBatch with the first record that has no id of the subject."""
        allowed = self._ids.ids(self._subject, self._log)
        for number, record in enumerate(records.each(batch)):
            value = record.value
            if value is None:
                continue
            if len(value) < _HEADER_BYTES or value[0] != 0:
                self._refuse(number, "its value does not begin with the id of a schema")
            identity = int.from_bytes(value[1:_HEADER_BYTES], "big")
            if identity not in allowed:
                known = self._ids.is_known(identity)
                self._refuse(
                    number,
                    f"the schema {identity} is not of the subject {self._subject}"
                    if known
                    else f"there is no schema {identity}",
                )

    def _refuse(self, number: int, why: str) -> None:
        raise InvalidBatch(f"record {number} of the batch: {why} (schema.validation=true)")
