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
from headwater.capture.envelope import quote
from headwater.capture.key_forms import is_redefined
from headwater.capture.mysql import ddl, events, rows
from headwater.capture.mysql.gtid import Gtid, SetGtid
from headwater.capture.mysql.tables import CapturedTable, Tables

Kept = tuple[int, Any, int, int, int, int]
"""An event of a transaction: type, bytes (a query: itself), body's start and end, seconds, position."""

_TABLE_MAP = events.TABLE_MAP
# Beside the values a record has its envelope: about so many bytes.
ENVELOPE_BYTES = 500
OnDdl = Callable[[list[str], list[str], str, int], Sequence[str]]
"""Told which tables a statement changes, which of them had another name, and its file and place in that;
says which of the latter will be read from their first row."""


class GroupEncoder:
    """Encodes one transaction."""

    def __init__(
        self, config: CaptureConfig, tables: Tables, schemas: dict[str, str], keys: dict[str, str]
    ) -> None:
        self._config = config
        self._tables = tables
        self._schemas, self._keys = schemas, keys
        self._has_transactions = config.transactions
        self._reads_moved_rows = config.option("read_moved_rows", True)
        self._transaction_topic = config.transaction_topic
        self.skipped_tables: frozenset[str] = frozenset()
        self.on_ddl: OnDdl = lambda _names, _arrived, _file, _pos: ()
        self.on_redefined: Callable[[str], bool] = lambda _name: False
        """Told which table has another key; says whether it will be read from its first row."""
        self._records: list[Record] = []
        self._bytes = 0
        self._rows = 0
        self.look_at_clock()

    def look_at_clock(self) -> None:
        """Once for all transactions that came together."""
        now = time.time_ns()
        self._now_ms = now // 1_000_000
        self._now = f',"ts_ms":{self._now_ms},"ts_us":{now // 1000},"ts_ns":{now}'

    def begin(self, gtid: Gtid | SetGtid, file: str, seconds: int) -> None:
        """Another transaction."""
        self._server = gtid.server
        self._gtid = str(gtid)
        self._file = file
        self._ts_ms = seconds * 1000
        self._maps: dict[bytes, CapturedTable | None] = {}
        self._counts: dict[str, int] = {}
        self._order = self._events = self._skip = 0

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
        """The END of the transaction, with what it had; one with no rows of ours is not told of."""
        if not self._counts or not self._has_transactions:
            return
        database = self._tables.database
        counts = ",".join(
            f'{{"data_collection":{quote(f"{database}.{name}")},"event_count":{count}}}'
            for name, count in self._counts.items()
        )
        self._bound("END", str(self._order), f"[{counts}]")

    def _bound(self, status: str, count: str, counts: str) -> None:
        # What envelope.transaction_record makes; written here as text, as it is told of every commit.
        value = (
            f'{{"status":"{status}","id":"{self._gtid}","event_count":{count},'
            f'"data_collections":{counts},"ts_ms":{self._ts_ms}}}'
        )
        key = f'{{"id":"{self._gtid}"}}'
        self._records.append((self._transaction_topic, key.encode(), value.encode()))

    def encode(self, kept: Sequence[Kept]) -> None:
        maps = self._maps
        for kind, data, body, end, _seconds, position in kept:
            if kind == _TABLE_MAP:
                maps[data[body : body + 6]] = self.table(data[body + 8 : end], position)
                continue
            self._events += 1
            if self._events <= self._skip:
                continue
            if kind == events.QUERY:
                self._statement(data, position)
            elif (table := maps.get(data[body : body + 6])) is not None:
                self.encode_rows(kind, table, data, body, end, position)

    def table(self, described: bytes, position: int) -> CapturedTable | None:
        """The table of a table map, from the database's name on; None if its rows are not wanted."""
        table = self._tables.by_map(described)
        if table is not None:
            if table.name in self.skipped_tables:
                return None
            if self._tables.latest.get(table.name) is not table:
                self._changed(table, position)
        return table

    def _changed(self, table: CapturedTable, position: int) -> None:
        before = self._tables.latest.get(table.name)
        self._tables.latest[table.name] = table
        is_same = self._schemas.get(table.name) in (None, table.digest)
        redefined = is_redefined(self._keys, table.name, table.key_form, is_same=is_same)
        if self._schemas.get(table.name) != table.digest:
            self._schemas[table.name] = table.digest
            source = self._source(table.name, position)
            self._records.append(
                table.schema_record(
                    self._config.schema_topic, self._tables.database, before, source, self._now_ms
                )
            )

        if redefined and table.outbox is None and self.on_redefined(table.name):
            self._truncate(table.name, position)

    def _source(self, table: str | None, position: int) -> str:
        head, tail = self._tables.source_block(
            table, self._ts_ms, self._server, self._gtid, self._file
        )
        return f'{head}{position},"row":0{tail}'

    def _numbering(self, name: str) -> tuple[str, str, int]:
        """What follows the source block, around the event's two numbers; and that table's last one."""
        count = self._counts.get(name, 0)
        if not self._has_transactions:
            return f'{self._now},"transaction":null', "", count
        if not self._order:
            self._bound("BEGIN", "null", "null")
        start = f'{self._now},"transaction":{{"id":"{self._gtid}","total_order":'
        return start, ',"data_collection_order":', count

    def encode_rows(
        self, kind: int, table: CapturedTable, data: bytes, body: int, end: int, position: int
    ) -> None:
        if table.outbox is not None:
            self._route(kind, table, data, body, end)
            return
        first, second = table.source_parts
        ts_ms = self._ts_ms
        head = (
            f'{first}{ts_ms},"snapshot":"false",{second[0]}{ts_ms}000,"ts_ns":{ts_ms}000000,{second[1]}'
            f'{self._server},"gtid":"{self._gtid}","file":"{self._file}","pos":{position},"row":'
        )
        name = table.name
        start, middle, count = self._numbering(name)
        order = self._order
        records = self._records
        before_count, encoder, row = len(records), table.encoder, 0
        # Three loops rather than one: what an insert costs is what a capture costs.
        for what, images in table.decoder.parts(kind, data, body, end):
            if what in rows.WRITES:
                for image in images:
                    order += 1
                    count += 1
                    source = f'{head}{row},"thread":null,"query":null}}'
                    rest = f"{start}{order}{middle}{count}}}" if middle else start
                    records.append(encoder.created(image, source, rest))
                    row += 1
            elif what in rows.UPDATES:
                for before, after in zip(images[::2], images[1::2], strict=True):
                    order += 1
                    count += 1
                    source = f'{head}{row},"thread":null,"query":null}}'
                    rest = f"{start}{order}{middle}{count}}}" if middle else start
                    if encoder.moved(before, after):
                        records += encoder.deleted(before, source, rest, after)
                        order += 1  # it is two events to readers
                        count += 1
                        rest = f"{start}{order}{middle}{count}}}" if middle else start
                        records.append(encoder.arrived(before, after, source, rest))
                    else:
                        records += encoder.updated(before, after, source, rest)
                    row += 1
            else:
                for image in images:
                    order += 1
                    count += 1
                    source = f'{head}{row},"thread":null,"query":null}}'
                    rest = f"{start}{order}{middle}{count}}}" if middle else start
                    records += encoder.deleted(image, source, rest)
                    row += 1
        self._order = order
        self._counts[name] = count
        self._rows += row
        self._bytes += 2 * (end - body) + ENVELOPE_BYTES * (len(records) - before_count)

    def _route(self, kind: int, table: CapturedTable, data: bytes, body: int, end: int) -> None:
        """Rows of the outbox are events of their own; deletes only tidy up."""
        assert table.outbox is not None
        images = table.decoder.images(kind, data, body, end)
        records: list[Record] = []
        if kind in rows.WRITES:
            records = table.outbox.inserted(images)
        elif kind in rows.UPDATES:
            records = table.outbox.updated(images[1::2])
        self._tables.event_topics.update(record[0] for record in records)
        self._records += records
        self._rows += len(records)
        self._bytes += 2 * (end - body) + ENVELOPE_BYTES * len(records)

    # ── statements ─────────────────────────────────────────────────────────────────────────────

    def _statement(self, query: events.Query, position: int) -> None:
        change = ddl.classify(query.statement, query.database)
        if change is None:
            return
        names, gone, arrived = ddl.concerned(change, self._tables, self._reads_moved_rows)
        if not names:
            return
        anew = self.on_ddl(names, arrived, self._file, position)
        for name in names:
            if name in self.skipped_tables:
                continue
            table = (f"{self._tables.database}.{name}", self._tables.topic(name))
            source, topic = self._source(name, position), self._config.schema_topic
            record = ddl.record(topic, table, change, query.statement, source, self._now_ms)
            self._records.append(record)
            moved = change.moves_rows and name not in self._tables.now  # it is a partition now
            emptied = (name in (*gone, *anew) or moved) and name != self._config.outbox
            if emptied:
                self._truncate(name, position)
            if change.kind not in ("TRUNCATE", "ALTER"):
                self._tables.latest.pop(name, None)
                self._schemas.pop(name, None)
                if emptied:  # else its rows still stand under their keys
                    self._keys.pop(name, None)

    def _truncate(self, name: str, position: int) -> None:
        """All rows are gone, without an event for each."""
        start, middle, count = self._numbering(name)
        self._order += 1
        self._counts[name] = count + 1
        rest = f"{start}{self._order}{middle}{count + 1}}}" if middle else start
        self._records.append(self._tables.emptied(name, self._source(name, position), rest))
        self._rows += 1
