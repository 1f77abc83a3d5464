"""From the change table to batches: each look reads, in one moment of the database, what is new.

Driven by `source`. A look sees whole transactions only, since changes are committed with the data. Then,
in the same moment, it may read the next chunk of a table (first snapshot, a table made anew, a request):
all changes up to this moment have been told before the chunk, and the chunk shows the rows as they are
at this moment, so there is neither a gap nor an overlap, no lock, and nothing to be sorted out later.

    look:   … changes 41–57 ‖ rows of orders behind key 2000, as of change 57 │ changes 58–60 ‖ rows …
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headwater.capture.change import BATCH_BYTES, TRANSACTION_BYTES_MAX, Batch, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import transaction_record
from headwater.capture.outbox import Router
from headwater.capture.sqlite import state
from headwater.capture.sqlite.changes import Event, Resolver, Values
from headwater.capture.sqlite.commits import Commits
from headwater.capture.sqlite.connection import reading
from headwater.capture.sqlite.encode import ShapeEncoder, moment_ms
from headwater.capture.sqlite.place import Commit, Pending, Place
from headwater.capture.sqlite.shape import Shape
from headwater.capture.sqlite.tables import Tables, read_chunk
from headwater.capture.sqlite.triggers import CHANGES

FETCH_ROWS = 64
"""So many rows are taken from SQLite at once; a batch overshoots its size by no more."""


class SchemaMoved(Exception):
    """Tables changed since the triggers were last made: reconcile, then look again."""


class WentBack(Exception):
    """The database has fewer changes than were told: an older copy was put back into the file."""


@dataclass
class _Filling:
    """A batch under way."""

    now: str
    """The envelope's times, as JSON members."""
    records: list[Record] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0

    def add(self, records: list[Record] | tuple[Record, ...], rows: int = 1) -> None:
        self.records += records
        self.rows += rows
        for record in records:
            self.bytes += len(record[1] or b"") + len(record[2] or b"") + 32


class Drain:
    """One capture of one database, from a place on."""

    def __init__(
        self, connection: sqlite3.Connection, config: CaptureConfig, path: Path, commits: Commits
    ) -> None:
        self._connection = connection
        self._config = config
        self.tables = Tables(connection, config, path.stem)
        self._resolver = Resolver(self.tables.shape)
        self._commits = commits
        self._root_page = 0
        self.version = 0
        self.verified = 0
        self.chunk_rows = 0
        self.given_up: str | None = None
        """A sentence about a request that could not be carried out."""
        self.place = Place("", 0, 0.0)
        self._told = self.place.to_position()

    def go_on(self, place: Place) -> None:
        """Begin at this place; in the middle of a commit, take up the notes that were open."""
        self.place = place
        self._told = place.to_position()
        self._resolver.settle()
        if place.held:
            marks = ", ".join("?" for _ in place.held)
            self._resolver.resolve(
                self._connection.execute(
                    f"SELECT * FROM {CHANGES} WHERE seq IN ({marks}) ORDER BY seq", place.held
                )
            )

    def begin_again(self) -> None:
        """A look broke off: back to where the last one ended."""
        self.go_on(Place.from_position(self._told))

    def forget_shapes(self) -> None:
        """After a reconcile."""
        self.tables.forget()
        self._root_page = 0

    def look(self) -> Batch:
        """What is new since the last look, at most about BATCH_BYTES of it; a transaction stays whole
        up to TRANSACTION_BYTES_MAX."""
        filling = _Filling(_now())
        with reading(self._connection):
            if state.schema_version(self._connection) != self.version:
                raise SchemaMoved
            last = state.last_seq(self._connection)
            if last < self.place.seq:
                raise WentBack
            self.verified = last
            if last > self.place.seq:
                self._changes(filling, last)
            if self.place.seq == last and self.place.pending:
                self._chunk(filling)
        self._told = self.place.to_position()
        return Batch(self._told, filling.records, filling.rows)

    def describe(self) -> list[Record]:
        """The schema of each captured table now, for the schema topic: before the first snapshot."""
        records = []
        moment = Event("s", 0, self.place.seq, self.place.at, None, None)
        for sid, shape in state.active_shapes(self._connection).items():
            self.tables.encoder(sid)
            event = moment._replace(sid=sid, after=("CREATE", shape.sql, "{}"))
            records.append(self.tables.schema_record(event))
        return records

    def truncate_all(self) -> list[Record]:
        """A truncate of each captured table, for a snapshot that is not the first."""
        rest = f'{_now()},"transaction":null'
        records: list[Record] = []
        for sid in state.active_shapes(self._connection):
            encoder = self.tables.encoder(sid)
            if isinstance(encoder, ShapeEncoder):
                event = Event("t", sid, self.place.seq, self.place.at, None, None)
                records += encoder.records(event, rest)
        return records

    def _changes(self, filling: _Filling, last: int) -> None:
        while filling.bytes < BATCH_BYTES and self.place.seq < last:
            if self.place.commit is None:
                until = self._commits.first_after(self.place.seq, last, self._root())
                self.place.commit = Commit(str(until), until)
            self._commit(filling, self.place.commit)
        if self.place.seq == last:  # certainly the end of a transaction
            self._resolver.settle()
        self.place.held = self._resolver.held()

    def _commit(self, filling: _Filling, commit: Commit) -> None:
        place = self.place
        cursor = self._connection.execute(
            f"SELECT * FROM {CHANGES} WHERE seq > ? AND seq <= ? ORDER BY seq",
            (place.seq, commit.until),
        )
        while filling.bytes < TRANSACTION_BYTES_MAX and (rows := cursor.fetchmany(FETCH_ROWS)):
            for event in self._resolver.resolve(rows):
                self._tell(event, commit, filling)
            place.seq, place.at = rows[-1][0], rows[-1][1]
        cursor.close()
        if place.seq < commit.until:
            return
        if commit.begun:
            filling.add(
                [self._boundary("END", commit.identity, moment_ms(place.at), commit.counts)], 0
            )
        place.commit = None

    def _root(self) -> int:
        if not self._root_page:
            self._root_page = self._connection.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name = ?", (CHANGES,)
            ).fetchone()[0]
        return self._root_page

    def _tell(self, event: Event, commit: Commit, filling: _Filling) -> None:
        if event.op in ("s", "b", "t"):
            self._note(event, filling)
            return
        shape = self.tables.shape(event.sid)
        pending = self.place.pending.get(shape.table)
        if pending is not None:
            narrowed = pending.narrowed(event, shape)
            if narrowed is None:
                return
            event = narrowed
        encoder = self.tables.encoder(event.sid)
        if isinstance(encoder, Router):
            self._route(encoder, event, shape, filling)
            return
        rest = f'{filling.now},"transaction":null'
        if self._config.transactions:
            rest = self._order(event, commit, encoder.topic, filling)
        filling.add(list(encoder.records(event, rest, transaction=commit.identity)))

    def _order(self, event: Event, commit: Commit, topic: str, filling: _Filling) -> str:
        if not commit.begun:
            commit.begun = True
            filling.add([self._boundary("BEGIN", commit.identity, moment_ms(event.at))], 0)
        commit.orders += 1
        count = commit.counts[topic] = commit.counts.get(topic, 0) + 1
        return (
            f'{filling.now},"transaction":{{"id":"{commit.identity}",'
            f'"total_order":{commit.orders},"data_collection_order":{count}}}'
        )

    def _note(self, event: Event, filling: _Filling) -> None:
        """What reconcile left among the changes."""
        shape, encoder = self.tables.shape(event.sid), self.tables.encoder(event.sid)
        assert event.after is not None
        if event.op == "b":
            # One that is under way begins again whole: that has the rows of both.
            where = None if shape.table in self.place.pending else event.after[1]
            self.place.pending[shape.table] = Pending(fresh=bool(event.after[0]), where=where)
        elif event.op == "s":
            if event.after[0] in ("DROP", "LEAVE"):
                self.place.pending.pop(shape.table, None)
            filling.add([self.tables.schema_record(event)], 0)
        elif isinstance(encoder, ShapeEncoder):
            rest = f'{filling.now},"transaction":null'
            filling.add(list(encoder.records(event, rest)))

    def _chunk(self, filling: _Filling) -> None:
        """The next rows of the first table that is not read to its end."""
        place = self.place
        active = {s.table: sid for sid, s in state.active_shapes(self._connection).items()}
        table, pending = next(iter(place.pending.items()))
        sid = active.get(table)
        if sid is None:  # its end is among the changes to come
            del place.pending[table]
            return
        shape, encoder = self.tables.shape(sid), self.tables.encoder(sid)
        at = self._connection.execute("SELECT julianday('now')").fetchone()[0]
        label = "true" if place.first else "incremental"
        rest = f'{filling.now},"transaction":null'
        ended = True
        for values in self._rows(shape, pending):
            event = Event("r", sid, place.seq, at, None, values)
            if isinstance(encoder, Router):
                self._route(encoder, event, shape, filling)
            else:
                filling.add(list(encoder.records(event, rest, snapshot=label)))
            pending.key = tuple(values[one] for one in shape.order)
            self.chunk_rows += 1
            if filling.bytes >= BATCH_BYTES:
                ended = False
                break
        if ended:
            del place.pending[table]

    def _rows(self, shape: Shape, pending: Pending) -> Iterator[Values]:
        try:
            yield from read_chunk(self._connection, shape, pending.key, pending.where)
        except sqlite3.OperationalError as error:
            if pending.where is None or "no such column" not in str(error):
                raise
            # Its columns are others since it was asked for: no reason to stop everything else.
            self.given_up = f"{shape.table} was not read again where {pending.where}: {error}"

    def _route(self, router: Router, event: Event, shape: Shape, filling: _Filling) -> None:
        if event.after is None:
            return
        route = router.updated if event.op == "u" else router.inserted
        record = route(event.after[shape.shown])
        self.tables.topics.add(record[0])
        filling.add([record])

    def _boundary(
        self, status: str, identity: str, ts_ms: int, counts: dict[str, int] | None = None
    ) -> Record:
        return transaction_record(self._config.transaction_topic, status, identity, ts_ms, counts)


def _now() -> str:
    now = time.time_ns()
    return f',"ts_ms":{now // 1_000_000},"ts_us":{now // 1_000},"ts_ns":{now}'
