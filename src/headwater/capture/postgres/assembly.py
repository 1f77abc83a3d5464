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
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

from headwater.capture.change import BATCH_BYTES, TRANSACTION_BYTES_MAX, Batch, Position, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import UNAVAILABLE, dumps, quote, transaction_record
from headwater.capture.outbox import OPTIONAL, REQUIRED, Router
from headwater.capture.postgres import pgoutput
from headwater.capture.postgres.pgoutput import LogicalMessage, Malformed
from headwater.capture.postgres.relations import Relation, Relations, moment, schema_record

_NUMBER = Struct(">I").unpack_from
INSERT, UPDATE, DELETE, TRUNCATE = 0x49, 0x55, 0x44, 0x54
RELATION, TYPE, MESSAGE, ORIGIN = 0x52, 0x59, 0x4D, 0x4F
RECENT_XIDS = 10_000
OWN_PREFIX = "headwater"
"""Logical messages of ours: watermarks and requests, not for readers."""


def now_text() -> str:
    """The moment of capture, as it follows the source block."""
    now = time.time_ns()
    return f',"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}'


class Assembly:
    """The records of the batch at hand, and the transaction that is being put together."""

    def __init__(self, config: CaptureConfig, relations: Relations, position: Position) -> None:
        self._config = config
        self.relations = relations
        self._base: Position = {k: v for k, v in position.items() if k not in ("lsn", "skip")}
        self._schemas: dict[str, str] = dict(position.get("schemas", {}))
        self.handed = position
        """The position of the last batch that was handed over."""
        self.lsn: int = position["lsn"]
        self._skip: int = position.get("skip", 0)
        self._records: list[Record] = []
        self._bytes = 0
        self._rows = 0
        self._in_transaction = False
        self._ignored = False
        self._seen = 0
        """Changes of this transaction so far, by which `skip` counts."""
        self._order = 0
        """Events of it so far, as readers count them."""
        self._outbox_prefix = config.option("outbox_prefix", "")
        self._outbox: Router | None = None
        if self._outbox_prefix:
            self._outbox = Router(config.name, self._outbox_prefix, (*REQUIRED, *OPTIONAL))
            relations.topics[self._outbox.dead_letters] = None
        self.recent_xids: deque[int] = deque(maxlen=RECENT_XIDS)
        self.on_own_message: Callable[[LogicalMessage], None] | None = None
        self.on_key: Callable[[Relation, bytes | None], None] | None = None
        """Told the key of every change (None: all keys), while an incremental snapshot wants to know."""

    # ── the batch ──────────────────────────────────────────────────────────────────────────────

    @property
    def position(self) -> Position:
        now: Position = {**self._base, "lsn": self.lsn, "schemas": self._schemas}
        skip = self._skip
        if self._in_transaction and not self._ignored:
            skip = max(skip, self._seen)
        if skip:
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
        # The position's own dictionary changes with the next schema: a copy is handed over.
        self.handed = {**self.position, "schemas": dict(self._schemas)}
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
        self._final_lsn, self._time_us, self._xid = final_lsn, time_us, xid
        self._identity = f"{xid}:{final_lsn}"
        self._seen = self._order = 0
        self._counts: dict[str, int] = {}
        self._now = now_text()
        self._moment = moment("false", time_us, xid)

    def commit(self, end_lsn: int) -> None:
        if not self._in_transaction:
            raise ValueError("the server committed a transaction that it had not begun")
        self._in_transaction = False
        self.recent_xids.append(self._xid)
        if self._ignored:
            return
        if self._counts and self._config.transactions:
            topic = self._config.transaction_topic
            ended = transaction_record(
                topic, "END", self._identity, self._time_us // 1000, self._counts
            )
            self.add([ended])
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
                self._truncate(lsn, self.relations.by_number[number])
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
        if kind == INSERT:
            records = [encoder.created(pgoutput.insert(data, at + 4, converters), source, rest)]
        elif kind == UPDATE:
            how, before, after = pgoutput.update(data, at + 4, converters)
            if how == "O" and UNAVAILABLE in after:
                if before is None:
                    raise ValueError("an update without the old row that it announced")
                # Under FULL the old row has every value: what did not change is taken from there.
                pairs = zip(before, after, strict=True)
                after = [old if new is UNAVAILABLE else new for old, new in pairs]
            if before is not None and encoder.moved(before, after):
                records = encoder.deleted(before, source, rest, after)
                source, rest = self._count(relation, lsn)  # it is two events to readers
                records.append(encoder.arrived(before, after, source, rest))
                self._seen -= 1
            else:
                records = encoder.updated(before, after, source, rest)
        else:
            _how, before = pgoutput.delete(data, at + 4, converters)
            records = encoder.deleted(before, source, rest)
        if self._seen > self._skip:
            self.add(records, 1)
        if self.on_key is not None:
            for record in records:
                self.on_key(relation, record[1])

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

    def _truncate(self, lsn: int, relation: Relation) -> None:
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
        if self.on_key is not None and before is not None and before.digest != now.digest:
            self.on_key(now, None)
        if not self._ignored and self._seen >= self._skip:
            self.know(before, now, now.source(self._moment, lsn, self.lsn))

    def know(self, before: Relation | None, now: Relation, source: str) -> None:
        """Record a table's columns at this position, if readers do not know them yet."""
        known = self._schemas.get(now.collection)
        if known != now.digest:
            topic = self._config.schema_topic
            self.add([schema_record(topic, before, now, source, first=known is None)])
            self._schemas = {**self._schemas, now.collection: now.digest}

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
                self.add([self._message_record(message, self._time_us, self._xid)])
        elif message.lsn >= self.lsn:
            self.add([self._message_record(message, time.time_ns() // 1000, None)])
        if not message.transactional and message.lsn >= self.lsn and not self._in_transaction:
            # The server skips such a message when it is told to start behind its first byte.
            self.lsn = message.lsn + 1

    def _message_record(self, message: LogicalMessage, time_us: int, xid: int | None) -> Record:
        if self._outbox is not None and message.prefix == self._outbox_prefix:
            event = self._outbox.message(message.content)
            self.relations.topics[event[0]] = None
            return event
        name = self._config.name
        value = (
            f'{{"op":"m"{now_text()},'
            f'"source":{{"connector":"postgresql","name":{quote(name)},"snapshot":"false",'
            f'"ts_ms":{time_us // 1000},"txId":{"null" if xid is None else xid},'
            f'"lsn":{message.lsn}}},'
            f'"message":{{"prefix":{quote(message.prefix)},'
            f'"content":"{b64encode(message.content).decode("ascii")}"}}}}'
        )
        return (f"{name}.message", dumps({"prefix": message.prefix}).encode(), value.encode())
