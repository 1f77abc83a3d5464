"""MongoDB behind the contract of a source.

The snapshot reads documents in the order of `_id`; the stream begins at the server's time from before
the first one. So what changes while the snapshot is read is told again by the stream, with the whole
document: a reader that keeps the last document per key is right as soon as the stream has caught up.

Position: `token` (the change stream's, extended JSON) or, before the first event, `time` (seconds and
number of the server's logical clock); `invalidated` after an event that ended the stream; `snapshot`
(collections left → last `_id`) while the first snapshot is not complete; `reading`, likewise, while a
collection is read that took another's documents by a rename ($out), or that somebody asked to be read
again, with the `time` of that and the query under `where`; `requests`: how many in the log were taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

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
from headwater.capture.mongodb.events import Encoder
from headwater.capture.mongodb.extended_json import NO_TEXT, asked, condition, to_json
from headwater.capture.mongodb.preflight import Document, Driver, check_settings, findings
from headwater.capture.requests import Entry, Requests, ask, topic
from headwater.capture.source import WHOLE, Finding, Range, check_range

CHUNK = 1_000
PRE_IMAGES_SINCE = (6, 0)
_LASTING = ("token", "requests")


class MongoSource:
    """One database of a MongoDB deployment."""

    begins_again = True

    def __init__(self, config: CaptureConfig, driver: Driver) -> None:
        documents = check_settings(config)
        self._config = config
        self._driver = driver
        self._encoder = Encoder(
            config.name, driver.database, documents == "object", config.tombstones
        )
        self._topics = {self._encoder.topic(name) for name in config.tables}
        self._seen = set(config.tables)
        self._progress: Progress | None = None
        self.replica_lag_s = driver.replica_lag_s

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
        if "time" in position:
            self._driver.read_behind((position["time"][0], position["time"][1]))
        left: dict[str, str | None] = dict(position[field])
        expected = sum(self._driver.estimated_count(name) for name in left)
        tables, rows = len(left), 0
        for name in list(left):
            where = position.get("where", {}).get(name)
            while documents := self._driver.documents(name, left[name], CHUNK, where):
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
        requests = Requests(self._config, position.get("requests", 0))
        try:
            while True:
                if "reading" in position:
                    yield from self._read(position, "reading")
                    position = {key: position[key] for key in position if key in _LASTING}
                    yield Batch(position)
                events = self._driver.watch(
                    position.get("token"),
                    (start[0], start[1]),
                    invalidated=bool(position.get("invalidated")),
                    pre_images=facts.version >= PRE_IMAGES_SINCE,
                )
                for batch in self._batches(events, position):
                    if requests.offset:
                        batch.position["requests"] = requests.offset
                    position = batch.position
                    yield batch
                    # Between two batches, and behind a token, to which the stream can return.
                    wanted = requests.take() if "token" in position else []
                    if wanted:
                        position = {**position, **self._asked(wanted), "requests": requests.offset}
                        break
        finally:
            requests.close()

    def _asked(self, wanted: list[Entry]) -> Position:
        """What a position says while collections are read again.

        What changes meanwhile is told by the stream, which goes on from where it was."""
        known = {name: where for name, where in asked(wanted).items() if self._driver.wants(name)}
        return {
            "reading": dict.fromkeys(known),
            "where": {name: where for name, where in known.items() if where is not None},
            "time": list(self._driver.operation_time()),
        }

    def acknowledge(self, position: Position) -> None:
        """The oplog is the server's own; it keeps nothing for us."""

    def lag(self) -> Lag:
        return Lag(detail=self._driver.oplog_place())

    def progress(self) -> Progress | None:
        return self._progress

    def topics(self) -> list[str]:
        return sorted({*self._topics, topic(self._config)})

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        check_range(tables, within)
        there = self._driver.collections()
        for name in sorted({*tables} - {*there}):
            raise Misconfigured(f"the capture has no collection {name!r}", hint=f"it has {there}")
        names = tables or there
        where = None if within.whole else condition(within)
        if where is not None:
            self._driver.documents(names[0], None, 1, where)  # a mistake is told here
        ask(self._config, names, where)
        return f"the capture will read {', '.join(names)} again, while it goes on"

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
                    if (stamp := event.get("clusterTime")) is not None:
                        position["time"] = [stamp.time, stamp.inc]
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
        if NO_TEXT not in found:
            return found
    return before
