"""MongoDB behind the contract of a source.

The snapshot reads documents in the order of `_id`; the stream begins at the server's time from before
the first one. So what changes while the snapshot is read is told again by the stream, with the whole
document: a reader that keeps the last document per key is right as soon as the stream has caught up.

Position: `token` (the change stream's, extended JSON) or, before the first event, `time` (seconds and
number of the server's logical clock); `invalidated` after an event that ended the stream; `snapshot`
(collections left → last `_id`) while the first snapshot is not complete; `reading`, likewise, while a
collection is read that took another's documents by a rename ($out).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

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
from headwater.capture.errors import CaptureError, Interrupted, Misconfigured, SourceRefused
from headwater.capture.mongodb.driver import to_json
from headwater.capture.mongodb.events import Encoder
from headwater.capture.mongodb.preflight import Document, Facts, findings
from headwater.capture.source import WHOLE, Finding, Range

CHUNK = 1_000
PRE_IMAGES_SINCE = (6, 0)


class Driver(Protocol):
    """What this source needs of a server; `driver.PymongoDriver` is it."""

    database: str

    def facts(self) -> Facts: ...
    def collections(self) -> list[str]: ...
    def wants(self, collection: str) -> bool: ...
    def operation_time(self) -> tuple[int, int]: ...
    def estimated_count(self, collection: str) -> int: ...
    def documents(self, collection: str, after: str | None, limit: int) -> list[Document]: ...
    def watch(
        self, token: str | None, time: tuple[int, int], *, invalidated: bool, pre_images: bool
    ) -> Iterator[tuple[Document | None, str | None, bool]]: ...
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
        try:
            return findings(self._driver.facts(), self._config.tables)
        except (CaptureError, Interrupted) as error:
            return [Finding("connection", False, str(error), error.hint or "start the server")]

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        if position is None or begins_again(position):
            names = self._driver.collections()
            ends = [] if position is None else self._ends(names)
            position = {
                "time": list(self._driver.operation_time()),
                "snapshot": dict.fromkeys(names),
            }
            yield Batch(dict(position), ends)
        yield from self._read(position, "snapshot")
        yield Batch({"time": position["time"]})

    def _read(self, position: Position, field: str) -> Iterator[Batch]:
        """All documents of the collections that the position's field names; it says how far."""
        left: dict[str, str | None] = dict(position[field])
        expected = sum(self._driver.estimated_count(name) for name in left)
        tables, rows = len(left), 0
        for name in list(left):
            while documents := self._driver.documents(name, left[name], CHUNK):
                now_ms = time.time_ns() // 1_000_000
                records: list[Record] = [
                    self._encoder.read(name, document, now_ms) for document in documents
                ]
                self._topics.add(self._encoder.topic(name))
                before, left[name] = left[name], _last_identity(documents, left[name])
                rows += len(records)
                self._progress = Progress(name, rows, expected, tables - len(left), tables)
                yield Batch({**position, field: dict(left)}, records, len(records))
                if left[name] == before:
                    if len(documents) == CHUNK:
                        raise SourceRefused(
                            f"{name} has more than {CHUNK} documents in a row whose _id is not UTF-8",
                            hint="give them other _ids",
                        )
                    break
            del left[name]
        self._progress = None

    def stream(self, position: Position) -> Iterator[Batch]:
        facts = self._driver.facts()
        there = self._driver.collections()
        self._seen.update(there)
        # Two that would share a topic are refused, also if only one of them changes in this run.
        self._topics.update(map(self._encoder.topic, there))
        start = position.get("time") or (0, 0)
        while True:
            if "reading" in position:
                yield from self._read(position, "reading")
                position = {"token": position["token"]}
                yield Batch(position)
            events = self._driver.watch(
                position.get("token"),
                (start[0], start[1]),
                invalidated=bool(position.get("invalidated")),
                pre_images=facts.version >= PRE_IMAGES_SINCE,
            )
            for batch in self._batches(events, position):
                position = batch.position
                yield batch

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

    def forget(self) -> str | None:
        """Nothing of this capture is in the database."""
        return None

    def close(self) -> None:
        self._driver.close()

    def _batches(
        self, events: Iterator[tuple[Document | None, str | None, bool]], position: Position
    ) -> Iterator[Batch]:
        """Events are gathered until none is waiting, or until there are enough.

        It ends where the server closed the stream, and another one goes on behind it; or where
        something has to be read before it goes on."""
        records: list[Record] = []
        rows = size = 0
        ended = False
        for event, token, at_hand in events:
            if token is not None:
                position = {"token": token}
            if event is not None:
                made = self._made(event)
                records += made
                rows += bool(made)
                size += sum(len(record[2] or b"") for record in made)
                if event["operationType"] == "invalidate":
                    position, ended = {**position, "invalidated": True}, True
                elif (arrived := self._arrived(event)) is not None:
                    position, ended = {**position, "reading": {arrived: None}}, True
            if not at_hand or size >= BATCH_BYTES or ended:
                yield Batch(position, records, rows)
                records, rows, size = [], 0, 0
            if ended:
                return

    def _ends(self, names: list[str]) -> list[Record]:
        """A truncate of each collection, for a snapshot that is not the first."""
        now_ms = time.time_ns() // 1_000_000
        self._topics.update(self._encoder.topic(name) for name in names)
        return [
            one
            for name in names
            for one in self._encoder.records({"operationType": "drop"}, name, now_ms)
        ]

    def _made(self, event: Document) -> list[Record]:
        stamp = event.get("clusterTime")
        self._last_event_s = None if stamp is None else float(stamp.time)
        now_ms = time.time_ns() // 1_000_000
        place = event.get("ns") or {}
        if event["operationType"] == "dropDatabase":
            names = tuple(sorted(self._seen))
        else:
            # A stream of one collection need not say which.
            name = place.get("coll") or next(iter(self._config.tables), "")
            names = (name,) if self._driver.wants(name) else ()
            self._seen.update(names)
        records = [one for name in names for one in self._encoder.records(event, name, now_ms)]
        if (arrived := self._arrived(event)) is not None:
            # What the name stood for before is gone; what it stands for now is read next.
            gone = {**event, "operationType": "drop"}
            records += self._encoder.records(gone, arrived, now_ms)
            self._seen.add(arrived)
        self._topics.update(record[0] for record in records)
        return records

    def _arrived(self, event: Document) -> str | None:
        """The captured collection that has another's documents by this event."""
        to = event.get("to") or {}
        if event["operationType"] != "rename" or to.get("db") != self._driver.database:
            return None
        name = str(to.get("coll"))
        return name if self._driver.wants(name) else None


def _last_identity(documents: list[Document], before: str | None) -> str | None:
    """Where to go on: behind the last `_id` that can be sent back to the server."""
    for document in reversed(documents):
        found = to_json(document["_id"])
        if "\ufffd" not in found:  # which stands for bytes that are no UTF-8
            return found
    return before
