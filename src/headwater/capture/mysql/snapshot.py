"""The first snapshot: every row as it was at one place of the binary log, without a lock.

Called by `source`. `START TRANSACTION WITH CONSISTENT SNAPSHOT` gives a view of all transactional tables
and, as MariaDB keeps its binary log in step with it, that view's exact place (`binlog_snapshot_%`).

Tables are read in the order of their primary key, a chunk at a time; a position says after which key to
go on. After a restart the old view is gone and a new, later one is opened: first the changes in between
are streamed for everything that was read already, then reading goes on in the new view. So what a reader
sees never goes back in time. A table whose key cannot be continued from begins again, after a truncate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from headwater.capture.change import BATCH_BYTES, Batch, Position, Progress, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Refused
from headwater.capture.mysql import chunks
from headwater.capture.mysql.connection import Address, Connection, Packet, text_values
from headwater.capture.mysql.encoding import ENVELOPE_BYTES
from headwater.capture.mysql.gtid import GtidPosition
from headwater.capture.mysql.tables import CapturedTable, Tables, source_block

CHUNK_ROWS = 20_000


class View:
    """A consistent view of the database, and its place in the binary log."""

    def __init__(self, address: Address, *, first: bool) -> None:
        self.connection = Connection(address)
        execute = self.connection.execute
        execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        execute("SET SESSION net_write_timeout = 3600")  # the log may be slower than the server
        execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        status = dict(execute("SHOW STATUS LIKE 'binlog_snapshot_%'"))
        self.file = status.get("Binlog_snapshot_file") or ""
        self.pos = int(status.get("Binlog_snapshot_position") or 0)
        gtid = self.connection.value("SELECT BINLOG_GTID_POS(%s, %s)", [self.file, self.pos])
        if not self.file or gtid is None:
            self.connection.close()
            raise Refused(
                "the MariaDB server does not say where in its binary log a snapshot stands",
                hint="switch the binary log on: log_bin in the server's configuration, then restart it",
            )
        self.gtid = GtidPosition.parse(gtid)
        if first and execute("XA RECOVER"):
            self.connection.close()
            raise Refused(
                "an XA transaction is prepared and not decided: its rows are neither in the snapshot "
                "nor in what follows it",
                hint="see XA RECOVER; XA COMMIT or XA ROLLBACK it, then begin again",
            )

    def close(self) -> None:
        self.connection.close()


class Snapshot:
    """Reads what is pending, from a view."""

    def __init__(
        self, config: CaptureConfig, tables: Tables, view: View, server: int, chunk_rows: int
    ) -> None:
        self._config = config
        self._tables = tables
        self._view = view
        self._server = server
        self._chunk_rows = chunk_rows
        self.progress: Progress | None = None

    def read(self, position: Position) -> Iterator[Batch]:
        """The rest of the snapshot; the last batch's position has no `snapshot`."""
        state = position["snapshot"]
        pending = [name for name in state["pending"] if name in self._tables.now]
        done = len(state["pending"]) - len(pending)
        schemas = dict(position["schemas"])
        here = {**position, "gtid": str(self._view.gtid)}
        here |= {"file": self._view.file, "pos": self._view.pos, "schemas": schemas}
        for number, name in enumerate(pending):
            table = self._tables.as_now(name)
            after = state.get("after") if number == 0 and state.get("table") == name else None
            left = pending[number:]
            yield from self._table(table, after, left, here, schemas, done + number)
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
        for rows, last in self._chunks(table, after if chunked else None, chunked):
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
            statement, parameters = chunks.query(database, table, after, limit)
            for rows in self._view.connection.result(statement, parameters):
                count += len(rows)
                last = None
                if chunked:
                    last = after = chunks.key_of(table, rows[-1])
                yield rows, last
            if not chunked or count < self._chunk_rows:
                return

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
        name, database = self._config.name, self._tables.database
        head, tail = source_block(
            name, database, table, _now_ms(), self._server, gtid, view.file, "true"
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
