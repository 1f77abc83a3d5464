"""Events to records: SQLite's values as JSON, the source block, one encoder per shape.

Called by `drain`. SQLite types values, not columns, so the JSON says what was stored:

    INTEGER   7                     TEXT   "Ada"                       NULL   null
    REAL      7.0 (always with . or e; 9.0e+999 is infinity)
    BLOB      base64 in a column declared BLOB, else {"blob": base64}
    TEXT in a column declared BLOB: {"text": "…"}
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from typing import Any

from headwater import __version__
from headwater.capture.change import Record
from headwater.capture.config import CaptureConfig
from headwater.capture.defaults import constant
from headwater.capture.encoders import table_encoder
from headwater.capture.envelope import Column, dumps, quote
from headwater.capture.sqlite.changes import Event, Values
from headwater.capture.sqlite.shape import ColumnShape, Shape

UNIX_EPOCH_DAYS = 2440587.5
_DAY_MS = 86_400_000
_SOURCE_FIELDS = (
    ("version", "string"),
    ("connector", "string"),
    ("name", "string"),
    ("ts_ms", "int64"),
    ("ts_us", "int64"),
    ("ts_ns", "int64"),
    ("snapshot", "string"),
    ("db", "string"),
    ("table", "string"),
    ("seq", "int64"),
    ("txId", "string"),
)


def moment_ms(at: float) -> int:
    """SQLite's julianday as milliseconds since 1970."""
    return round((at - UNIX_EPOCH_DAYS) * _DAY_MS)


def affinity(declared: str) -> str:
    """SQLite's rules (datatype3.html, 3.1), with DATE, TIME and BOOL told from other NUMERIC."""
    text = declared.upper()
    if "INT" in text:
        return "int64"
    if any(part in text for part in ("CHAR", "CLOB", "TEXT")):
        return "string"
    if "BLOB" in text:
        return "bytes"
    if any(part in text for part in ("REAL", "FLOA", "DOUB")):
        return "double"
    if not text or "DATE" in text or "TIME" in text or text == "ANY":
        return "string"
    return "int64" if "BOOL" in text else "double"


def _real(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "9.0e+999" if value > 0 else "-9.0e+999"
    return repr(value)


def _base64(value: bytes) -> str:
    return f'"{b2a_base64(value, newline=False).decode()}"'


_PLAIN: dict[type, Callable[[Any], str]] = {
    int: str,
    float: _real,
    str: quote,
    type(None): lambda _none: "null",
    bytes: lambda value: f'{{"blob":{_base64(value)}}}',
}
_IN_BLOB: dict[type, Callable[[Any], str]] = {
    **_PLAIN,
    str: lambda value: f'{{"text":{quote(value)}}}',
    bytes: _base64,
}


class ShapeEncoder:
    """One shape of one table: its rows to JSON fragments, its events to records."""

    def __init__(self, shape: Shape, config: CaptureConfig, topic: str, database: str) -> None:
        self.shape = shape
        self.topic = topic
        self._name, self._database = quote(config.name), quote(database)
        self._table = quote(shape.table)
        lead = (
            [] if shape.rowid is None else [ColumnShape(shape.rowid, "INTEGER", True, None, False)]
        )
        shown = (*lead, *shape.columns)[shape.shown]
        self._start = shape.shown.start
        self._writers = [
            _IN_BLOB if affinity(column.declared) == "bytes" else _PLAIN for column in shown
        ]
        self._uniform = all(writers is _PLAIN for writers in self._writers)
        self._encoder = table_encoder(
            config,
            topic,
            [
                Column(
                    column.name,
                    (("type", affinity(column.declared)),),
                    not column.not_null and place + self._start not in shape.key,
                    constant(column.default, {"type": affinity(column.declared)}),
                )
                for place, column in enumerate(shown)
            ],
            [place - self._start for place in shape.key],
            source_schema(),
        )

    def fragments(self, values: Values) -> list[str]:
        """A row as JSON, value by value."""
        if self._start:
            values = values[self._start :]
        if self._uniform:
            return [_PLAIN[type(value)](value) for value in values]
        return [
            writers[type(value)](value)
            for writers, value in zip(self._writers, values, strict=True)
        ]

    def source(self, event: Event, snapshot: str, transaction: str | None) -> str:
        shown = "null" if transaction is None else f'"{transaction}"'
        ms = moment_ms(event.at)
        return (
            f'{{"version":"{__version__}","connector":"sqlite","name":{self._name},'
            f'"ts_ms":{ms},"ts_us":{ms}000,"ts_ns":{ms}000000,'
            f'"snapshot":"{snapshot}","db":{self._database},'
            f'"table":{self._table},"seq":{event.seq},"txId":{shown}}}'
        )

    def records(
        self, event: Event, rest: str, *, snapshot: str = "false", transaction: str | None = None
    ) -> Sequence[Record]:
        """The event's records: two with a tombstone, three where a row moves to another key."""
        source = self.source(event, snapshot, transaction)
        op, before, after = event.op, event.before, event.after
        if op == "t":
            return [self._encoder.truncated(source, rest)]
        if op == "d":
            assert before is not None
            return self._encoder.deleted(self.fragments(before), source, rest)
        assert after is not None
        if op == "u":
            assert before is not None
            return self._encoder.updated(
                self.fragments(before), self.fragments(after), source, rest
            )
        return [self._encoder.created(self.fragments(after), source, rest, op)]


def source_schema() -> dict[str, Any]:
    """The source block in Kafka Connect's terms."""
    return {
        "type": "struct",
        "fields": [
            {"type": kind, "optional": name == "txId", "field": name}
            for name, kind in _SOURCE_FIELDS
        ],
        "optional": False,
        "name": "headwater.sqlite.Source",
    }


def schema_record(topic: str, capture: str, database: str, event: Event, shape: Shape) -> Record:
    """A change of a table's shape, at its place among the changes."""
    assert event.after is not None
    kind, sql, renamed = event.after
    columns = [
        {
            "name": column.name,
            "typeName": column.declared,
            "optional": not column.not_null,
            "defaultValueExpression": column.default,
            "generated": column.generated,
        }
        for column in shape.columns
    ]
    value = {
        "source": {
            "connector": "sqlite",
            "name": capture,
            "ts_ms": moment_ms(event.at),
            "db": database,
            "table": shape.table,
            "seq": event.seq,
        },
        "ts_ms": moment_ms(event.at),
        "databaseName": database,
        "schemaName": None,
        "ddl": sql or None,
        "tableChanges": [
            {
                "type": kind,
                "id": quote(shape.table),
                "renamedColumns": json.loads(renamed),
                "table": {
                    "primaryKeyColumnNames": [shape.names[place] for place in shape.key],
                    "columns": columns,
                },
            }
        ],
    }
    return (topic, dumps({"databaseName": database}).encode(), dumps(value).encode())
