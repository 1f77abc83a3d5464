"""A capture without a broker, for tests of what SQLite does: batches and positions as the log would
hold them, together or not at all, and the table that a reader makes of them."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

from headwater.capture.change import Batch, Position, in_snapshot
from headwater.capture.config import CaptureConfig
from headwater.capture.sqlite import open_source
from headwater.capture.sqlite.source import SqliteSource


def database(path: Path, *statements: str, mode: str = "wal") -> sqlite3.Connection:
    """The application's connection: autocommit, foreign keys on."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA foreign_keys=ON")
    for statement in statements:
        connection.execute(statement)
    return connection


class Log:
    """What the log would have of capture `shop`."""

    def __init__(self, path: Path, *tables: str, **settings: Any) -> None:
        self.config = CaptureConfig("shop", f"sqlite:{path}", tables, **settings)
        self.position: Position | None = None
        self.batches: list[Batch] = []
        self.records: list[Any] = []

    def open(self) -> SqliteSource:
        return open_source(self.config)

    def take(self, source: SqliteSource, batch: Batch) -> None:
        self.position = json.loads(json.dumps(batch.position))
        self.batches.append(batch)
        self.records += batch.records
        source.acknowledge(self.position)

    def drain(self, batches_max: int = 10_000) -> Log:
        """Everything that is there now, by a run that ends then (or after so many batches)."""
        source = self.open()
        try:
            if in_snapshot(self.position):
                for batch in source.snapshot(self.position):
                    self.take(source, batch)
                    batches_max -= 1
                    if not batches_max:
                        return self
            assert self.position is not None
            for batch in source.stream(self.position):
                if not batch.records and batch.position == self.position:
                    return self
                self.take(source, batch)
                batches_max -= 1
                if not batches_max:
                    return self
        finally:
            source.close()
        return self

    def changes(self, topic: str = "shop.orders") -> list[tuple[str, Any, Any]]:
        """(op, before, after) of every change on a table's topic, tombstones left out."""
        return [
            (value["op"], value["before"], value["after"])
            for value in self.values(topic)
            if value is not None
        ]

    def values(self, topic: str) -> list[Any]:
        return [
            None if record[2] is None else json.loads(record[2])
            for record in self.records
            if record[0] == topic
        ]

    def clear(self) -> Log:
        self.records.clear()
        return self

    def reading(self, topic: str = "shop.orders") -> dict[str, Any]:
        """As `fold`, by a reader that takes every row as it comes."""
        rows: dict[str, Any] = {}
        for record in self.records:
            if record[0] != topic or record[2] is None:
                continue
            value, key = json.loads(record[2]), (record[1] or b"").decode()
            if value["op"] == "t":
                rows.clear()
            elif value["op"] == "d":
                rows.pop(key, None)
            else:
                rows[key] = value["after"]
        return rows

    def drain_rows(self) -> list[Any]:
        return list(self.drain().reading().values())

    def fold(self, topic: str = "shop.orders") -> dict[str, Any]:
        """The table that a reader makes. Nothing is told twice: what is created or read must not be
        there, and what is updated or deleted must be there as its before image says."""
        rows: dict[str, Any] = {}
        for record in self.records:
            if record[0] != topic or record[2] is None:
                continue
            value, key = json.loads(record[2]), (record[1] or b"").decode()
            if value["op"] == "t":
                rows.clear()
            elif value["op"] == "d":
                assert rows.pop(key) == value["before"]
            elif value["op"] in ("c", "r"):
                assert key not in rows, f"{key} is there already"
                rows[key] = value["after"]
            elif value["op"] == "u":
                assert rows[key] == value["before"]
                rows[key] = value["after"]
            else:
                raise AssertionError(value)
        return rows


def table(connection: sqlite3.Connection, name: str = "orders") -> list[Any]:
    """The table's rows as records show them, sorted."""
    cursor = connection.execute(f'SELECT * FROM "{name}"')
    names = [column[0] for column in cursor.description]
    return ordered(
        {
            name: {"blob": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
            for name, value in zip(names, row, strict=True)
        }
        for row in cursor
    )


def ordered(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: json.dumps(row))
