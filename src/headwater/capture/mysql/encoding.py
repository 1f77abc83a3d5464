"""The records of one transaction: its rows numbered, BEGIN before and END after them.

Called by `assembly` with the events that it kept, all at once or, for a large transaction, piece by
piece. `progress` says how far it has come, so that a restart can leave out what the log already has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.capture.change import Record
from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import dumps, quote, transaction_record
from headwater.capture.mysql import ddl, events, rows
from headwater.capture.mysql.gtid import Gtid
from headwater.capture.mysql.tables import CapturedTable, Tables, source_block

Kept = tuple[int, Any, int, int, int, int]
"""An event of a transaction: type, bytes (a query: itself), body's start and end, seconds, position."""

# Beside the values a record has its envelope: about so many bytes.
ENVELOPE_BYTES = 500


class GroupEncoder:
    """Encodes one transaction."""

    def __init__(
        self,
        config: CaptureConfig,
        tables: Tables,
        gtid: Gtid,
        file: str,
        seconds: int,
        schemas: dict[str, str],
    ) -> None:
        self._config = config
        self._tables = tables
        self._gtid = str(gtid)
        self._server = gtid.server
        self._file = file
        self._ts_ms = seconds * 1000
        self._schemas = schemas
        self._now_ms = time.time_ns() // 1_000_000
        self._maps: dict[bytes, CapturedTable | None] = {}
        self._heads: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, int] = {}
        self._order = 0
        self._events = 0
        self._skip = 0
        self._records: list[Record] = []
        self._bytes = 0
        self._rows = 0
        self.skipped_tables: frozenset[str] = frozenset()
        self.on_ddl: Callable[[], None] = lambda: None

    def progress(self) -> dict[str, Any]:
        return {"events": self._events, "order": self._order, "counts": dict(self._counts)}

    def resume(self, within: Mapping[str, Any]) -> None:
        """The log already has the first row events of this transaction."""
        self._skip = within["events"]
        self._order = within["order"]
        self._counts = dict(within["counts"])

    def take(self) -> tuple[list[Record], int, int]:
        """What is ready: records, about how many bytes, how many rows."""
        taken = self._records, self._bytes, self._rows
        self._records, self._bytes, self._rows = [], 0, 0
        return taken

    def end(self) -> None:
        if self._counts and self._config.transactions:
            counts = {f"{self._tables.database}.{name}": n for name, n in self._counts.items()}
            topic = self._config.transaction_topic
            self._records.append(transaction_record(topic, "END", self._gtid, self._ts_ms, counts))

    def encode(self, kept: Sequence[Kept]) -> None:
        maps = self._maps
        for kind, data, body, end, _seconds, position in kept:
            if kind == events.TABLE_MAP:
                maps[data[body : body + 6]] = self._table(data[body:end], position)
                continue
            self._events += 1
            if self._events <= self._skip:
                continue
            if kind == events.QUERY:
                self._statement(data, position)
            elif (table := maps.get(data[body : body + 6])) is not None:
                self._encode_rows(kind, table, data, body, end, position)

    def _table(self, body: bytes, position: int) -> CapturedTable | None:
        table = self._tables.by_map(body[8:])
        if table is None or table.name in self.skipped_tables:
            return None
        if self._tables.latest.get(table.name) is not table:
            self._changed(table, position)
        return table

    def _changed(self, table: CapturedTable, position: int) -> None:
        before = self._tables.latest.get(table.name)
        self._tables.latest[table.name] = table
        if self._schemas.get(table.name) != table.digest:
            self._schemas[table.name] = table.digest
            source = self._source(table.name, position)
            self._records.append(
                table.schema_record(
                    self._config.schema_topic, self._tables.database, before, source, self._now_ms
                )
            )

    def _source(self, table: str | None, position: int) -> str:
        head, tail = self._head(table)
        return f'{head}{position},"row":0{tail}'

    def _head(self, table: str | None) -> tuple[str, str]:
        return source_block(
            self._config.name,
            self._tables.database,
            table,
            self._ts_ms,
            self._server,
            self._gtid,
            self._file,
        )

    def _rest(self, name: str) -> Callable[[], str]:
        """Numbers the next event of that table: what follows the source block."""
        now = f',"ts_ms":{self._now_ms}'
        counts = self._counts
        if not self._config.transactions:

            def plain() -> str:
                counts[name] = counts.get(name, 0) + 1
                return f'{now},"transaction":null'

            return plain
        if not self._order:
            self._records.append(
                transaction_record(self._config.transaction_topic, "BEGIN", self._gtid, self._ts_ms)
            )
        counts.setdefault(name, 0)
        start = f'{now},"transaction":{{"id":"{self._gtid}","total_order":'

        def numbered() -> str:
            self._order += 1
            counts[name] = order = counts[name] + 1
            return f'{start}{self._order},"data_collection_order":{order}}}'

        return numbered

    def _encode_rows(
        self, kind: int, table: CapturedTable, data: bytes, body: int, end: int, position: int
    ) -> None:
        head, tail = self._heads.get(table.name) or self._heads.setdefault(
            table.name, self._head(table.name)
        )
        head = f'{head}{position},"row":'
        images = table.decoder.images(kind, data, body, end)
        rest = self._rest(table.name)
        records = self._records
        before_count = len(records)
        if kind in rows.WRITES:
            created = table.encoder.created
            for row, image in enumerate(images):
                records.append(created(image, f"{head}{row}{tail}", rest()))
        elif kind in rows.UPDATES:
            updated = table.encoder.updated
            for row in range(len(images) // 2):
                source = f"{head}{row}{tail}"
                records += updated(images[2 * row], images[2 * row + 1], source, rest())
        else:
            deleted = table.encoder.deleted
            for row, image in enumerate(images):
                records += deleted(image, f"{head}{row}{tail}", rest())
        count = len(images) if kind not in rows.UPDATES else len(images) // 2
        self._rows += count
        self._bytes += 2 * (end - body) + ENVELOPE_BYTES * (len(records) - before_count)

    # ── statements ─────────────────────────────────────────────────────────────────────────────

    def _statement(self, query: events.Query, position: int) -> None:
        change = ddl.classify(query.statement, query.database)
        if change is None:
            return
        if change.kind == "DROP DATABASE":
            names = self._tables.names() if change.tables[0][0] == self._tables.database else []
        else:
            names = [name for database, name in change.tables if self._tables.wants(database, name)]
        if not names:
            return
        self.on_ddl()
        for name in names:
            if name in self.skipped_tables:
                continue
            self._record_change(change, name, query.statement, position)
            if change.kind in ("TRUNCATE", "DROP", "DROP DATABASE"):
                self._truncate(name, position)
            if change.kind not in ("TRUNCATE", "ALTER"):
                self._tables.latest.pop(name, None)
                self._schemas.pop(name, None)

    def _record_change(self, change: ddl.Change, name: str, statement: str, position: int) -> None:
        collection = f"{self._tables.database}.{name}"
        value = (
            f'{{"table":{quote(collection)},"topic":{quote(self._tables.topic(name))},'
            f'"change":{quote(change.kind)},"columns":null,"key":null,"changes":null,'
            f'"ddl":{quote(statement)},"moves_rows":{"true" if change.moves_rows else "false"},'
            f'"source":{self._source(name, position)},"ts_ms":{self._now_ms}}}'
        )
        key = dumps({"table": collection}).encode()
        self._records.append((self._config.schema_topic, key, value.encode()))

    def _truncate(self, name: str, position: int) -> None:
        """All rows are gone, without an event for each."""
        rest = self._rest(name)
        source = self._source(name, position)
        self._records.append(self._tables.emptied(name, source, rest()))
        self._rows += 1
