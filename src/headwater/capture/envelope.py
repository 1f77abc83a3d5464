"""Debezium's change envelope as JSON (`avro`: as Avro); sources call a table's encoder for every row.

    key    {"id":7}
    value  {"before":…, "after":…, "source":{…}, "transaction":{…}, "op":"c|u|d|r|t|m", "ts_ms":…}

With `schema`, both are wrapped as Kafka Connect's JSON converter does: {"schema":…,"payload":…}.

A row comes as one JSON fragment per column ('7', '"Ada"', 'null'), so that encoding a row is string
formatting by the table's template, and nothing is parsed or built twice. What varies little (the source
block, the transaction's part) comes as ready text. A column whose value the database did not send has
the fragment UNAVAILABLE, never null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as quote
from typing import Any, TypeAlias

from headwater.capture.change import BY_KEY, EVERY_PARTITION, Headers, Record
from headwater.capture.defaults import Default

__all__ = [
    "UNAVAILABLE",
    "UNAVAILABLE_TEXT",
    "Column",
    "Connect",
    "TableEncoder",
    "dumps",
    "envelope_schema",
    "key_schema",
    "quote",
    "transaction_record",
]

Connect: TypeAlias = dict[str, Any]
"""A schema in Kafka Connect's terms."""
UNAVAILABLE_TEXT = "__debezium_unavailable_value"
UNAVAILABLE = f'"{UNAVAILABLE_TEXT}"'
NULL = "null"


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A column as readers see it; `connect` is its schema in Kafka Connect's terms."""

    name: str
    connect: tuple[tuple[str, Any], ...] = (("type", "string"),)
    optional: bool = True
    default: Default = None
    """Of a column that must have a value, where the database gives it one."""
    stored: str = ""
    """The database's own type, where another one with the same schema writes the same value otherwise."""

    def field(self) -> Connect:
        own: Connect = {"optional": self.optional}
        if self.default is not None and not self.optional:
            own["default"] = self.default
        return {**dict(self.connect), **own, "field": self.name}


class TableEncoder:
    """One table at one moment of its schema: rows in, records out."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[int],
        *,
        schema: Connect | None = None,
        tombstones: bool = True,
    ) -> None:
        """`key`: places of the key's columns (none: records without key). `schema`: the fields of the
        source block in Connect's terms, where records are to carry their schema."""
        self.topic = topic
        self.columns = tuple(columns)
        self.key_places = tuple(key)
        self._row = _template([column.name for column in columns])
        self._key = _template([columns[place].name for place in key])
        self._tombstones = tombstones
        self._open, self._close = "", ""
        self._key_open, self._key_close = "", ""
        if schema is not None:
            self._open = f'{{"schema":{dumps(envelope_schema(topic, columns, schema))},"payload":'
            self._key_open = f'{{"schema":{dumps(key_schema(topic, columns, key))},"payload":'
            self._close = self._key_close = "}"

    def row(self, values: Sequence[str]) -> str:
        return self._row % tuple(values)

    def key(self, values: Sequence[str]) -> bytes | None:
        if not self.key_places:
            return None
        places = self.key_places
        filled = self._key % tuple([values[place] for place in places])
        return f"{self._key_open}{filled}{self._key_close}".encode()

    def key_prefix(self) -> str:
        """What every key begins with."""
        return self._key_open

    def created(self, after: Sequence[str], source: str, rest: str, op: str = "c") -> Record:
        """A row that is there now. `rest`: what follows the source block, from its comma on."""
        value = (
            f'{self._open}{{"before":null,"after":{self._row % tuple(after)},"source":{source},'
            f'"op":"{op}"{rest}}}{self._close}'
        )
        return (self.topic, self.key(after), value.encode())

    def moved(self, before: Sequence[str], after: Sequence[str]) -> bool:
        """Whether the row has another key now."""
        return any(before[place] != after[place] for place in self.key_places)

    def updated(
        self, before: Sequence[str] | None, after: Sequence[str], source: str, rest: str
    ) -> list[Record]:
        """A row that changed; one that moved to another key is deleted there and created here."""
        if before is not None and self.moved(before, after):
            gone = self.deleted(before, source, rest, after)
            return [*gone, self.arrived(before, after, source, rest)]
        return [(self.topic, self.key(after), self._value(before, after, source, "u", rest))]

    def deleted(
        self, before: Sequence[str], source: str, rest: str, after: Sequence[str] | None = None
    ) -> list[Record]:
        """A row that is gone: the event, then the tombstone that lets compaction forget the key.

        `after`: the row under its new key, where it moved there; `arrived` makes that record.
        """
        key = self.key(before)
        value = self._value(before, None, source, "d", rest)
        records: list[Record] = [(self.topic, key, value)]
        if after is not None:
            towards: Headers = [("__debezium.newkey", self.key(after))]
            records = [(self.topic, key, value, towards, BY_KEY)]
        if self._tombstones and key is not None:
            records.append((self.topic, key, None))
        return records

    def arrived(
        self, before: Sequence[str], after: Sequence[str], source: str, rest: str
    ) -> Record:
        """The row that moved, under its new key."""
        topic, key, value = self.created(after, source, rest)[:3]
        origin: Headers = [("__debezium.oldkey", self.key(before))]
        return (topic, key, value, origin, BY_KEY)

    def truncated(self, source: str, rest: str) -> Record:
        """All rows are gone: said in every partition, as it concerns every key."""
        value = self._value(None, None, source, "t", rest)
        return (self.topic, None, value, None, EVERY_PARTITION)

    def _value(
        self,
        before: Sequence[str] | None,
        after: Sequence[str] | None,
        source: str,
        op: str,
        rest: str,
    ) -> bytes:
        old = NULL if before is None else self._row % tuple(before)
        new = NULL if after is None else self._row % tuple(after)
        value = (
            f'{self._open}{{"before":{old},"after":{new},"source":{source},"op":"{op}"{rest}}}'
            f"{self._close}"
        )
        return value.encode()


def transaction_record(
    topic: str,
    status: str,
    identity: str,
    ts_ms: int,
    counts: dict[str, int] | None = None,
) -> Record:
    """BEGIN or END of a source transaction; END says how many events each table had."""
    shown = quote(identity)
    if counts is None:
        total, tables = "null", "null"
    else:
        total = str(sum(counts.values()))
        named = [
            f'{{"data_collection":{quote(name)},"event_count":{n}}}' for name, n in counts.items()
        ]
        tables = f"[{','.join(named)}]"
    value = (
        f'{{"status":"{status}","id":{shown},"event_count":{total},'
        f'"data_collections":{tables},"ts_ms":{ts_ms}}}'
    )
    return (topic, f'{{"id":{shown}}}'.encode(), value.encode())


def _template(names: Sequence[str]) -> str:
    fields = ",".join(f"{quote(name)}:".replace("%", "%%") + "%s" for name in names)
    return f"{{{fields}}}"


def _struct(
    columns: Sequence[Column], name: str, *, optional: bool, field: str | None = None
) -> Connect:
    shape: dict[str, Any] = {
        "type": "struct",
        "fields": [column.field() for column in columns],
        "optional": optional,
        "name": name,
    }
    if field is not None:
        shape["field"] = field
    return shape


def key_schema(topic: str, columns: Sequence[Column], key: Sequence[int]) -> Connect:
    """The key's fields in Kafka Connect's terms."""
    return _struct([columns[place] for place in key], f"{topic}.Key", optional=False)


def envelope_schema(topic: str, columns: Sequence[Column], source: Connect) -> Connect:
    """The value's fields in Kafka Connect's terms."""
    transaction = {
        "type": "struct",
        "fields": [
            {"type": "string", "optional": False, "field": "id"},
            {"type": "int64", "optional": False, "field": "total_order"},
            {"type": "int64", "optional": False, "field": "data_collection_order"},
        ],
        "optional": True,
        "name": "event.block",
        "version": 1,
        "field": "transaction",
    }
    return {
        "type": "struct",
        "fields": [
            _struct(columns, f"{topic}.Value", optional=True, field="before"),
            _struct(columns, f"{topic}.Value", optional=True, field="after"),
            {**source, "field": "source"},
            transaction,
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
            {"type": "int64", "optional": True, "field": "ts_us"},
            {"type": "int64", "optional": True, "field": "ts_ns"},
        ],
        "optional": False,
        "name": f"{topic}.Envelope",
        "version": 1,
    }
