"""The tables as they were at one moment, in chunks by key, read side by side.

Called by `source` for the first snapshot. Every reader takes up the snapshot that the slot's creation
exported, so the rows are exactly those before the slot's first change. After a kill that snapshot is
gone: `source` streams on to a second one, and the chunks that are left are read there.

    progress in the position:  {"done": ["public.customers"], "table": "public.orders", "after": ["4711"]}

A table without a key is read in one piece; if that was cut short, or changes have been streamed already
(`"rest": true`), a truncate event comes before its rows, so that a reader has none twice. With
`"again": true`, for a snapshot into topics that have rows of an earlier one, every table begins so.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from headwater.capture.change import Batch, Position, Progress, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.postgres import copy_rows, table_lock
from headwater.capture.postgres.catalog import Table
from headwater.capture.postgres.chunks import (
    CHUNK_BYTES,
    boundary,
    chunk_query,
    chunk_rows,
    copy_out,
)
from headwater.capture.postgres.connection import Connection, connect, literal, plain
from headwater.capture.postgres.known_tables import KnownTables
from headwater.capture.postgres.relations import (
    Relation,
    Relations,
    moment,
    now_text,
    schema_record,
)


class Snapshot:
    """One exported snapshot, and what is still to be read in it."""

    def __init__(
        self,
        config: CaptureConfig,
        relations: Relations,
        tables: list[Table],
        position: Position,
        exported: tuple[str, str],
    ) -> None:
        """`position`: with the key `snapshot`; `exported`: by which server, and the snapshot's name."""
        self._config = config
        self._relations = relations
        self._tables = tables
        self._position = position
        self._time_us = time.time_ns() // 1000
        self._rows = 0
        self._workers = max(1, config.option("snapshot_workers", 2))
        self._chunk_rows = config.option("chunk_rows", 0)
        self._free: SimpleQueue[Connection] = SimpleQueue()
        self._readers = [self._reader(*exported) for _ in range(self._workers + 1)]
        self._planner = self._readers[-1]
        for reader in self._readers[:-1]:
            self._free.put(reader)
        self.progress: Progress | None = None

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def batches(self) -> Iterator[Batch]:
        """All that is left; each batch's position says what is left after it."""
        for table in self._tables:
            done = self._state["done"]
            if table.collection in done:
                continue
            yield from self._table(table)
            self._finish([*done, table.collection])
            yield Batch(self._position)

    @property
    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._position["snapshot"]
        return state

    @_state.setter
    def _state(self, state: dict[str, Any]) -> None:
        self._position = {**self._position, "snapshot": state}

    def _table(self, table: Table) -> Iterator[Batch]:
        table_lock.lock(self._planner, table)
        relation = self._relations.of_table(table)
        self._rows = self._state.get("rows", 0)
        self._tell(table)
        first = self._begin(table, relation)
        key = table.key()
        if not key:
            yield Batch(self._position, first)
            yield from self._whole(table, relation)
            return
        if first:
            yield Batch(self._position, first)
        yield from self._chunks(table, relation, key)

    def _begin(self, table: Table, relation: Relation) -> list[Record]:
        """Note that the table has been begun; its schema, and for a second beginning a truncate."""
        records, source = list[Record](), self._source(relation)
        known = KnownTables(self._position)
        redefined = not known.stands_as(table.collection, relation.key_form)
        begun = self._state.get("table") == table.collection and not redefined
        doubled = not table.key() and (begun or self._state.get("rest"))
        anew = doubled or redefined or (self._state.get("again") and not begun)
        if anew and relation.outbox is None:
            records.append(relation.encoder.truncated(source, self._rest()))
        if known.schemas.get(table.collection) != relation.digest:
            topic = self._config.schema_topic
            records.append(schema_record(topic, None, relation, source, first=True))
        known.begin(table.collection, table.relation, relation.digest, relation.key_form)
        self._position = {**self._position, **known.told()}
        if not begun:
            self._finish(self._state["done"])
            self._state = {**self._state, "table": table.collection, "after": None}
        return records

    def _finish(self, done: list[str]) -> None:
        """These tables are complete, and none is under way."""
        kept = {name: True for name in ("again", "rest") if self._state.get(name)}
        self._state = {**kept, "done": done}

    def _chunks(self, table: Table, relation: Relation, key: tuple[str, ...]) -> Iterator[Batch]:
        """Chunks in the order of the key; the next ones are fetched while one is encoded."""
        size = self._chunk_rows or chunk_rows(self._planner, table)
        with ThreadPoolExecutor(self._workers) as pool:
            ahead: deque[tuple[list[str] | None, Future[bytes]]] = deque()
            after, over = self._state.get("after"), False
            try:
                while ahead or not over:
                    while not over and len(ahead) <= self._workers:
                        last = boundary(self._planner, table, key, after, size)
                        chosen = chunk_query(table, key, after, last)
                        ahead.append((last, pool.submit(self._fetch, chosen)))
                        after, over = last, last is None
                    last, fetched = ahead.popleft()
                    with plain():
                        data = fetched.result()
                    yield self._chunk(table, relation, data, last)
            finally:
                for _, waiting in ahead:
                    waiting.cancel()

    def _chunk(
        self, table: Table, relation: Relation, data: bytes, last: list[str] | None
    ) -> Batch:
        records = self._encode(relation, data)
        self._rows += len(records)
        self._tell(table)
        if last is not None:
            self._state = {**self._state, "after": last, "rows": self._rows}
            return Batch(self._position, records, len(records))
        # The last chunk and "done" go together: a position between them would read it again.
        self._finish([*self._state["done"], table.collection])
        return Batch(self._position, records, len(records))

    def _whole(self, table: Table, relation: Relation) -> Iterator[Batch]:
        query = chunk_query(table, (), None, None)
        gathered, size = list[bytes](), 0
        with plain(), self._planner.cursor() as cursor, cursor.copy(query) as copy:
            for block in copy:
                gathered.append(bytes(block))
                size += len(block)
                if size >= CHUNK_BYTES:
                    yield self._piece(table, relation, b"".join(gathered))
                    gathered, size = [], 0
        yield self._piece(table, relation, b"".join(gathered))

    def _piece(self, table: Table, relation: Relation, data: bytes) -> Batch:
        records = self._encode(relation, data)
        self._rows += len(records)
        self._tell(table)
        return Batch(self._position, records, len(records))

    def _encode(self, relation: Relation, data: bytes) -> list[Record]:
        if relation.outbox is not None:
            events = [relation.event(row) for row in copy_rows.rows(data, relation.converters)]
            self._relations.topics.update(dict.fromkeys(event[0] for event in events))
            return events
        source, rest = self._source(relation), self._rest()
        created = relation.encoder.created
        return [
            created(row, source, rest, "r") for row in copy_rows.rows(data, relation.converters)
        ]

    def _source(self, relation: Relation) -> str:
        lsn = self._position["lsn"]
        return relation.source(moment("true", self._time_us, None), lsn, lsn)

    def _rest(self) -> str:
        return f'{now_text()},"transaction":null'

    def _fetch(self, query: str) -> bytes:
        reader = self._free.get()
        try:
            return copy_out(reader, query)
        finally:
            self._free.put(reader)

    def _reader(self, url: str, name: str) -> Connection:
        reader = connect(url)
        with plain():
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute(f"SET TRANSACTION SNAPSHOT {literal(name)}")
        return reader

    def _tell(self, table: Table) -> None:
        done = len(self._state["done"])
        self.progress = Progress(
            table.collection, self._rows, table.rows_expected, done, len(self._tables)
        )


def read_anew(state: Position, table: str) -> Position:
    """A snapshot that goes on reads this table from its first row, whatever it has read of it."""
    under_way = ("table", "after", "rows") if state.get("table") == table else ()
    kept = {name: value for name, value in state.items() if name not in under_way}
    return {**kept, "done": [name for name in state.get("done", []) if name != table]}
