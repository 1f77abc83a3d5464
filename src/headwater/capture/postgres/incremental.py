"""A snapshot while streaming goes on: the DBLog algorithm, with logical messages as watermarks.

Called by `source` between transactions, and by `assembly` for our own messages and for each change's key.

    stream ── … change … LOW … change k=7 … HIGH … ──▶     rows of the chunk, without key 7, go out at HIGH
                          └─ SELECT chunk ──┘

A row of the chunk that changed between the watermarks may be older or newer than its change, so the
change wins. What changed before LOW the SELECT has seen, with one exception: a transaction's commit is
in the WAL a moment before others see it (longer with synchronous replication). So the SELECT's own
snapshot is asked which transactions were still running for it; if the stream had brought one of them
before LOW, the chunk is read again.

    progress in the position:  {"queue": ["public.orders"], "after": ["4711"]}

An entry of the queue is a table, or {"table": …, "where": …} for some of its rows.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import dumps
from headwater.capture.errors import SourceRefused
from headwater.capture.postgres import copy_rows
from headwater.capture.postgres.assembly import Assembly, now_text
from headwater.capture.postgres.catalog import Catalog, Table
from headwater.capture.postgres.connection import identifier, literal, plain
from headwater.capture.postgres.pgoutput import LogicalMessage
from headwater.capture.postgres.relations import Relation, Relations, moment, outbox_place
from headwater.capture.postgres.snapshot import boundary, chunk_query, chunk_rows, copy_out
from headwater.capture.source import Range

LOW, HIGH, REQUEST = "headwater.low", "headwater.high", "headwater.snapshot"
Entry = str | dict[str, str]
_RUNNING = "SELECT pg_snapshot_xip(pg_current_snapshot())::text"


@dataclass
class Window:
    """One chunk, from its read to its high watermark."""

    identity: str
    table: Table
    relation: Relation
    data: bytes
    last: list[str] | None
    running: set[int]
    """Transactions that the SELECT could not see yet."""
    open: bool = False
    again: bool = False


class Incremental:
    """The queue of tables, and the chunk under way."""

    deduplicate = True
    """False only in the test that shows what happens then."""
    between: Callable[[], None] = staticmethod(lambda: None)
    """A seam for tests: called between a chunk's read and its high watermark."""

    def __init__(
        self,
        config: CaptureConfig,
        connection: psycopg.Connection[Any],
        assembly: Assembly,
        relations: Relations,
        publication: str,
        state: dict[str, Any],
    ) -> None:
        self._config = config
        self._connection = connection
        self._assembly = assembly
        self._relations = relations
        self._publication = publication
        self._state: dict[str, Any] = {
            "queue": list(state.get("queue", [])),
            "after": state.get("after"),
        }
        self._window: Window | None = None
        self._touched: set[bytes] = set()
        self._given_up: str | None = None
        assembly.on_own_message = self.message
        self._store()

    def given_up(self) -> str | None:
        """A sentence about a request that could not be carried out; once."""
        said, self._given_up = self._given_up, None
        return said

    def queue(self, tables: list[Entry]) -> None:
        self._state["queue"] += [name for name in tables if name not in self._state["queue"]]
        self._store()

    def step(self) -> None:
        """Read the next chunk, if one is due; between transactions only."""
        if self._window is None and self._state["queue"]:
            self._read()

    def message(self, message: LogicalMessage) -> None:
        """One of our own messages, at its place in the stream."""
        content = message.content.decode(errors="replace")
        if message.prefix == REQUEST:
            self.queue(self._requested(content))
        window = self._window
        if window is None or content != window.identity:
            return  # of an earlier run
        if message.prefix == LOW:
            window.open = True
            window.again = bool(window.running & set(self._assembly.recent_xids))
            self._assembly.on_key = self._key
        elif message.prefix == HIGH:
            self._assembly.on_key = None
            self._window = None
            if not window.again:
                self._emit(window)
            self._touched.clear()

    def _requested(self, content: str) -> list[Entry]:
        outbox = outbox_place(self._config)
        published = [
            table.collection
            for table in self._published()
            if (table.namespace, table.name) != outbox
        ]
        try:
            request = json.loads(content)
            wanted = [str(name) for name in request.get("tables", [])]
            where = request.get("where")
        except (ValueError, AttributeError):
            return []  # somebody else's message under our name
        found = [name for name in wanted or published if name in published]
        return [{"table": name, "where": str(where)} for name in found] if where else [*found]

    def _key(self, relation: Relation, key: bytes | None) -> None:
        window = self._window
        if window is None or relation.collection != window.table.collection:
            return
        if key is None:
            window.again = True  # truncated, or with other columns: the chunk says nothing any more
        else:
            self._touched.add(key)

    def _emit(self, window: Window) -> None:
        relation, assembly = window.relation, self._assembly
        lsn = assembly.lsn
        source = relation.source(moment("incremental", time.time_ns() // 1000, None), lsn, lsn)
        rest = f'{now_text()},"transaction":null'
        assembly.know(None, relation, source)
        created = relation.encoder.created
        rows = copy_rows.rows(window.data, relation.converters)
        records = [created(row, source, rest, "r") for row in rows]
        if self.deduplicate:
            records = [record for record in records if record[1] not in self._touched]
        assembly.add(records, len(records))
        if window.last is None:
            self._state = {"queue": self._state["queue"][1:], "after": None}
        else:
            self._state["after"] = window.last
        self._store()

    def _read(self) -> None:
        entry: Entry = self._state["queue"][0]
        name, where = (entry, None) if isinstance(entry, str) else (entry["table"], entry["where"])
        table = next((t for t in self._published() if t.collection == name), None)
        if table is None or not table.key():
            # No key, no way to tell which rows changed meanwhile; `request_snapshot` says so.
            self._next_table()
            return
        if where is not None:
            own = f"({table.row_filter}) AND " if table.row_filter else ""
            table = replace(table, row_filter=f"{own}({where})")
        try:
            self._open(table)
        except SourceRefused as error:
            if where is None:
                raise
            # Its columns may be others since it was asked for: no reason to stop everything else.
            self._given_up = f"{name} was not read again where {where}: {error}"
            self._next_table()

    def _next_table(self) -> None:
        self._state = {"queue": self._state["queue"][1:], "after": None}
        self._store()

    def _open(self, table: Table) -> None:
        """Read a chunk between its two marks."""
        identity = uuid.uuid4().hex
        key, after = table.key(), self._state["after"]
        with plain():
            self._mark(LOW, identity)
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                rows = self._connection.execute(_RUNNING).fetchall()
                running = {int(row[0]) & 0xFFFFFFFF for row in rows}
                size = self._config.option("chunk_rows", 0) or chunk_rows(self._connection, table)
                last = boundary(self._connection, table, key, after, size)
                data = copy_out(self._connection, chunk_query(table, key, after, last))
            finally:
                self._connection.execute("ROLLBACK")
            self.between()
            self._mark(HIGH, identity)
        relation = self._relations.of_table(table)
        self._window = Window(identity, table, relation, data, last, running)

    def _mark(self, prefix: str, identity: str) -> None:
        # Transactional: only a commit makes the server flush, and send, at once.
        self._connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", [prefix, identity])

    def _published(self) -> list[Table]:
        return Catalog(self._connection).tables(self._publication)

    def _store(self) -> None:
        self._assembly.note("incremental", dict(self._state) if self._state["queue"] else None)


def request(
    connection: psycopg.Connection[Any], tables: list[str], where: str | None = None
) -> None:
    """Tell the capture that runs, through the database's own log."""
    asked = {"tables": tables} if where is None else {"tables": tables, "where": where}
    with plain():
        connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", [REQUEST, dumps(asked)])


def condition(table: Table, within: Range) -> str:
    """Which rows, in SQL."""
    parts = [f"({within.where})"] if within.where is not None else []
    for sign, value in ((">=", within.first), ("<=", within.last)):
        if value is not None:
            parts.append(f"{identifier(table.key()[0])} {sign} {literal(value)}")
    return " AND ".join(parts)
