"""PostgreSQL as a source of changes: wires slot, snapshot and stream together.

Opened by `headwater.capture.postgres.open_source`, used by the runner. A position:

    {"system": the cluster's id, "timeline": of its history,
     "lsn": everything committed before it is in the log, "skip": and so many events of the next transaction,
     "schemas": {table: digest}, "keys": {table: its keys' form},
     "snapshot": {…while the first snapshot goes on…}, "incremental": {…while one goes on…}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from headwater.capture.change import Batch, Lag, Position, Progress, begins_again
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Gap, StartOver
from headwater.capture.postgres import check, membership, publication, requests, slot
from headwater.capture.postgres.assembly import Assembly
from headwater.capture.postgres.catalog import Catalog
from headwater.capture.postgres.connection import connect, identifier
from headwater.capture.postgres.incremental import Incremental
from headwater.capture.postgres.relations import Relations
from headwater.capture.postgres.replication import SILENCE_S, Replication
from headwater.capture.postgres.snapshot import Snapshot
from headwater.capture.postgres.standby import Standby, standby_of
from headwater.capture.postgres.stream import Stream
from headwater.capture.source import WHOLE, Finding, Range

WARN_BYTES = 1 << 30
"""Of WAL kept for a slot without a budget of its own: from here on it is told."""


class PostgresSource:
    """One capture's side towards the database."""

    begins_again = True

    def __init__(self, config: CaptureConfig) -> None:
        self._config = config
        self._slot, self._publication = slot.names(config)
        self._budget_bytes = config.option("slot_budget_mb", 0) << 20
        self._lost = config.option("slot_lost", "stop")
        self._connection: psycopg.Connection[Any] | None = None
        self._replication: Replication | None = None
        self._snapshot: Snapshot | None = None
        self._known: Relations | None = None
        self._chunks: Incremental | None = None
        self._assembly: Assembly
        self._standby = standby_of(config)
        self._standbys = check.Standbys()
        self._admission = publication.Admission(config, self._publication)

    # ── the contract ───────────────────────────────────────────────────────────────────────────

    def check(self) -> list[Finding]:
        return check.findings(self._config, self._slot, self._publication)

    def topics(self) -> list[str]:
        config = self._config
        relations = self._relations()
        if not relations.topics:
            self._admission.begin(self._database())
            for table in Catalog(self._database()).tables(self._publication):
                relations.of_table(table)  # which notes its topic
            own = (config.transaction_topic, config.schema_topic, f"{config.name}.message")
            relations.topics.update(dict.fromkeys(own))
        return list(relations.topics)

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        exporter = Replication(self._config.url)
        try:
            if position is None or begins_again(position):
                yield from self._first_snapshot(exporter, again=position is not None)
            else:
                yield from self._rest_of_snapshot(exporter, self._check_continuity(position))
        finally:
            exporter.close()

    def stream(self, position: Position) -> Iterator[Batch]:
        yield from self._stream(self._check_continuity(position), chunked=True)

    def acknowledge(self, position: Position) -> None:
        if self._replication is not None:
            self._replication.flushed = position["lsn"]
            self._replication.tell()

    def lag(self) -> Lag:
        state = slot.read_slot(self._database(), self._slot)
        return state.lag(self._slot) if state else Lag(detail=f"there is no slot {self._slot}")

    def guard(self) -> str | None:
        """Over budget: a warning; or the slot is given up, where the settings say so."""
        told = self._admission.look(self._database())
        if said := told or (None if self._chunks is None else self._chunks.given_up()):
            return said
        state = slot.read_slot(self._database(), self._slot)
        if state is None:
            return None
        sentence = slot.over_budget(state, self._slot, self._budget_bytes or WARN_BYTES)
        if sentence is not None and self._budget_bytes and self._lost == "resnapshot":
            self._stop_streaming()
            slot.drop_slot(self._database(), self._slot)
            raise StartOver(f"{sentence}: it was dropped")
        return sentence

    def replica_lag_s(self) -> float | None:
        """Of the standby that is furthest behind, as the server sees it."""
        return self._standbys.lag_s(self._database())

    def progress(self) -> Progress | None:
        return self._snapshot.progress if self._snapshot is not None else None

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        return requests.ask(self._database(), self._config, self._publication, tables, within)

    def forget(self) -> str | None:
        database = self._database()
        slot.drop_slot(database, self._slot)
        if "publication" in self._config.options:
            return None
        return publication.drop_publication(database, self._publication)

    def close(self) -> None:
        self._stop_streaming()
        for part in (self._snapshot, self._standby, self._connection):
            if part is not None:
                part.close()
        self._snapshot = self._connection = self._known = None

    # ── the first snapshot ─────────────────────────────────────────────────────────────────────

    def _first_snapshot(self, exporter: Replication, *, again: bool) -> Iterator[Batch]:
        lsn, name = self._new_slot(exporter)
        position: Position = {
            "system": slot.system(self._database()),
            "timeline": slot.timeline(self._config.url, {"lsn": 0}),
            "lsn": lsn,
            **membership.noted(self._database(), self._publication),
            "snapshot": {**({"again": True} if again else {}), "done": []},
            "schemas": {},
        }
        if self._standby is not None:
            # Nothing has been read yet: what was committed until then the rows will show.
            for batch in self._levelled(self._standby, position):
                lsn = batch.position["lsn"]
                yield Batch(position, streamed=True)  # who waits keeps slot and place
            self._stop_streaming()
            lsn, name = max(lsn, self._standby.view.lsn), self._standby.view.snapshot
        position = {**position, "lsn": lsn}
        yield Batch(position)
        yield from self._read_tables(position, name)

    def _rest_of_snapshot(self, exporter: Replication, position: Position) -> Iterator[Batch]:
        """What was read before must not be older than what is read now: first everything that was
        committed until then."""
        if self._standby is None:
            lsn, name = slot.create_slot(exporter, f"{self._slot}_resume", temporary=True)
            changes = self._stream(position, until=lsn)
        else:
            changes = self._levelled(self._standby, position)
        for batch in changes:
            position, batch.streamed = batch.position, True
            yield batch
        self._stop_streaming()
        if self._standby is not None:
            lsn, name = self._standby.view.lsn, self._standby.view.snapshot
        # An idle server may have let us confirm more than that: nothing lies between.
        state = {**position["snapshot"], "rest": True}
        position = {**position, "lsn": max(lsn, position["lsn"]), "snapshot": state}
        yield from self._read_tables(position, name)

    def _levelled(self, standby: Standby, position: Position) -> Iterator[Batch]:
        database = self._database()
        return standby.levelled(
            position, database, self._stream, lambda: self._assembly.changed_lsn
        )

    # ── its parts ──────────────────────────────────────────────────────────────────────────────

    def _database(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._config.url)
        return self._connection

    def _relations(self) -> Relations:
        if self._known is None:
            database = self._database()
            self._known = Relations(self._config, database.info.dbname, Catalog(database))
        return self._known

    def _new_slot(self, exporter: Replication) -> tuple[int, str]:
        database = self._database()
        publication.ensure_publication(database, self._config, self._publication)
        state = slot.read_slot(database, self._slot)
        if state is not None:
            # Left by a run that died before its first position was stored: nothing was captured.
            slot.usable(state, self._slot, database.info.dbname)
            slot.drop_slot(database, self._slot)
        return slot.create_slot(exporter, self._slot, export=self._standby is None)

    def _check_continuity(self, position: Position) -> Position:
        state = slot.read_slot(self._database(), self._slot)
        gap = StartOver if self._lost == "resnapshot" else Gap
        slot.check_continuity(state, self._slot, position, slot.system(self._database()), gap)
        return {**position, "timeline": slot.timeline(self._config.url, position)}

    def _read_tables(self, position: Position, name: str) -> Iterator[Batch]:
        # As the tables are there: a standby may not have the primary's latest columns.
        where = self._standby.view.connection if self._standby is not None else self._database()
        url = self._standby.url if self._standby is not None else self._config.url
        tables = Catalog(where).tables(self._publication)
        self._snapshot = Snapshot(self._config, self._relations(), tables, position, (url, name))
        if self._standby is not None:
            self._standby.close()  # its readers have it: an open view would hold up vacuum or replay
        try:
            for batch in self._snapshot.batches():
                position = batch.position
                yield batch
        finally:
            self._snapshot.close()
            self._snapshot = None
        yield Batch({k: v for k, v in position.items() if k != "snapshot"})

    def _stream(
        self, position: Position, until: int | None = None, *, chunked: bool = False
    ) -> Iterator[Batch]:
        self._stop_streaming()
        slot.release(self._database(), self._slot)
        silence_s = float(self._config.option("silence_s", int(SILENCE_S)))
        replication = self._replication = Replication(self._config.url, silence_s)
        options = {
            "proto_version": "2",
            "publication_names": identifier(self._publication),  # the plug-in reads a list of names
            "messages": "true",
            "streaming": "on" if self._config.option("streaming", True) else "off",
        }
        replication.start(self._slot, position["lsn"], options)
        if until is not None:
            replication.flushed = 0  # a try before may have come further than what is stored
        assembly = self._assembly = Assembly(self._config, self._relations(), position)
        if chunked:
            chunks = self._chunks = Incremental(
                self._config, self._database(), assembly, self._admission, position
            )
            yield from Stream(replication, assembly, until, chunks.step).batches()
        else:
            yield from Stream(replication, assembly, until).batches()

    def _stop_streaming(self) -> None:
        if self._chunks is not None:
            self._chunks.in_log.close()
        if self._replication is not None:
            self._replication.close()
            self._replication = None
