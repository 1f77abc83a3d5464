"""Tables as the stream describes them: how to decode a row of this moment, and how to encode it.

Called by `assembly` for each relation message, and by `snapshot` for each table. A new description
replaces the old one from that message on, never earlier: rows are decoded with the schema of their
moment.
"""

from __future__ import annotations

import hashlib
import json
import time
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater import __version__
from headwater.capture import evolution
from headwater.capture.change import Record
from headwater.capture.config import CaptureConfig
from headwater.capture.encoders import table_encoder
from headwater.capture.envelope import Column, TableEncoder, dumps, quote
from headwater.capture.key_forms import key_form
from headwater.capture.outbox import Router
from headwater.capture.postgres import pgoutput
from headwater.capture.postgres.catalog import Catalog, Table
from headwater.capture.postgres.connection import identifier, literal
from headwater.capture.postgres.pgoutput import RelationColumn, RelationMessage
from headwater.capture.postgres.types import Converter
from headwater.capture.topic_names import TopicOwners, topic_of

BYTEA = 17
_ALIKE = frozenset((20, 21, 23, 25, 1043))
"""Integers, text and varchar: of whatever width, a value is written the same."""

SOURCE_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        *(
            {"type": "string", "optional": False, "field": f}
            for f in ("version", "connector", "name")
        ),
        {"type": "int64", "optional": False, "field": "ts_ms"},
        {"type": "string", "optional": True, "field": "snapshot"},
        {"type": "string", "optional": False, "field": "db"},
        {"type": "string", "optional": True, "field": "sequence"},
        {"type": "int64", "optional": True, "field": "ts_us"},
        {"type": "int64", "optional": True, "field": "ts_ns"},
        *({"type": "string", "optional": False, "field": f} for f in ("schema", "table")),
        *({"type": "int64", "optional": True, "field": f} for f in ("txId", "lsn", "xmin")),
        {"type": "string", "optional": True, "field": "origin"},
        {"type": "int64", "optional": True, "field": "origin_lsn"},
    ],
    "optional": False,
    "name": "io.debezium.connector.postgresql.Source",
}


@dataclass(frozen=True)
class Relation:
    """One table at one moment."""

    relation: int
    collection: str
    columns: tuple[RelationColumn, ...]
    converters: tuple[Converter, ...]
    encoder: TableEncoder
    source_head: str
    """The source block up to what varies."""
    digest: str
    key_form: str
    outbox: Router | None = None
    """Set where the table's rows are events."""
    deferrable: bool = False
    """Two rows may have one key until the transaction ends."""

    def event(self, values: Sequence[str], *, updated: bool = False) -> Record:
        """A row of the outbox as the event that it is."""
        assert self.outbox is not None
        plain = [
            b64decode(value) if column.type_id == BYTEA and isinstance(value, str) else value
            for column, value in zip(self.columns, map(json.loads, values), strict=True)
        ]
        return self.outbox.updated(plain) if updated else self.outbox.inserted(plain)

    def where(self, data: bytes, at: int) -> str:
        """The key of a row as the server sent it, in SQL."""
        row, _ = pgoutput.row(data, at, [bytes.decode] * len(self.columns))
        places = self.encoder.key_places
        names = ", ".join(identifier(self.columns[place].name) for place in places)
        return f"({names}) = ({', '.join(literal(row[place]) for place in places)})"

    def source(self, moment: str, lsn: int, before: int) -> str:
        """The source block; `before`: where the last transaction before this one had ended."""
        return (
            f'{self.source_head}{moment},"lsn":{lsn},'
            f'"sequence":"[\\"{before}\\",\\"{lsn}\\"]","xmin":null,"origin":null,"origin_lsn":null}}'
        )


def moment(snapshot: str, time_us: int, xid: int | None) -> str:
    """What the source blocks of one transaction have in common."""
    return (
        f',"snapshot":"{snapshot}","ts_ms":{time_us // 1000},"ts_us":{time_us},'
        f'"ts_ns":{time_us}000,"txId":{"null" if xid is None else xid}'
    )


def now_text() -> str:
    """The moment of capture, as it follows the source block."""
    now = time.time_ns()
    return f',"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}'


def topic_of_table(capture: str, namespace: str, name: str) -> str:
    return topic_of(capture, name if namespace == "public" else f"{namespace}.{name}")


class Relations:
    """The relations of one stream, by number."""

    def __init__(self, config: CaptureConfig, database: str, catalog: Catalog) -> None:
        self._config = config
        self._database = database
        self._catalog = catalog
        self.by_number: dict[int, Relation] = {}
        self.topics: dict[str, None] = {}
        """Of every table that was met, in that order."""
        self._owners = TopicOwners()

    def topic(self, namespace: str, name: str) -> str:
        return topic_of_table(self._config.name, namespace, name)

    def learn(self, message: RelationMessage) -> tuple[Relation | None, Relation]:
        """Take a relation message; the relation as it was, where it is known, and as it is."""
        before = self.by_number.get(message.relation)
        deferrable = False
        if message.identity in ("f", "n"):
            # FULL marks every column, NOTHING none; readers want the primary key. It is that of now: where
            # it was redefined since, rows are read again that all have the new one.
            names, deferrable = self._catalog.primary_key(message.relation)
        else:
            names = {column.name for column in message.columns if column.in_identity}
        known = {(c.name, c.type_id, c.modifier) for c in before.columns} if before else set()
        if any((c.name, c.type_id, c.modifier) not in known for c in message.columns):
            self._catalog.forget_types()
        relation = self._make(
            message.relation, message.namespace, message.name, message.columns, names
        )
        relation = replace(relation, deferrable=deferrable and message.identity == "f")
        self.by_number[message.relation] = relation
        return before, relation

    def named(self, relation: Relation, collection: str) -> Relation:
        """The same table under a name that it had."""
        namespace, _, name = collection.partition(".")
        key = {relation.columns[place].name for place in relation.encoder.key_places}
        return self._make(relation.relation, namespace, name, relation.columns, key)

    def of_table(self, table: Table) -> Relation:
        """The same from the catalogue, for a snapshot."""
        not_null = {column.name for column in table.columns if column.not_null}
        return self._make(
            table.relation,
            table.namespace,
            table.name,
            table.relation_columns(),
            set(table.key()),
            not_null,
        )

    def _make(
        self,
        number: int,
        namespace: str,
        name: str,
        columns: Sequence[RelationColumn],
        key: set[str],
        not_null: set[str] | None = None,
    ) -> Relation:
        infos = [self._catalog.type_info(column.type_id) for column in columns]
        # The stream does not say NOT NULL; only a key's columns surely have a value.
        required = key | (not_null or set()) if self._config.schema else key
        shown = [
            Column(column.name, info.connect, column.name not in required, None, _stored(column))
            for column, info in zip(columns, infos, strict=True)
        ]
        places = [place for place, column in enumerate(columns) if column.name in key]
        topic = self.topic(namespace, name)
        if outbox_place(self._config) != (namespace, name):
            self._claim(topic, f"{namespace}.{name}", number)
        self.topics[topic] = None
        encoder = table_encoder(self._config, topic, shown, places, SOURCE_SCHEMA)
        head = (
            f'{{"version":"{__version__}","connector":"postgresql","name":{quote(self._config.name)},'
            f'"db":{quote(self._database)},"schema":{quote(namespace)},"table":{quote(name)}'
        )
        outbox = None
        if outbox_place(self._config) == (namespace, name):
            outbox = Router(self._config.name, name, [column.name for column in columns])
            self.topics.pop(topic, None)
            self.topics[outbox.dead_letters] = None
        described = dumps([[c.name, c.type_id, c.modifier, c.name in key] for c in columns])
        return Relation(
            number,
            f"{namespace}.{name}",
            tuple(columns),
            tuple(info.convert for info in infos),
            encoder,
            head,
            hashlib.sha256(described.encode()).hexdigest()[:12],
            key_form(encoder),
            outbox,
        )

    def _claim(self, topic: str, table: str, number: int) -> None:
        """Nobody says in the stream that a table was dropped or has another name: the catalogue does."""
        owner = self._owners.owner(topic)
        if owner is not None and owner != (number, table):
            other, name = owner
            if isinstance(other, int) and self._catalog.name_of(other) != name:
                self._owners.release(topic)
        self._owners.claim(topic, table, number)


def _stored(column: RelationColumn) -> str:
    return "" if column.type_id in _ALIKE else f"{column.type_id}:{column.modifier}"


def schema_record(
    topic: str, before: Relation | None, now: Relation, source: str, *, first: bool
) -> Record:
    """A table's columns from this position on; with what changed, where that is known."""
    changes = None
    if before is not None:
        changes = evolution.changes(
            {column.name: (column.type_id, column.modifier) for column in before.columns},
            {column.name: (column.type_id, column.modifier) for column in now.columns},
        )
    shown = [
        {**column.field(), "type_id": described.type_id, "modifier": described.modifier}
        for column, described in zip(now.encoder.columns, now.columns, strict=True)
    ]
    value = (
        f'{{"table":{quote(now.collection)},"topic":{quote(now.encoder.topic)},'
        f'"change":"{"CREATE" if first else "ALTER"}","columns":{dumps(shown)},'
        f'"key":{dumps([now.encoder.columns[place].name for place in now.encoder.key_places])},'
        f'"changes":{dumps(changes)},"source":{source},"ts_ms":{int(time.time() * 1000)}}}'
    )
    return (topic, dumps({"table": now.collection}).encode(), value.encode())


def outbox_place(config: CaptureConfig) -> tuple[str, str] | None:
    """The outbox as (schema, name)."""
    if config.outbox is None:
        return None
    schema, _, table = config.outbox.rpartition(".")
    return schema or "public", table
