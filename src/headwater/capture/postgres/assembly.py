"""From messages to records: the events of each transaction, numbered, with its BEGIN and END.

Called by `stream`, which feeds it messages in the order of the server. A transaction that arrives whole
(protocol 1) is encoded as it comes; one that is streamed before its end is held in a `Spool` and comes
through here at its commit.

Invariants:
- `position` must name only what `take` has handed over: all transactions before `lsn`, and the first
  `skip` events of the one after them. Events are numbered in WAL order, which a second run repeats.
- A transaction whose commit lies before the start position must be ignored: the server may send it again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

from headwater.capture.change import BATCH_BYTES, TRANSACTION_BYTES_MAX, Batch, Position, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import UNAVAILABLE, transaction_record
from headwater.capture.occupancy import Occupancy, Row
from headwater.capture.postgres import pgoutput
from headwater.capture.postgres.known_tables import KnownTables
from headwater.capture.postgres.pgoutput import LogicalMessage, Malformed
from headwater.capture.postgres.relations import (
    Relation,
    Relations,
    moment,
    now_text,
    schema_record,
)
from headwater.capture.postgres.requests import Messages
from headwater.capture.postgres.snapshot import read_anew

_NUMBER = Struct(">I").unpack_from
INSERT, UPDATE, DELETE, TRUNCATE = 0x49, 0x55, 0x44, 0x54
RELATION, TYPE, MESSAGE, ORIGIN = 0x52, 0x59, 0x4D, 0x4F
RECENT_XIDS = 10_000
OWN_PREFIX = "headwater"
"""Logical messages of ours: watermarks and requests, not for readers."""


class Assembly:
    """The records of the batch at hand, and the transaction that is being put together."""

    def __init__(self, config: CaptureConfig, relations: Relations, position: Position) -> None:
        self._config, self.relations = config, relations
        self._base: Position = {k: v for k, v in position.items() if k not in ("lsn", "skip")}
        self.known = KnownTables(position)
        self._admitted: Relation | None = None
        self._occupancy = Occupancy()
        self.handed = position
        """The position of the last batch that was handed over."""
        self.lsn: int = position["lsn"]
        self.changed_lsn = 0  # where the last transaction was committed that changed something here
        self._skip: int = position.get("skip", 0)
        self._records: list[Record] = []
        self._bytes = self._rows = 0
        self._in_transaction = False
        self._ignored = False
        self._seen = 0
        """Changes of this transaction so far, by which `skip` counts."""
        self._order = 0
        """Events of it so far, as readers count them."""
        self._messages = Messages(config, relations)
        self.recent_xids: deque[int] = deque(maxlen=RECENT_XIDS)
        self.on_own_message: Callable[[LogicalMessage], None] | None = None
        self.on_key: Callable[[Relation, bytes | None], None] | None = None
        """Told the key of every change (None: all keys), while an incremental snapshot wants to know."""
        self.on_unknown: Callable[[str], None] = lambda _table: None
        """Told of each table that readers have nothing of."""
        self.on_redefined: Callable[[Relation], bool] = lambda now: self._read_anew(now.collection)
        """Told of each table that has another key; whether its rows will be read from the first one."""
        self.on_renamed: Callable[[str], object] = lambda table: self._read_anew(table)
        """Told of each name whose rows are another table's now, or nobody's: they are to be read."""
        self.on_doubt: Callable[[str, str], object] = lambda table, _where: self._read_anew(table)
        """Told which rows a transaction may have left where it did not say so: they are to be read."""

    # ── the batch ──────────────────────────────────────────────────────────────────────────────

    @property
    def position(self) -> Position:
        now: Position = {**self._base, "lsn": self.lsn, **self.known.told()}
        seen = self._seen if self._in_transaction and not self._ignored else 0
        if skip := max(self._skip, seen):
            now["skip"] = skip
        return now

    @property
    def open(self) -> bool:
        return self._in_transaction

    @property
    def waiting(self) -> bool:
        return bool(self._records)

    @property
    def due(self) -> bool:
        """Time to hand over: enough bytes, and the transaction whole, unless it is too large."""
        return self._bytes >= (TRANSACTION_BYTES_MAX if self._in_transaction else BATCH_BYTES)

    def take(self) -> Batch:
        self.handed = self.position
        batch = Batch(self.handed, self._records, self._rows)
        self._records, self._bytes, self._rows = [], 0, 0
        return batch

    def note(self, name: str, value: Any) -> None:
        """Keep something of another's in the position (the incremental snapshot's progress)."""
        if value is None:
            self._base.pop(name, None)
        else:
            self._base[name] = value

    def add(self, records: list[Record], rows: int = 0) -> None:
        self._records += records
        self._rows += rows
        for record in records:
            self._bytes += 200 + len(record[2] or b"")

    # ── transactions ───────────────────────────────────────────────────────────────────────────

    def begin(self, final_lsn: int, time_us: int, xid: int) -> None:
        if self._in_transaction:
            raise ValueError("the server began a transaction within another one")
        self._in_transaction = True
        self._ignored = final_lsn < self.lsn
        self._time_us, self.xid, self._final_lsn = time_us, xid, final_lsn
        self._identity = f"{xid}:{final_lsn}"
        self._seen = self._order = 0
        self._counts: dict[str, int] = {}
        self._occupancy.begin()
        self._now, self._moment = now_text(), moment("false", time_us, xid)

    def commit(self, end_lsn: int) -> None:
        if not self._in_transaction:
            raise ValueError("the server committed a transaction that it had not begun")
        self._in_transaction = False
        self.recent_xids.append(self.xid)
        if self._ignored:
            return
        for table, where in self._occupancy.doubts():
            self.on_doubt(table, where)
        self.changed_lsn = self._final_lsn if self._seen else self.changed_lsn
        if self._counts and self._config.transactions:
            topic, ts_ms = self._config.transaction_topic, self._time_us // 1000
            self.add([transaction_record(topic, "END", self._identity, ts_ms, self._counts)])
        self.lsn, self._skip = end_lsn, 0

    def idle_at(self, lsn: int) -> None:
        """Everything before `lsn` was sent, and none of it is under way here.

        `skip` stays: the transaction that it belongs to has its commit behind `lsn`.
        """
        if not self._in_transaction and lsn > self.lsn:
            self.lsn = lsn

    # ── changes ────────────────────────────────────────────────────────────────────────────────

    def change(self, kind: int, lsn: int, data: bytes, at: int) -> None:
        """One message within a transaction; `at`: behind its first byte (and its xid, if it has one)."""
        if kind in (INSERT, UPDATE, DELETE):
            self.row(kind, lsn, data, at)
        elif kind == RELATION:
            self._relation(lsn, data, at)
        elif kind == TRUNCATE:
            for number in pgoutput.truncate(data, at):
                self.truncate(lsn, self.relations.by_number[number])
        elif kind == MESSAGE:
            self.message(pgoutput.message(data, at))
        elif kind not in (TYPE, ORIGIN):
            raise Malformed(f"a message {chr(kind)!r} within a transaction")

    def row(self, kind: int, lsn: int, data: bytes, at: int) -> None:
        """An insert, update or delete."""
        if self._ignored:
            return
        relation = self.relations.by_number[_NUMBER(data, at)[0]]
        if relation.outbox is not None:
            self._event(relation, kind, data, at)
            return
        encoder, converters = relation.encoder, relation.converters
        source, rest = self._count(relation, lsn)
        if relation is not self._admitted and self._seen > self._skip:
            self.admit(relation, lsn)
        if kind == INSERT:
            row = pgoutput.insert(data, at + 4, converters)
            records = [encoder.created(row, source, rest)]
            if relation.deferrable:
                self._occupancy.of(relation.collection).arrive(records[0][1], row)
        elif kind == UPDATE:
            records = self._update(relation, lsn, source, rest, data, at)
        else:
            _how, row = pgoutput.delete(data, at + 4, converters)
            records = self._left(relation, row, None, (source, rest), data, at)
        if self._seen > self._skip:
            self.add(records, 1)
        if self.on_key is not None:
            for record in records:
                self.on_key(relation, record[1])

    def _update(
        self, relation: Relation, lsn: int, source: str, rest: str, data: bytes, at: int
    ) -> list[Record]:
        encoder = relation.encoder
        how, before, after = pgoutput.update(data, at + 4, relation.converters)
        if how == "O" and UNAVAILABLE in after:
            if before is None:
                raise ValueError("an update without the old row that it announced")
            # Under FULL the old row has every value: what did not change is taken from there.
            pairs = zip(before, after, strict=True)
            after = [old if new is UNAVAILABLE else new for old, new in pairs]
        if before is not None and encoder.moved(before, after):
            records = self._left(relation, before, after, (source, rest), data, at)
            source, rest = self._count(relation, lsn)  # it is two events to readers
            records.append(encoder.arrived(before, after, source, rest))
            self._seen -= 1
            if relation.deferrable:
                self._occupancy.of(relation.collection).arrive(records[-1][1], after)
        else:
            records = encoder.updated(before, after, source, rest)
            if relation.deferrable and before is not None:
                self._occupancy.of(relation.collection).stay(records[0][1], before, after)
        return records

    def _left(
        self,
        relation: Relation,
        row: Row,
        after: Row | None,
        texts: tuple[str, str],
        data: bytes,
        at: int,
    ) -> list[Record]:
        """A row goes, or moves to another key; if another has that key already, it is that row's now."""
        gone = relation.encoder.deleted(row, *texts, after)
        if relation.deferrable:
            occupants, where = self._occupancy.of(relation.collection), relation.where(data, at + 5)
            if (other := occupants.leave(gone[0][1], row, where)) is not None:
                return relation.encoder.updated(row, other, *texts)
        return gone

    def _event(self, relation: Relation, kind: int, data: bytes, at: int) -> None:
        """A row of the outbox; its delete only tidies up."""
        self._seen += 1
        if kind == DELETE or self._seen <= self._skip:
            return
        if kind == INSERT:
            record = relation.event(pgoutput.insert(data, at + 4, relation.converters))
        else:
            _how, _before, after = pgoutput.update(data, at + 4, relation.converters)
            record = relation.event(after, updated=True)
        self.relations.topics[record[0]] = None
        self.add([record], 1)

    def truncate(self, lsn: int, relation: Relation) -> None:
        if self._ignored or relation.outbox is not None:
            return
        source, rest = self._count(relation, lsn)
        if self._seen > self._skip:
            self.add([relation.encoder.truncated(source, rest)], 1)
        if self.on_key is not None:
            self.on_key(relation, None)

    def _count(self, relation: Relation, lsn: int) -> tuple[str, str]:
        """Number the event; its source block and what follows it."""
        self._seen += 1
        self._order += 1
        order = self._counts[relation.collection] = self._counts.get(relation.collection, 0) + 1
        source = relation.source(self._moment, lsn, self.lsn)
        if not self._config.transactions:
            return source, f'{self._now},"transaction":null'
        if self._order == 1 and not self._skip:
            topic, ts_ms = self._config.transaction_topic, self._time_us // 1000
            self.add([transaction_record(topic, "BEGIN", self._identity, ts_ms)])
        return source, (
            f'{self._now},"transaction":{{"id":"{self._identity}","total_order":{self._order},'
            f'"data_collection_order":{order}}}'
        )

    def _relation(self, lsn: int, data: bytes, at: int) -> None:
        before, now = self.relations.learn(pgoutput.relation(data, at))
        what = before and (before.digest, before.collection)
        if self.on_key is not None and what != (now.digest, now.collection):
            self.on_key(now, None)
        if not self._ignored and self._seen >= self._skip:
            self.know(before, now, now.source(self._moment, lsn, self.lsn))

    def know(self, before: Relation | None, now: Relation, source: str) -> bool:
        """Record a table's columns at this position, if readers do not know them yet; whether they have had
        another table's rows under its name."""
        renamed = self.known.meet(now.collection, now.relation)
        for name in renamed:
            self._forget(now if name == now.collection else self.relations.named(now, name))
        known = self.known.schemas.get(now.collection)
        if known in (None, now.digest):
            self.known.note_key(now.collection, now.key_form)
        if known != now.digest:
            topic = self._config.schema_topic
            self.add([schema_record(topic, before, now, source, first=known is None)])
            if known is None and now.outbox is None:
                self.on_unknown(now.collection)
            self.known.schemas[now.collection] = now.digest
        return now.collection in renamed

    def _forget(self, relation: Relation) -> None:
        self.known.forget(relation.collection)
        if relation.outbox is None:
            self._tell_gone(relation, self.lsn)
            self.on_renamed(relation.collection)

    def admit(self, relation: Relation, lsn: int) -> bool:
        """Before a row is written: where readers have the table's rows under keys of another form, they are
        told that all are gone, and all are read."""
        self._admitted, table = relation, relation.collection
        if not self.known.is_redefined(table, relation.key_form) or relation.outbox is not None:
            return False
        if not self.on_redefined(relation):
            return False
        self._tell_gone(relation, lsn)
        return True

    def _tell_gone(self, relation: Relation, lsn: int) -> None:
        """No event of the transaction: a run that begins within it does not tell it again."""
        source = relation.source(moment("incremental", time.time_ns() // 1000, None), lsn, self.lsn)
        self.add([relation.encoder.truncated(source, f'{now_text()},"transaction":null')])

    def _read_anew(self, table: str) -> bool:
        self.note("snapshot", read_anew(self._base.get("snapshot", {}), table))
        return True

    def message(self, message: LogicalMessage) -> None:
        """A logical message, of a transaction or between transactions."""
        if message.transactional and self._ignored:
            return
        if message.prefix.partition(".")[0] == OWN_PREFIX:
            if self.on_own_message is not None:
                self.on_own_message(message)
        elif message.transactional:
            self._seen += 1
            if self._seen > self._skip:
                self.add([self._messages.record(message, self._time_us, self.xid)])
        elif message.lsn >= self.lsn:
            self.add([self._messages.record(message, time.time_ns() // 1000, None)])
        if not message.transactional and message.lsn >= self.lsn and not self._in_transaction:
            # The server skips such a message when it is told to start behind its first byte.
            self.lsn = message.lsn + 1
