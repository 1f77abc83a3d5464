"""MongoDB behind the contract of a source.

The snapshot reads documents in the order of `_id`; the stream begins at the server's time from before
the first one. So what changes while the snapshot is read is told again by the stream, with the whole
document: a reader that keeps the last document per key is right as soon as the stream has caught up.

Position: `token` (the change stream's, extended JSON) or, before the first event, `time` (seconds and
number of the server's logical clock); `invalidated` after an event that ended the stream; `snapshot`
(collections left → last `_id`) while the first snapshot is not complete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

from headwater.capture.change import (
    BATCH_BYTES,
    Batch,
    Lag,
    Position,
    Progress,
    Record,
    begins_again,
)
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured
from headwater.capture.mongodb.events import Encoder
from headwater.capture.source import WHOLE, Finding, Range

CHUNK = 1_000
PRE_IMAGES_SINCE = (6, 0)
OLDEST = (4, 4)


class Driver(Protocol):
    """What this source needs of a server; `driver.PymongoDriver` is it."""

    database: str

    def facts(self) -> Any: ...
    def collections(self) -> list[str]: ...
    def operation_time(self) -> tuple[int, int]: ...
    def estimated_count(self, collection: str) -> int: ...
    def documents(self, collection: str, after: str | None, limit: int) -> list[dict[str, Any]]: ...
    def watch(
        self, token: str | None, time: tuple[int, int], *, invalidated: bool, pre_images: bool
    ) -> Iterator[tuple[dict[str, Any] | None, str | None, bool]]: ...
    def close(self) -> None: ...


class MongoSource:
    """One database of a MongoDB deployment."""

    begins_again = True

    def __init__(self, config: CaptureConfig, driver: Driver) -> None:
        config.refuse_unknown({"documents"})
        if config.outbox is not None:
            raise Misconfigured(
                "an outbox is not known for MongoDB", hint="leave `outbox` out of this capture"
            )
        if config.schema:
            raise Misconfigured(
                "documents have no schema to be carried", hint="leave `schema` out of this capture"
            )
        if config.format != "json":
            raise Misconfigured(
                "documents have no schema, so there is no Avro of them",
                hint='set format = "json" for this capture',
            )
        documents = config.option("documents", "string")
        if documents not in ("string", "object"):
            raise Misconfigured(
                f"documents = {documents!r} is not known", hint='give "string" or "object"'
            )
        self._config = config
        self._driver = driver
        self._encoder = Encoder(
            config.name, driver.database, documents == "object", config.tombstones
        )
        self._topics = {self._encoder.topic(name) for name in config.tables}
        self._seen = set(config.tables)
        self._progress: Progress | None = None
        self._last_event_s: float | None = None

    def check(self) -> list[Finding]:
        facts = self._driver.facts()
        shown = ".".join(map(str, facts.version))
        found = [
            Finding(
                "version",
                facts.version >= OLDEST,
                f"MongoDB {shown}",
                None if facts.version >= OLDEST else "use MongoDB 4.4 or later",
            ),
            Finding(
                "replica set",
                facts.replica_set,
                "change streams are possible"
                if facts.replica_set
                else "a lone server has no change streams",
                None
                if facts.replica_set
                else "start mongod with --replSet rs0, then rs.initiate()",
            ),
        ]
        for name in self._config.tables or facts.collections:
            there, kept = name in facts.collections, name in facts.pre_images
            found.append(
                Finding(
                    f"collection {name}",
                    there,
                    f"{name} is there, {'with' if kept else 'without'} pre-images"
                    if there
                    else f"there is no collection {name} (yet)",
                    None if there else f"db.createCollection({name!r})",
                )
            )
        return found

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        if position is None or begins_again(position):
            names = self._driver.collections()
            ends = [] if position is None else self._ends(names)
            position = {
                "time": list(self._driver.operation_time()),
                "snapshot": dict.fromkeys(names),
            }
            yield Batch(dict(position), ends)
        left: dict[str, str | None] = dict(position["snapshot"])
        expected = sum(self._driver.estimated_count(name) for name in left)
        tables, rows = len(left), 0
        for name in list(left):
            while documents := self._driver.documents(name, left[name], CHUNK):
                now_ms = time.time_ns() // 1_000_000
                records: list[Record] = [
                    self._encoder.read(name, document, now_ms) for document in documents
                ]
                self._topics.add(self._encoder.topic(name))
                left[name] = _canonical(documents[-1]["_id"])
                rows += len(records)
                self._progress = Progress(name, rows, expected, tables - len(left), tables)
                yield Batch({**position, "snapshot": dict(left)}, records, len(records))
            del left[name]
        self._progress = None
        yield Batch({"time": position["time"]})

    def stream(self, position: Position) -> Iterator[Batch]:
        facts = self._driver.facts()
        self._seen.update(self._driver.collections())
        start = position.get("time") or (0, 0)
        invalidated = bool(position.get("invalidated"))
        token = position.get("token")
        while True:
            events = self._driver.watch(
                token,
                (start[0], start[1]),
                invalidated=invalidated,
                pre_images=facts.version >= PRE_IMAGES_SINCE,
            )
            for batch in self._batches(events, position):
                position = batch.position
                yield batch
                if position.get("invalidated"):
                    break  # the server closed the stream: another one goes on behind it
            token, invalidated = position.get("token"), True

    def acknowledge(self, position: Position) -> None:
        """The oplog is the server's own; it keeps nothing for us."""

    def lag(self) -> Lag:
        if self._last_event_s is None:
            return Lag(detail="no event has come yet in this run")
        behind = max(0.0, time.time() - self._last_event_s)
        return Lag(detail=f"the last event was {behind:.0f} s old when asked")

    def progress(self) -> Progress | None:
        return self._progress

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        raise Misconfigured(
            "MongoDB collections cannot be read again beside the stream yet",
            hint="begin anew: headwater capture run NAME --resnapshot",
        )

    def forget(self) -> None:
        """Nothing of this capture is in the database."""

    def close(self) -> None:
        self._driver.close()

    def _batches(
        self, events: Iterator[tuple[dict[str, Any] | None, str | None, bool]], position: Position
    ) -> Iterator[Batch]:
        """Events are gathered until none is waiting, or until there are enough."""
        records: list[Record] = []
        rows = size = 0
        for event, token, at_hand in events:
            if token is not None:
                position = {"token": token}
            if event is not None:
                made = self._made(event)
                records += made
                rows += bool(made)
                size += sum(len(record[2] or b"") for record in made)
                if event["operationType"] == "invalidate":
                    position = {**position, "invalidated": True}
            if not at_hand or size >= BATCH_BYTES or position.get("invalidated"):
                yield Batch(position, records, rows)
                records, rows, size = [], 0, 0

    def _ends(self, names: list[str]) -> list[Record]:
        """A truncate of each collection, for a snapshot that is not the first."""
        now_ms = time.time_ns() // 1_000_000
        self._topics.update(self._encoder.topic(name) for name in names)
        return [
            one
            for name in names
            for one in self._encoder.records({"operationType": "drop"}, name, now_ms)
        ]

    def _made(self, event: dict[str, Any]) -> list[Record]:
        stamp = event.get("clusterTime")
        self._last_event_s = None if stamp is None else float(stamp.time)
        now_ms = time.time_ns() // 1_000_000
        place = event.get("ns") or {}
        if event["operationType"] == "dropDatabase":
            names = tuple(sorted(self._seen))
        else:
            # A stream of one collection need not say which.
            names = (place.get("coll") or next(iter(self._config.tables), ""),)
            self._seen.update(names)
        records = [one for name in names for one in self._encoder.records(event, name, now_ms)]
        self._topics.update(record[0] for record in records)
        return records


def _canonical(identity: Any) -> str:
    from headwater.capture.mongodb.driver import to_json

    return to_json(identity)
