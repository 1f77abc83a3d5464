"""What a source hands over, collected; and the table that it makes, to compare with the database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from headwater.capture.change import Batch, Position
from headwater.capture.config import CaptureConfig
from headwater.capture.mysql.source import MariaDBSource
from headwater.capture.source import Finding
from tests.capture.mysql.server import MariaDB

STILL_S = 100.0


class Setting:
    """A database, and a capture of it that is driven by hand."""

    def __init__(self, server: MariaDB, name: str) -> None:
        self.server = server
        self.name = name
        self.position: Position | None = None
        self.records: list[tuple[str, Any, Any]] = []
        self.rows = 0
        self._sources: list[MariaDBSource] = []
        server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.name)

    def config(self, *tables: str, user: str = "root", **more: Any) -> CaptureConfig:
        # Nobody listens there: these tests look at what is handed over, not at a log.
        more = {"transactions": False, "bootstrap": "127.0.0.1:1", **more}
        url = f"{self.server.scheme}://{user}@127.0.0.1:{self.server.port}/{self.name}"
        return CaptureConfig(self.name, url, tables, **more)

    def source(self, config: CaptureConfig | None = None) -> MariaDBSource:
        source = MariaDBSource(config or self.config())
        self._sources.append(source)
        return source

    def snapshot(self, config: CaptureConfig | None = None, batches: int | None = None) -> None:
        """The first snapshot; `batches`: killed after so many."""
        source = self.source(config)
        for number, batch in enumerate(source.snapshot(self.position), 1):
            self._take(batch)
            if number == batches:
                break
        source.close()

    def stream(self, config: CaptureConfig | None = None) -> list[tuple[str, Any, Any]]:
        """All that is in the binary log now, after the position; what was new."""
        end = self.server.gtids()
        source = self.source(config)
        begin, moved = len(self.records), time.monotonic()
        assert self.position is not None
        for batch in source.stream(self.position):
            self._take(batch)
            if batch.position["gtid"] == end and "within" not in batch.position:
                break
            moved = time.monotonic() if batch.records else moved
            assert time.monotonic() - moved < STILL_S, (
                f"it stands still at {batch.position}, and should reach {end}"
            )
        source.close()
        return self.records[begin:]

    def take_all(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._take(batch)

    def _take(self, batch: Batch) -> None:
        self.position = json.loads(json.dumps(batch.position))
        self.rows += batch.rows
        for topic, key, value, *_ in batch.records:
            self.records.append((topic, _json(key), _json(value)))

    def changes(self, table: str) -> list[tuple[str, Any, Any]]:
        """(op, before, after) of a table's topic; tombstones left out."""
        return [
            (value["op"], value["before"], value["after"])
            for topic, _, value in self.records
            if topic == f"{self.name}.{table}" and value is not None
        ]

    def fold(self, table: str) -> dict[str, Any]:
        """The table that the changes make: the latest row per key."""
        rows: dict[str, Any] = {}
        for topic, key, value in self.records:
            if topic != f"{self.name}.{table}" or value is None:
                continue
            if value["op"] == "t":
                rows.clear()
            elif value["op"] == "d":
                rows.pop(json.dumps(key), None)
            else:
                rows[json.dumps(key)] = value["after"]
        return rows

    def as_snapshot(self, table: str) -> dict[str, Any]:
        """The table as a snapshot of now shows it."""
        other = Setting.__new__(Setting)
        other.server, other.name, other.records = self.server, self.name, []
        other.position, other.rows, other._sources = None, 0, []
        other.snapshot(self.config(table))
        return other.fold(table)

    def findings(self, **more: Any) -> dict[str, Finding]:
        return {found.name: found for found in self.source(self.config(**more)).check()}

    def close(self) -> None:
        for source in self._sources:
            source.close()
        if self.server.process is not None:
            self.server.execute(f"DROP DATABASE IF EXISTS {self.name}")


def _json(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)
