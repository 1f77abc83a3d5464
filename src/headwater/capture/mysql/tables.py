"""The captured tables: by what their table maps say, with decoder and encoder ready.

Used by `assembly` for every table map and by `snapshot`. A table that changes gets a new entry; the
old one serves the rows before. Which tables are captured is decided here.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from headwater.capture import evolution
from headwater.capture.change import Record
from headwater.capture.config import CaptureConfig
from headwater.capture.encoders import table_encoder
from headwater.capture.envelope import dumps, quote
from headwater.capture.key_forms import key_form
from headwater.capture.mysql import schema, table_map, values
from headwater.capture.mysql.columns import Description, Style
from headwater.capture.mysql.flavor import Flavor, source_schema
from headwater.capture.mysql.outbox_rows import Outbox
from headwater.capture.mysql.rows import RowDecoder
from headwater.capture.mysql.schema import Table
from headwater.capture.mysql.selection import wanted_tables, without
from headwater.capture.mysql.system_versions import CurrentRows, as_shown
from headwater.capture.topic_names import shared, topic_of

REMEMBERED_MAX = 1000


VERSION = version("headwater")


class CapturedTable:
    """One table at one moment of its schema."""

    def __init__(
        self,
        config: CaptureConfig,
        database: str,
        name: str,
        columns: Sequence[Description],
        key: Sequence[int],
        style: Style,
        transactional: bool,
        connector: str = "mariadb",
        decoder: CurrentRows | None = None,
    ) -> None:
        self.name = name
        self.topic = topic_of(config.name, name)
        self.descriptions = tuple(columns)
        self.key = tuple(key)
        self.transactional = transactional
        self.fields = tuple(values.field(column, style) for column in columns)
        self.decoder = decoder or RowDecoder(self.fields)
        shown = [field.column for field in self.fields]
        self.encoder = table_encoder(config, self.topic, shown, self.key, source_schema(connector))
        self.key_form = key_form(self.encoder)
        # The parts of the source block that stay the same: before and after what varies.
        self.source_parts = (
            f'{{"version":"{VERSION}","connector":"{connector}","name":{quote(config.name)},"ts_ms":',
            (
                f'"db":{quote(database)},"sequence":null,"ts_us":',
                f'"table":{quote(name)},"server_id":',
            ),
        )
        self.outbox: Outbox | None = None
        if name == config.outbox:
            self.outbox = Outbox(config.name, name, self.fields)
        shape = [[*column.wire, *_shown(column)] for column in columns]
        self.digest = f"{zlib.crc32(json.dumps([shape, self.key]).encode()):08x}"

    def schema_record(
        self, topic: str, database: str, before: CapturedTable | None, source: str, ts_ms: int
    ) -> Record:
        """The table's columns from this position on; with what changed, where that is known."""
        collection = f"{database}.{self.name}"
        shown = [
            {**field.column.field(), "wire": list(column.wire), **dict(_described(column))}
            for field, column in zip(self.fields, self.descriptions, strict=True)
        ]
        value = (
            f'{{"table":{quote(collection)},"topic":{quote(self.topic)},'
            f'"change":"{"CREATE" if before is None else "ALTER"}","columns":{dumps(shown)},'
            f'"key":{dumps([self.descriptions[place].name for place in self.key])},'
            f'"changes":{dumps(self._changes(before))},"ddl":null,"source":{source},"ts_ms":{ts_ms}}}'
        )
        return (topic, dumps({"table": collection}).encode(), value.encode())

    def _changes(self, before: CapturedTable | None) -> dict[str, Any] | None:
        if before is None:
            return None
        return evolution.changes(
            {column.name: column for column in before.descriptions},
            {column.name: column for column in self.descriptions},
        )


def _shown(column: Description) -> list[Any]:
    text = (column.name, column.nullable, column.unsigned, column.charset, column.special)
    return [*text, list(column.members)]


def _described(column: Description) -> list[tuple[str, Any]]:
    return [
        (name, value)
        for name in ("unsigned", "charset", "members", "special")
        if (value := getattr(column, name))
    ]


class Tables:
    """Which tables are captured, and how each looks by the latest table map."""

    folds_names = False
    """Whether the server writes names small, whatever a statement says."""

    def __init__(
        self,
        config: CaptureConfig,
        database: str,
        now: Mapping[str, Table],
        charset_names: Mapping[int, str],
        style: Style,
        flavor: Flavor,
    ) -> None:
        self._config = config
        self._set_aside = without(config)
        self._flavor = flavor
        self.database = database
        self.now = dict(now)
        self._charset_names = charset_names
        self._style = style
        self._by_map: dict[bytes, CapturedTable | None] = {}
        self.latest: dict[str, CapturedTable] = {}
        self.trusted: dict[str, Table] = {}
        """Tables that surely look so at the place that is read now; for rows that do not say it."""
        self._used: set[str] = set()
        self.event_topics: set[str] = set()
        self._check_topics()

    def _check_topics(self) -> None:
        seen: dict[str, str] = {}
        for name in self.names():
            topic = topic_of(self._config.name, name)
            if (other := seen.setdefault(topic, name)) != name:
                raise shared(topic, other, name)

    def wants(self, database: str, table: str) -> bool:
        if database != self.database or table in self._set_aside:
            return False
        return not self._config.tables or table in wanted_tables(self._config)

    def names(self) -> list[str]:
        """Those there are now, and those that there were in what was read."""
        return sorted({*self.now, *self._used, *wanted_tables(self._config)})

    def topic(self, name: str) -> str:
        topic = topic_of(self._config.name, name)
        if name not in self._used:
            for other in {*self.now} - {name} if name in self.now else ():
                if topic_of(self._config.name, other) == topic:  # made since the start
                    raise shared(topic, other, name)
            self._used.add(name)
        return topic

    def topics(self) -> list[str]:
        """Where records go; an outbox has the topics that its rows have named so far."""
        outbox = self._config.outbox
        return [*(self.topic(name) for name in self.names() if name != outbox), *self.event_topics]

    def emptied(self, name: str, source: str, rest: str) -> Record:
        """The record of a truncate; the table itself may be gone, and its columns unknown."""
        known = self.latest.get(name)
        if known is not None:
            return known.encoder.truncated(source, rest)
        encoder = table_encoder(
            self._config, self.topic(name), [], [], source_schema(self._flavor.connector)
        )
        return encoder.truncated(source, rest)

    def refresh(self, now: Mapping[str, Table]) -> None:
        """The server was asked again, as a statement changed tables."""
        self.now = dict(now)
        self._by_map.clear()

    def trust(self, schemas: Mapping[str, str]) -> None:
        """Those that still look as readers know them (by their digests in a position)."""
        self.trusted = {
            name: table
            for name, table in self.now.items()
            if name in schemas and self.captured(table).digest == schemas[name]
        }

    def source_block(
        self,
        table: str | None,
        ts_ms: int,
        server: int,
        gtid: str,
        file: str,
        snapshot: str = "false",
    ) -> tuple[str, str]:
        """Debezium's source block up to `pos`, and what follows `row`."""
        head = (
            f'{{"version":"{VERSION}","connector":"{self._flavor.connector}",'
            f'"name":{quote(self._config.name)},"ts_ms":{ts_ms},'
            f'"snapshot":"{snapshot}","db":{quote(self.database)},"sequence":null,'
            f'"ts_us":{ts_ms}000,"ts_ns":{ts_ms}000000,'
            f'"table":{"null" if table is None else quote(table)},'
            f'"server_id":{server},"gtid":"{gtid}","file":{quote(file)},"pos":'
        )
        return head, ',"thread":null,"query":null}'

    def by_map(self, body: bytes) -> CapturedTable | None:
        """The table of a table map's bytes from the database's name on; None if it is not captured."""
        try:
            return self._by_map[body]
        except KeyError:
            pass
        if len(self._by_map) >= REMEMBERED_MAX:
            self._by_map.clear()
        seen = table_map.parse(body, self._flavor.dialect)
        table = None
        if self.wants(seen.database, seen.table):
            table = self._known(seen)
        self._by_map[body] = table
        return table

    def _known(self, seen: table_map.TableMap) -> CapturedTable:
        self._used.add(seen.table)
        now = self.now.get(seen.table)
        logged = schema.describe(seen, now, self._charset_names, self.trusted.get(seen.table))
        shown, row_end = (now.columns, now.row_end) if now is not None else ((), "")
        columns, key, decoder = as_shown(logged, shown, row_end, self._style)
        transactional = now is None or now.engine.lower() in ("innodb", "rocksdb", "tokudb")
        table = self._table(seen.table, columns, key, transactional, decoder)
        latest = self.latest.get(seen.table)
        if latest is not None and latest.digest == table.digest:
            return latest
        return table

    def as_now(self, name: str) -> CapturedTable:
        """The table as the server describes it, for a snapshot."""
        return self.captured(self.now[name])

    def captured(self, now: Table) -> CapturedTable:
        return self._table(now.name, now.columns, now.key, True)

    def _table(
        self,
        name: str,
        columns: Sequence[Description],
        key: Sequence[int],
        transactional: bool,
        decoder: CurrentRows | None = None,
    ) -> CapturedTable:
        known = self._config, self.database, name, columns, key, self._style, transactional
        return CapturedTable(*known, self._flavor.connector, decoder)
