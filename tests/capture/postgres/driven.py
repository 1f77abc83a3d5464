"""A capture of a PostgreSQL database that is driven by hand, without a log."""

from __future__ import annotations

import json
import time
from typing import Any

from headwater.capture.change import Batch
from headwater.capture.config import CaptureConfig
from headwater.capture.postgres.source import PostgresSource
from tests.capture.postgres.server import PostgresServer

STILL_S = 100.0


class Driven:
    """What a source has handed over so far, and where it is."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.options = options
        self.position: Any = None
        self.records: list[tuple[str, Any, Any]] = []

    def config(self, server: PostgresServer, *tables: str) -> CaptureConfig:
        url = server.url(self.name)
        return CaptureConfig(self.name, url, tables, transactions=False, options=self.options)

    def snapshot(self, server: PostgresServer, *tables: str, batches: int | None = None) -> None:
        """`batches`: killed after so many that are not of changes."""
        source = PostgresSource(self.config(server, *tables))
        number = 0
        try:
            source.topics()
            for batch in source.snapshot(self.position):
                self._take(batch)
                number += not batch.streamed
                if number == batches:
                    return
        finally:
            source.close()

    def stream(self, server: PostgresServer, *tables: str) -> None:
        """All that is committed now."""
        source = PostgresSource(self.config(server, *tables))
        end = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::int8"
        server.execute("CHECKPOINT", database=self.name)  # which flushes
        wanted = int(server.execute(end, database=self.name)[0][0])
        deadline = time.monotonic() + STILL_S
        try:
            for batch in source.stream(self.position):
                self._take(batch)
                source.acknowledge(batch.position)
                if batch.position["lsn"] >= wanted:
                    return
                assert time.monotonic() < deadline, (batch.position, wanted)
        finally:
            source.close()

    def _take(self, batch: Batch) -> None:
        self.position = json.loads(json.dumps(batch.position))
        for topic, key, value, *_ in batch.records:
            self.records.append(
                (topic, key and json.loads(key), None if value is None else json.loads(value))
            )

    def changes(self, table: str) -> list[tuple[str, Any]]:
        """(op, after) of a table's topic."""
        return [
            (value["op"], value["after"])
            for topic, _, value in self.records
            if topic == f"{self.name}.{table}" and value is not None
        ]

    def rows(self, table: str) -> list[Any]:
        return [after for _, after in self.changes(table)]
