"""Tables read again while the stream goes on: DBLog's algorithm, with GTIDs as watermarks.

Called by `source` with every batch of the stream. A chunk is read, then the server's GTID (the high
watermark). What the stream hands over until it has passed that watermark may be newer than the chunk, so
rows whose key it names are dropped from the chunk; what is left is appended, behind the watermark. What was
handed over before, the chunk must show: it is not read until it does. Nothing is written to the database.

    stream  ──u(1)──u(7)──────┬───────────▶      chunk {5, 7, 9} read here ┐
                              high           appended after high:  r(5) r(9)

A chunk in whose time the table was truncated or changed its columns is read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from headwater.capture.change import BATCH_BYTES, Batch, Position, Progress, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureError, Misconfigured, SourceRefused
from headwater.capture.key_forms import is_known, is_redefined
from headwater.capture.mysql import chunks, schema
from headwater.capture.mysql.connection import Connection, text_values
from headwater.capture.mysql.flavor import Flavor, Reached
from headwater.capture.mysql.snapshot import outside_transactions
from headwater.capture.mysql.tables import CapturedTable, Tables
from headwater.capture.mysql.views import shows
from headwater.capture.requests import Entry, table_of
from headwater.capture.source import Range, check_range

CHUNK_ROWS_MAX = 5_000
RETRIES = 3


class Chunk:
    """Rows that wait for the stream to pass their watermark."""

    def __init__(
        self, table: CapturedTable, records: list[Record], last: Any, high: Reached
    ) -> None:
        """`last`: the key of its last row; None where nothing is left behind it."""
        self.table = table
        self.records = records
        self.last = last
        self.high = high
        self.changed: set[bytes | None] = set()


class Incremental:
    """What is still to be read again, and the chunk at hand."""

    def __init__(
        self,
        config: CaptureConfig,
        tables: Tables,
        connection: Connection,
        flavor: Flavor,
        position: Position,
        chunk_rows: int,
        keys: dict[str, str],
    ) -> None:
        """`keys`: table → form of the keys under which readers have its rows; the stream's own."""
        self._keys = keys
        self._config = config
        self._tables = tables
        self._connection = connection
        self._flavor = flavor
        self._rows_max = min(chunk_rows, CHUNK_ROWS_MAX)
        state = position.get("incremental", {})
        self._pending: list[Entry] = list(state.get("tables", []))
        self._given_up: str | None = None
        self._after: Any = state.get("after")
        self._chunk: Chunk | None = None
        self._count = 0
        self._failures = 0
        self.progress: Progress | None = None
        # Seams for tests: what happens between a chunk and its watermark, and whether that matters.
        self.between: Callable[[], None] = lambda: None
        self.drops_changed = True

    def given_up(self) -> str | None:
        """A sentence about a request that could not be carried out; once."""
        said, self._given_up = self._given_up, None
        return said

    def want(self, tables: Sequence[Entry]) -> None:
        self._pending += [name for name in tables if name not in self._pending]

    def begin(self, name: str) -> bool:
        """Read a table whose name another had before, or that has another key, from its first row on;
        False: it cannot be."""
        now = self._tables.now.get(name)
        if now is None:
            return False  # nor is it that one any more
        if not chunks.continues(self._tables.captured(now)):
            self._given_up = (
                f"{name} is another table now, or has another key, and none in whose order it could be read: "
                f"headwater capture run {self._config.name} --resnapshot reads all tables"
            )
            return False
        if self._pending and table_of(self._pending[0]) == name:
            self._after = self._chunk = None
        self.want([name])
        return True

    @property
    def active(self) -> bool:
        return bool(self._pending)

    def follow(self, batch: Batch) -> None:
        """Look at what the stream hands over; append the chunks whose time has come."""
        passed = self._flavor.parse(batch.position["gtid"])
        whole = "within" not in batch.position
        if self._chunk is not None:
            topic = self._chunk.table.topic
            self._chunk.changed.update([r[1] for r in batch.records if r[0] == topic])
        size = 0
        while self._pending and size < BATCH_BYTES:
            if not whole:
                break
            chunk = self._chunk = self._chunk or self._read(batch.position)
            if chunk is None or not passed.covers(chunk.high):
                break
            self._chunk = None
            size += self._append(chunk, batch)
        if self._pending:
            batch.position["incremental"] = {"tables": list(self._pending), "after": self._after}
        else:
            batch.position.pop("incremental", None)

    def _append(self, chunk: Chunk, batch: Batch) -> int:
        now = self._tables.now.get(chunk.table.name)
        if now is None or self._tables.captured(now).digest != chunk.table.digest:
            return BATCH_BYTES  # its columns changed: read it again, after what is known now is out
        table = chunk.table
        redefined = is_redefined(self._keys, table.name, table.key_form, is_same=True)
        batch.position["keys"] = dict(self._keys)
        if redefined:
            # The stream has not brought a row of it since: all is read, under the key that it has now.
            self.begin(table.name)
            source = self._source(table.name, batch.position["gtid"])
            truncated = table.encoder.truncated(source, outside_transactions())
            batch.records.append(truncated)
            return 0
        if self.drops_changed:
            if None in chunk.changed:
                return 0  # truncated meanwhile: read it again
            rows = [record for record in chunk.records if record[1] not in chunk.changed]
        else:
            rows = chunk.records
        batch.records += rows
        batch.rows += len(rows)
        self._done(chunk)
        return sum(len(record[2] or b"") for record in rows)

    def _done(self, chunk: Chunk) -> None:
        self._after = chunk.last
        self._count += len(chunk.records)
        if chunk.last is None:
            self._pending.pop(0)
            self._after, self._count = None, 0
        left = len(self._pending)
        expected = self._tables.now[chunk.table.name].rows
        self.progress = Progress(chunk.table.name, self._count, expected, 0, left) if left else None

    def _read(self, position: Position) -> Chunk | None:
        """The next chunk as it is now; None if there is none, or not at this moment: not while a change
        that was handed over cannot be seen yet."""
        if not shows(self._flavor, self._connection, position):
            return None
        entry = self._pending[0]
        name, where = table_of(entry), None if isinstance(entry, str) else entry["where"]
        # As the server has it now, which may be ahead of what the stream has come to.
        place = self._connection, self._tables.database
        now = schema.read(*place, [name], missing_ok=True).get(name)
        table = None if now is None else self._tables.captured(now)
        if now is None or table is None or table.outbox is not None or not chunks.continues(table):
            self._pending.pop(0)  # dropped since it was asked for, or without a key now
            self._after = None
            return None
        if not is_known(self._keys, name, table.key_form):
            self._after = None  # a place in the order of another key
        try:
            limit = chunks.rows_within(BATCH_BYTES, now.row_bytes, self._rows_max)
            records, last = self._rows(table, where, limit)
            self._failures = 0
        except CaptureError as error:
            # Its columns may have changed since they were asked for: once more, but not for ever.
            self._failures += 1
            if self._failures > RETRIES and where is None:
                raise
            if self._failures > RETRIES:
                # A condition that no longer fits the table: no reason to stop everything else.
                self._given_up = f"{name} was not read again where {where}: {error}"
                self._pending.pop(0)
                self._after, self._failures = None, 0
            return None
        self.between()
        high = self._flavor.parse(self._flavor.now(self._connection))
        return Chunk(table, records, last if len(records) >= limit else None, high)

    def _rows(
        self, table: CapturedTable, where: str | None, limit: int
    ) -> tuple[list[Record], Any]:
        database, after = self._tables.database, self._after
        statement, parameters = chunks.query(database, table, after, limit, where=where)
        gtid = self._flavor.now(self._connection)
        source, rest = self._source(table.name, gtid), outside_transactions()
        created, converters = table.encoder.created, [field.from_text for field in table.fields]
        records: list[Record] = []
        last = self._after
        for rows in self._connection.result(statement, parameters):
            records += [created(text_values(row, converters), source, rest, "r") for row in rows]
            last = chunks.key_of(table, rows[-1])
        return records, last

    def _source(self, table: str, gtid: str) -> str:
        now_ms = time.time_ns() // 1_000_000
        head, tail = self._tables.source_block(table, now_ms, 0, gtid, "", "incremental")
        return f'{head}0,"row":0{tail}'


def added(config: CaptureConfig, known: Tables, position: Position) -> list[str]:
    """Tables that were named since the snapshot, which did not read them."""
    before = position.get("tables", ())
    new = [name for name in config.tables if name in known.now and name not in before]
    for name in new:
        if not chunks.continues(known.as_now(name)):
            raise SourceRefused(
                f"{name} was added to `tables` and has no primary key in whose order to read it",
                hint=f"headwater capture run {config.name} --resnapshot reads all tables",
            )
    return new


def readable(
    connection: Connection, config: CaptureConfig, known: Tables, tables: list[str], within: Range
) -> tuple[list[str], str | None]:
    """Which tables are to be read again, and where; raises Misconfigured where one cannot be."""
    check_range(tables, within)
    names = tables or [name for name in sorted(known.now) if name != config.outbox]
    for name in names:
        if name not in known.now or not known.wants(known.database, name):
            raise Misconfigured(
                f"the capture has no table {name!r}", hint="name it in `tables` first"
            )
        if not chunks.continues(known.as_now(name)):
            raise Misconfigured(
                f"{name} has no primary key in whose order it could be read",
                hint=f"headwater capture run {config.name} --resnapshot reads all tables",
            )
    if within.whole:
        return names, None
    where = chunks.condition(known.as_now(names[0]), within)
    # A mistake is told here, and not to the capture that runs.
    statement, _ = chunks.query(known.database, known.as_now(names[0]), None, 0, where=where)
    connection.execute(statement.replace("%%", "%"))
    return names, where
