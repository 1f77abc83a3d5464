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

An entry of the queue is a table, or {"table": …, "where": …} or {"table": …, "leaf": …} for some of its rows.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg

from headwater.capture.change import Position
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import SourceRefused
from headwater.capture.postgres import copy_rows, membership, partitions, requests
from headwater.capture.postgres.assembly import Assembly
from headwater.capture.postgres.catalog import Catalog, Table
from headwater.capture.postgres.chunks import Window, copy_chunk
from headwater.capture.postgres.connection import plain
from headwater.capture.postgres.pgoutput import LogicalMessage
from headwater.capture.postgres.publication import Admission
from headwater.capture.postgres.relations import Relation, moment, now_text, outbox_place
from headwater.capture.requests import Entry, entry, table_of

LOW, HIGH = "headwater.low", "headwater.high"


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
        admission: Admission,
        position: Position,
    ) -> None:
        self._config, self._connection = config, connection
        self._assembly, self._relations = assembly, assembly.relations
        self._publication = admission.name
        self._awaited = awaited = requests.Awaited(assembly.note, position)
        self._members = membership.Members(position.get("members"), admission.begun, awaited)
        was = position.get("incremental", {})
        self._state: dict[str, Any] = {"queue": [*was.get("queue", [])], "after": was.get("after")}
        self._window: Window | None = None
        self._touched: set[bytes] = set()
        self._given_up: str | None = None
        assembly.on_own_message = self.message
        # Renamed, attached, or published by somebody: rows that do not change are read, too.
        assembly.on_unknown = lambda table: self.queue([table])
        assembly.on_redefined = self._redefined
        assembly.on_renamed = self._from_its_first_row
        assembly.on_doubt = lambda table, where: self.queue([entry(table, where)])
        self.in_log = requests.InLog(config, assembly.note, position)
        # A table that was added since is read while the others go on.
        known, published = position.get("schemas", {}), self._published()
        self.queue([table.collection for table in published if table.collection not in known])
        self._partitions = partitions.Partitions(config, position.get("leaves"), awaited)
        self._look()

    def _look(self) -> None:
        """Partitions that came with their rows are read; what some have left, from its first row on."""
        place = self._connection, self._publication
        came, told = self._partitions.look(*place)
        self.queue([*came])
        self._given_up = self._members.look(*place) or told or self._given_up
        self._assembly.note("leaves", self._partitions.leaves or None)
        self._assembly.note("members", self._members.known)

    def given_up(self) -> str | None:
        """Now and then: a sentence about what could not be carried out; once."""
        self._look()
        said, self._given_up = self._given_up, None
        return said

    def queue(self, tables: list[Entry]) -> None:
        self._state["queue"] += [name for name in tables if name not in self._state["queue"]]
        self._store()

    def step(self) -> None:
        """Read the next chunk, if one is due; between transactions only."""
        if wanted := self.in_log.take():
            readable = self._readable()
            self.queue([each for each in wanted if table_of(each) in readable])
        if self._window is None and self._state["queue"]:
            self._read()

    def message(self, message: LogicalMessage) -> None:
        """One of our own messages, at its place in the stream."""
        content = message.content.decode(errors="replace")
        if message.prefix == requests.REQUEST and (asked := requests.parse(content)) is not None:
            self._asked(asked, message)
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

    def _asked(self, asked: requests.Asked, message: LogicalMessage) -> None:
        if asked.in_log:
            self.in_log.begin()
        meant = self._awaited.take(asked.identity)
        if not meant and message.transactional:
            meant = requests.published_by(self._connection, self._publication, self._assembly.xid)
        known = {*asked.tables} & {*self._readable()}
        if refused := known - {*meant}:
            self._given_up = self.in_log.instead_of(sorted(refused))
        self._begin_anew(sorted(known & {*meant}), message.lsn)

    def _readable(self) -> list[str]:
        outbox = outbox_place(self._config)
        return [t.collection for t in self._published() if (t.namespace, t.name) != outbox]

    def _begin_anew(self, tables: list[str], lsn: int) -> None:
        """Tables that were published just now: what readers have under their names is of earlier ones.

        The message is of the transaction that published them, so that all changes of the earlier ones
        lie before it, and all of these behind it.
        """
        for table in [each for each in self._published() if each.collection in tables]:
            if self._state["queue"][:1] == [table.collection]:
                self._state["after"] = self._window = None
            self._assembly.known.meet(table.collection, table.relation)
            if table.collection in self._assembly.known.schemas:
                self._assembly.truncate(lsn, self._relations.of_table(table))
        self.queue([*tables])

    def _redefined(self, relation: Relation) -> bool:
        """The table has another key: all its rows are read, those too that were read under the old one."""
        name = relation.collection
        if not relation.encoder.key_places:
            self._given_up = (
                f"{name} has no key any more: its rows stay under those that they had, and what comes has "
                "none; give it a primary key, or start over: headwater capture run --resnapshot"
            )
            return False
        self._from_its_first_row(name)
        return True

    def _from_its_first_row(self, name: str) -> None:
        """Whatever was read of it, or was to be."""
        if self._window is not None and self._window.table.collection == name:
            self._window.again = True
        others = [each for each in self._state["queue"] if table_of(each) != name]
        if others[:1] != self._state["queue"][:1]:
            self._state["after"] = None
        self._state["queue"] = others
        self.queue([name])

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
        if assembly.know(None, relation, source) or assembly.admit(relation, lsn):
            return  # as nothing else was written since: it is read from its first row
        created = relation.encoder.created
        rows = copy_rows.rows(window.data, relation.converters)
        records = [created(row, source, rest, "r") for row in rows]
        if self.deduplicate:
            records = [record for record in records if record[1] not in self._touched]
        assembly.add(records, len(records))
        queue, last = self._state["queue"], window.last
        self._state = {"queue": queue[last is None :], "after": last}
        self._store()

    def _read(self) -> None:
        first: Entry = self._state["queue"][0]
        asked = {"table": first} if isinstance(first, str) else first
        name, where = asked["table"], asked.get("where")
        table = next((t for t in self._published() if t.collection == name), None)
        if table is not None and "leaf" in asked:
            table = partitions.part_of(self._connection, table, int(asked["leaf"]))
        if table is None or not table.key():
            if table is not None:  # no way to tell which rows changed meanwhile
                self._given_up = (
                    f"{name} has no key: its rows of before it was published are not read, only what "
                    "comes; give it a primary key, or start over: headwater capture run --resnapshot"
                )
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
        relation = self._relations.of_table(table)
        # One of another key is no place to go on from: `_emit` will find that all is to be read.
        stands = self._assembly.known.stands_as(table.collection, relation.key_form)
        after = self._state["after"] if stands else None
        with plain():
            self._mark(LOW, identity)
            chunk = copy_chunk(self._connection, table, after, self._config.option("chunk_rows", 0))
            self.between()
            self._mark(HIGH, identity)
        self._window = Window(identity, table, relation, *chunk)

    def _mark(self, prefix: str, identity: str) -> None:
        # Transactional: only a commit makes the server flush, and send, at once.
        self._connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", [prefix, identity])

    def _published(self) -> list[Table]:
        return Catalog(self._connection).tables(self._publication)

    def _store(self) -> None:
        self._assembly.note("incremental", dict(self._state) if self._state["queue"] else None)
