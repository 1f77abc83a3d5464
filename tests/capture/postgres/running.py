"""A capture that runs in a thread, against a database of its own."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner
from tests.capture.core.reading import Read, fold, read
from tests.capture.postgres.server import PostgresServer

DEADLINE_S = 100.0


def eventually(what: str, condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """What the condition gives, once it gives something."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"within {deadline_s:.0f} s: {what}"
        time.sleep(0.02)
    return value


class Setting:
    """A database, a name, and what a test does with them."""

    def __init__(self, server: PostgresServer, bootstrap: str, name: str) -> None:
        self.server = server
        self.bootstrap = bootstrap
        self.name = name
        self.url = server.url(name)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.name)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url)

    def config(self, *tables: str, **more: Any) -> CaptureConfig:
        return CaptureConfig(self.name, self.url, tables, bootstrap=self.bootstrap, **more)

    @contextlib.contextmanager
    def running(self, config: CaptureConfig, **more: Any) -> Iterator[Runner]:
        """The capture, from here to the end of the block; its failure is the test's."""
        runner = Runner(config, more.pop("say", lambda _sentence: None), **more)
        failures: list[BaseException] = []

        def go() -> None:
            try:
                runner.run()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=go, name="capture")
        thread.start()
        try:
            eventually(
                "the capture streams",
                lambda: failures or runner.status.phase == "streaming",
            )
            yield runner
        finally:
            runner.stop()
            thread.join(60)
        if failures:
            raise failures[0]

    def read(self, table: str) -> list[Read]:
        return read(self.bootstrap, f"{self.name}.{table}")

    def caught_up(self, runner: Runner) -> None:
        """Wait until everything that is committed now is in the log."""
        row = self.execute("SELECT pg_logical_emit_message(false, 'mark', 'x') - '0/0'::pg_lsn")
        mark = int(row[0][0])

        def there() -> bool:
            position = runner.status.position
            return position is not None and position["lsn"] >= mark

        # A message that is not of a transaction waits in memory until somebody flushes the WAL.
        self.execute("CREATE TABLE IF NOT EXISTS flushed (n int)", "INSERT INTO flushed VALUES (1)")
        eventually("the capture has caught up", there)

    def wait_for(self, table: str, count: int) -> list[Read]:
        """So many records of the topic, at least."""
        return eventually(
            f"{count} records in {table}",
            lambda: (found := self.read(table)) and len(found) >= count and found,
        )

    def fold(self, table: str) -> dict[str, Any]:
        return fold(self.read(table))

    def remove(self) -> None:
        remove_database(self.server, self.name)


def remove_database(server: PostgresServer, name: str) -> None:
    """With its slots; a server may take a moment to notice that their reader has gone."""

    def gone() -> bool:
        with contextlib.suppress(psycopg.Error):
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE datname = '{name}' AND pid <> pg_backend_pid()",
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                f"WHERE database = '{name}'",
                f"DROP DATABASE {name} WITH (FORCE)",
            )
            return True
        return False

    eventually(f"the database {name} is removed", gone)


def key(**columns: Any) -> str:
    """A key as `fold` has it."""
    return json.dumps(columns)
