"""The first snapshot: every row as it was at one place of the binary log, without a lock.

Called by `source`. `views` gives several connections that see the tables at that place; one plans the
chunks, the others fetch them ahead while this process encodes. The order stays that of the key.

Tables are read in the order of their primary key, a chunk at a time; a position says after which key to
go on. After a restart the old view is gone and a new, later one is opened: first the changes in between
are streamed for everything that was read already, then reading goes on in the new view. So what a reader
sees never goes back in time. A table whose key cannot be continued from begins again, after a truncate.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from headwater.capture.change import BATCH_BYTES, Batch, Position, Progress, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted, TableAltered
from headwater.capture.key_forms import is_known
from headwater.capture.mysql import chunks
from headwater.capture.mysql.connection import Connection, Packet, text_values
from headwater.capture.mysql.encoder import ENVELOPE_BYTES
from headwater.capture.mysql.selection import check_presence
from headwater.capture.mysql.tables import CapturedTable, Tables
from headwater.capture.mysql.views import Views

CHUNK_ROWS = 20_000
# Chunks that are fetched ahead are held in memory: so many bytes each, by the server's estimate.
CHUNK_BYTES = 4 << 20


class Snapshot:
    """Reads what is pending, from a view."""

    def __init__(self, config: CaptureConfig, tables: Tables, view: Views, chunk_rows: int) -> None:
        self._config = config
        self._tables = tables
        self._view = view
        self._chunk_rows = chunk_rows
        self._free: SimpleQueue[Connection] = SimpleQueue()
        for reader in view.readers:
            self._free.put(reader)
        self.progress: Progress | None = None

    def read(self, position: Position) -> Iterator[Batch]:
        """The rest of the snapshot; the last batch's position has no `snapshot`."""
        state = position["snapshot"]
        pending = [name for name in state["pending"] if name in self._tables.now]
        done = len(state["pending"]) - len(pending)
        schemas, keys = dict(position["schemas"]), dict(position.get("keys", {}))
        here = {**position, "gtid": str(self._view.gtid)}
        here |= {"file": self._view.file, "pos": self._view.pos, "schemas": schemas}
        for number, name in enumerate(pending):
            table = self._tables.as_now(name)
            after = state.get("after") if number == 0 and state.get("table") == name else None
            if not is_known(keys, name, table.key_form):
                after = None  # that of another key
            keys[name] = table.key_form
            here, left = {**here, "keys": dict(keys)}, pending[number:]
            try:
                yield from self._table(table, after, left, here, schemas, done + number)
            except TableAltered as error:
                # The next view has the tables as they are then.
                raise Interrupted(
                    f"{name} was altered before its rows were read: {error}"
                ) from None
        final = {key: value for key, value in here.items() if key != "snapshot"}
        yield Batch({**final, "schemas": dict(schemas)})

    def _table(
        self,
        table: CapturedTable,
        after: Any,
        left: list[str],
        here: Position,
        schemas: dict[str, str],
        done: int,
    ) -> Iterator[Batch]:
        now = self._tables.now[table.name]
        records: list[Record] = []
        again = {"again": True} if here["snapshot"].get("again") else {}
        started = bool(again) or table.name == here["snapshot"].get("table")
        if schemas.get(table.name) != table.digest:
            schemas[table.name] = table.digest
            self._tables.latest[table.name] = table
            records.append(self._schema(table))
        chunked = chunks.continues(table)
        if started and after is None and table.outbox is None:
            # It was read before, at least in part: readers forget what they have of it.
            source = self._source(table.name)
            records.append(self._tables.emptied(table.name, source, outside_transactions()))
        count = told = 0
        size = 0
        snapshot: dict[str, Any] = {"pending": left, "table": table.name, **again}
        if chunked and self._view.readers:
            found = self._ahead(table, after)
        else:
            found = self._chunks(table, after if chunked else None, chunked)
        for rows, last in found:
            size += self._encode(table, rows, records)
            count += len(rows)
            if last is not None:
                snapshot["after"] = last
            if size >= BATCH_BYTES:
                self.progress = Progress(table.name, count, now.rows, done, done + len(left))
                yield Batch(
                    {**here, "schemas": dict(schemas), "snapshot": dict(snapshot)},
                    records,
                    count - told,
                )
                records, size, told = [], 0, count
        self.progress = Progress(table.name, count, count, done + 1, done + len(left))
        over = {"pending": left[1:], **again}
        yield Batch({**here, "schemas": dict(schemas), "snapshot": over}, records, count - told)

    def _chunks(
        self, table: CapturedTable, after: Any, chunked: bool
    ) -> Iterator[tuple[list[Packet], Any]]:
        """Rows as the server's text, with the key of the last, where one can go on from it."""
        database, limit = self._tables.database, self._chunk_rows if chunked else None
        while True:
            count = 0
            statement, parameters = chunks.query(database, table, after, limit, ordered=chunked)
            for rows in self._view.connection.result(statement, parameters):
                count += len(rows)
                last = None
                if chunked:
                    last = after = chunks.key_of(table, rows[-1])
                yield rows, last
            if not chunked or count < self._chunk_rows:
                return

    def _ahead(self, table: CapturedTable, after: Any) -> Iterator[tuple[list[Packet], list[str]]]:
        """The same by several readers, in the same order."""
        readers = len(self._view.readers)
        row_bytes = self._tables.now[table.name].row_bytes
        size = chunks.rows_within(CHUNK_BYTES, row_bytes, self._chunk_rows)
        with ThreadPoolExecutor(readers) as pool:
            waiting: deque[Future[list[list[Packet]]]] = deque()
            over = False
            try:
                while waiting or not over:
                    while not over and len(waiting) <= readers:
                        last = self._boundary(table, after, size)
                        waiting.append(pool.submit(self._fetch, table, after, last))
                        after, over = last, last is None
                    for rows in waiting.popleft().result():
                        yield rows, chunks.key_of(table, rows[-1])
            finally:
                for unread in waiting:
                    unread.cancel()

    def _boundary(self, table: CapturedTable, after: Any, size: int) -> list[str] | None:
        statement, parameters = chunks.boundary(self._tables.database, table, after, size)
        found = list(self._view.connection.result(statement, parameters))
        return chunks.boundary_key(table, found[-1][-1]) if found else None

    def _fetch(self, table: CapturedTable, after: Any, last: Any) -> list[list[Packet]]:
        reader = self._free.get()
        try:
            statement, parameters = chunks.query(self._tables.database, table, after, None, last)
            return list(reader.result(statement, parameters))
        finally:
            self._free.put(reader)

    def _encode(self, table: CapturedTable, rows: Sequence[Packet], records: list[Record]) -> int:
        source = self._source(table.name)
        rest = outside_transactions()
        created = table.encoder.created
        converters = [field.from_text for field in table.fields]
        size = 0
        if table.outbox is not None:
            routed = table.outbox.inserted(text_values(row, converters) for row in rows)
            self._tables.event_topics.update(record[0] for record in routed)
            records += routed
            return sum(len(record[2] or b"") + ENVELOPE_BYTES // 10 for record in routed)
        for row in rows:
            record = created(text_values(row, converters), source, rest, "r")
            records.append(record)
            size += len(record[2] or b"") + ENVELOPE_BYTES // 10
        return size

    def _source(self, table: str) -> str:
        view = self._view
        gtid = str(view.gtid)
        head, tail = self._tables.source_block(
            table, _now_ms(), view.server, gtid, view.file, "true"
        )
        return f'{head}{view.pos},"row":0{tail}'

    def _schema(self, table: CapturedTable) -> Record:
        topic, database = self._config.schema_topic, self._tables.database
        return table.schema_record(topic, database, None, self._source(table.name), _now_ms())


def outside_transactions() -> str:
    """What follows the source block of a row that no transaction brought."""
    now = time.time_ns()
    return f',"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now},"transaction":null'


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def with_new_tables(position: Position, now: Iterable[str]) -> Position:
    """A snapshot that goes on reads tables, too, that were made meanwhile, or renamed to what is captured."""
    known: list[str] | None = position.get("tables")
    if known is None or not (new := sorted({*now} - {*known})):
        return position
    state = position["snapshot"]
    state = {**state, "pending": [*state["pending"], *new]}
    return {**position, "tables": sorted({*known, *new}), "snapshot": state}


def begun_anew(state: Position, name: str) -> Position:
    """A snapshot that goes on reads this table from its first row, whatever it has read of it.

    Each table then begins with a truncate event: of this one, what is streamed until then may be here twice.
    """
    if state.get("table") == name:
        state = {k: v for k, v in state.items() if k not in ("table", "after")}
    others = [each for each in state["pending"] if each != name]
    return {**state, "pending": [*others, name], "again": True}


def first_position(
    config: CaptureConfig, view: Views, tables: Collection[str], before: Position | None
) -> Position:
    """Before the first row: where the stream will begin, and what is to be read."""
    if before is None:
        check_presence(config, tables)
    pending = {"pending": sorted(tables)}
    return {
        "server": view.server,
        "gtid": str(view.gtid),
        "file": view.file,
        "pos": view.pos,
        "schemas": {},
        "tables": sorted(tables),
        "snapshot": pending if before is None else {**pending, "again": True},
    }
