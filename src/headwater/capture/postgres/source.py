"""PostgreSQL as a source of changes: wires slot, snapshot and stream together.

Opened by `headwater.capture.postgres.open_source`, used by the runner. A position:

    {"system": the cluster's id, "timeline": of its history,
     "lsn": everything committed before it is in the log,
     "skip": and so many events of the transaction after it, "schemas": {table: digest},
     "snapshot": {…while the first snapshot goes on…}, "incremental": {…while one goes on…}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from headwater.capture.change import Batch, Lag, Position, Progress, begins_again
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Gap, Misconfigured, StartOver
from headwater.capture.postgres import check, incremental, publication, slot
from headwater.capture.postgres.assembly import Assembly
from headwater.capture.postgres.catalog import Catalog
from headwater.capture.postgres.connection import connect, plain
from headwater.capture.postgres.incremental import Incremental
from headwater.capture.postgres.relations import Relations, outbox_place
from headwater.capture.postgres.replication import SILENCE_S, Replication
from headwater.capture.postgres.snapshot import Snapshot
from headwater.capture.postgres.stream import Stream
from headwater.capture.source import WHOLE, Finding, Range, check_range

OPTIONS = {
    "slot",
    "publication",
    "streaming",
    "chunk_rows",
    "snapshot_workers",
    "slot_budget_mb",
    "slot_lost",
    "silence_s",
    "outbox_prefix",
}


WARN_BYTES = 1 << 30
"""Of WAL kept for a slot without a budget of its own: from here on it is told."""


class PostgresSource:
    """One capture's side towards the database."""

    begins_again = True

    def __init__(self, config: CaptureConfig) -> None:
        config.refuse_unknown(OPTIONS)
        self._config = config
        self._slot, self._publication = slot.names(config)
        self._budget_bytes = config.option("slot_budget_mb", 0) << 20
        self._lost = config.option("slot_lost", "stop")
        if self._lost not in ("stop", "resnapshot"):
            raise Misconfigured(
                f"capture {config.name}: slot_lost = {self._lost!r}",
                hint='"stop" (say it and end) or "resnapshot" (begin with a new snapshot)',
            )
        self._connection: psycopg.Connection[Any] | None = None
        self._replication: Replication | None = None
        self._snapshot: Snapshot | None = None
        self._known: Relations | None = None
        self._chunks: Incremental | None = None
        self._warnings: list[str] = []

    # ── the contract ───────────────────────────────────────────────────────────────────────────

    def check(self) -> list[Finding]:
        return check.findings(self._config, self._slot, self._publication)

    def topics(self) -> list[str]:
        config = self._config
        relations = self._relations()
        if not relations.topics:
            publication.ensure_publication(self._database(), config, self._publication)
            self._warnings = publication.without_identity(self._database(), self._publication)
            for table in Catalog(self._database()).tables(self._publication):
                relations.of_table(table)  # which notes its topic
            own = (config.transaction_topic, config.schema_topic, f"{config.name}.message")
            relations.topics.update(dict.fromkeys(own))
        return list(relations.topics)

    def snapshot(self, position: Position | None) -> Iterator[Batch]:
        exporter = Replication(self._config.url)
        try:
            if position is None or begins_again(position):
                again = {"again": True} if position is not None else {}
                lsn, name = self._new_slot(exporter)
                position = {
                    "system": slot.system(self._database()),
                    "timeline": slot.timeline(self._config.url, {"lsn": 0}),
                    "lsn": lsn,
                    "snapshot": {**again, "done": []},
                    "schemas": {},
                }
                yield Batch(position)
            else:
                position = self._check_continuity(position)
                lsn, name = slot.create_slot(exporter, f"{self._slot}_resume", temporary=True)
                # What was read before must not be older than what is read now: first everything
                # that was committed until then.
                for batch in self._stream(position, until=lsn):
                    position = batch.position
                    yield batch
                self._stop_streaming()
                # An idle server may have let us confirm more than that: nothing lies between.
                position = {**position, "lsn": max(lsn, position["lsn"])}
            yield from self._read_tables(position, name)
        finally:
            exporter.close()

    def stream(self, position: Position) -> Iterator[Batch]:
        position = self._check_continuity(position)
        yield from self._stream(position, chunked=True)

    def acknowledge(self, position: Position) -> None:
        if self._replication is not None:
            self._replication.flushed = position["lsn"]
            self._replication.tell()

    def lag(self) -> Lag:
        state = slot.read_slot(self._database(), self._slot)
        if state is None:
            return Lag(detail=f"there is no slot {self._slot}")
        kept = f"the server keeps {state.kept_bytes} bytes of WAL for it ({state.wal_status})"
        return Lag(bytes=state.behind_bytes, detail=kept)

    def guard(self) -> str | None:
        """Over budget: a warning; or the slot is given up, where the settings say so."""
        if self._warnings:
            return self._warnings.pop(0)
        if self._chunks is not None and (said := self._chunks.given_up()) is not None:
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

    def progress(self) -> Progress | None:
        return self._snapshot.progress if self._snapshot is not None else None

    def request_snapshot(self, tables: list[str], within: Range = WHOLE) -> str:
        check_range(tables, within)
        published = Catalog(self._database()).tables(self._publication)
        names = {table.collection: table for table in published}
        wanted = [name if "." in name else f"public.{name}" for name in tables]
        for name in wanted:
            if name not in names:
                raise Misconfigured(
                    f"{name} is not captured", hint=f"captured: {', '.join(names) or 'nothing yet'}"
                )
            if outbox_place(self._config) == tuple(name.split(".", 1)):
                raise Misconfigured(
                    f"{name} is an outbox: its events would be sent twice",
                    hint="read the topics that its rows name from the beginning",
                )
            if not names[name].key():
                raise Misconfigured(
                    f"{name} has no key, so its rows cannot be told apart while it changes",
                    hint="give it a primary key, or start over: headwater capture run --resnapshot",
                )
        where = incremental.condition(names[wanted[0]], within) if not within.whole else None
        if where is not None:
            with plain():  # a mistake is told here, and not to the capture that runs
                self._database().execute(
                    f"SELECT 1 FROM {names[wanted[0]].own_rows} WHERE {where} LIMIT 0".encode()
                )
        incremental.request(self._database(), wanted, where)
        rows = "" if where is None else f" where {where}"
        asked = ", ".join(wanted) or "all tables"
        return f"asked for {asked}{rows}; it begins while the capture runs"

    def forget(self) -> str | None:
        database = self._database()
        slot.drop_slot(database, self._slot)
        if "publication" in self._config.options:
            return None
        return publication.drop_publication(database, self._publication)

    def close(self) -> None:
        self._stop_streaming()
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
        if self._connection is not None:
            self._connection.close()
            self._connection = self._known = None

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
        return slot.create_slot(exporter, self._slot)

    def _check_continuity(self, position: Position) -> Position:
        state = slot.read_slot(self._database(), self._slot)
        gap = StartOver if self._lost == "resnapshot" else Gap
        slot.check_continuity(state, self._slot, position, slot.system(self._database()), gap)
        return {**position, "timeline": slot.timeline(self._config.url, position)}

    def _read_tables(self, position: Position, name: str) -> Iterator[Batch]:
        tables = Catalog(self._database()).tables(self._publication)
        self._snapshot = Snapshot(self._config, self._relations(), tables, position, name)
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
        slot.release(self._database(), self._slot)
        silence_s = float(self._config.option("silence_s", int(SILENCE_S)))
        replication = self._replication = Replication(self._config.url, silence_s)
        options = {
            "proto_version": "2",
            "publication_names": self._publication,
            "messages": "true",
            "streaming": "on" if self._config.option("streaming", True) else "off",
        }
        replication.start(self._slot, position["lsn"], options)
        assembly = Assembly(self._config, self._relations(), position)
        if chunked:
            self._chunks = self._incremental(assembly, position)
            yield from Stream(replication, assembly, until, self._chunks.step).batches()
        else:
            yield from Stream(replication, assembly, until).batches()

    def _incremental(self, assembly: Assembly, position: Position) -> Incremental:
        made = Incremental(
            self._config,
            self._database(),
            assembly,
            self._relations(),
            self._publication,
            position.get("incremental", {}),
        )
        # A table that was added since is read while the others go on.
        known = position.get("schemas", {})
        tables = Catalog(self._database()).tables(self._publication)
        made.queue([table.collection for table in tables if table.collection not in known])
        return made

    def _stop_streaming(self) -> None:
        if self._replication is not None:
            self._replication.close()
            self._replication = None
