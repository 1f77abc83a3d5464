"""The two databases that both contestants capture: their server, the workload, how each is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from bench.capture import debezium
from tests.capture.mysql.server import MariaDB, require_server
from tests.capture.postgres.server import PostgresServer, postgres

TABLE = "orders"
NOTE = "a note of some length, as people write them"


class Database(Protocol):
    """One server with one database per contestant."""

    name: str

    def create(self, database: str, rows: int) -> None: ...
    def single(self, database: str, first: int, count: int) -> None:
        """So many transactions of one row each."""
        ...

    def bulk(self, database: str, first: int, count: int) -> None:
        """One transaction of so many rows."""
        ...

    def inserting(self, database: str) -> Any:
        """A context that gives a function which commits one row."""
        ...

    def url(self, database: str) -> str: ...
    def debezium_topic(self, database: str) -> str: ...
    def debezium(self, database: str, folder: Path, poll_ms: str) -> dict[str, str]: ...


class Postgres:
    name = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def create(self, database: str, rows: int) -> None:
        self._server.execute(f"CREATE DATABASE {database}")
        self._server.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, "
            "total numeric(12,2), placed timestamptz, paid boolean, note text)",
            "CREATE PROCEDURE one_by_one(first bigint, count int) LANGUAGE plpgsql AS $$ "
            "BEGIN FOR n IN 0 .. count - 1 LOOP INSERT INTO orders VALUES "
            f"(first + n, 'customer ' || n, n / 100.0, now(), n % 2 = 0, '{NOTE}'); COMMIT; "
            "END LOOP; END $$",
            database=database,
        )
        self.bulk(database, 1, rows)
        self._server.execute("ANALYZE orders", database=database)

    def single(self, database: str, first: int, count: int) -> None:
        call = f"CALL one_by_one({first}, {count})"
        self._server.execute("SET synchronous_commit = off", call, database=database)

    def bulk(self, database: str, first: int, count: int) -> None:
        self._server.execute(
            "INSERT INTO orders SELECT n, 'customer ' || n, n / 100.0, now(), n % 2 = 0, "
            f"'{NOTE}' FROM generate_series({first}, {first + count - 1}) n",
            database=database,
        )

    @contextmanager
    def inserting(self, database: str) -> Iterator[Callable[[int], None]]:
        with psycopg.connect(self._server.url(database), autocommit=True) as connection:
            yield lambda n: connection.execute("INSERT INTO orders VALUES (%s, 'x')", [n]) and None

    def url(self, database: str) -> str:
        return self._server.url(database)

    def debezium_topic(self, database: str) -> str:
        return f"{database}.public.{TABLE}"

    def debezium(self, database: str, folder: Path, poll_ms: str) -> dict[str, str]:
        return debezium.postgres_properties(
            database,
            self._server.port,
            database,
            f"public.{TABLE}",
            folder,
            poll_interval_ms=poll_ms,
        )


class Maria:
    name = "mariadb"

    def __init__(self, server: MariaDB) -> None:
        self._server = server

    def create(self, database: str, rows: int) -> None:
        self._server.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        self._server.execute(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT NOT NULL, "
            "total DECIMAL(12,2), placed DATETIME(6), paid BIT(1), note TEXT)",
            "CREATE PROCEDURE one_by_one(first BIGINT, count INT) BEGIN DECLARE n INT DEFAULT 0; "
            "WHILE n < count DO INSERT INTO orders VALUES "
            f"(first + n, CONCAT('customer ', n), n / 100, NOW(6), n % 2 = 0, '{NOTE}'); "
            "COMMIT; SET n = n + 1; END WHILE; END",
            database=database,
        )
        self.bulk(database, 1, rows)
        self._server.execute("ANALYZE TABLE orders", database=database)

    def single(self, database: str, first: int, count: int) -> None:
        self._server.execute(f"CALL one_by_one({first}, {count})", database=database)

    def bulk(self, database: str, first: int, count: int) -> None:
        self._server.execute(
            "INSERT INTO orders SELECT seq, CONCAT('customer ', seq), seq / 100, NOW(6), "
            f"seq % 2 = 0, '{NOTE}' FROM seq_{first}_to_{first + count - 1}",
            database=database,
        )

    @contextmanager
    def inserting(self, database: str) -> Iterator[Callable[[int], None]]:
        connection = self._server.connect(database)
        cursor = connection.cursor()

        def insert(n: int) -> None:
            cursor.execute("INSERT INTO orders (id, customer, note) VALUES (%s, 'x', '')", [n])

        try:
            yield insert
        finally:
            connection.close()

    def url(self, database: str) -> str:
        return f"mariadb://root@127.0.0.1:{self._server.port}/{database}"

    def debezium_topic(self, database: str) -> str:
        return f"{database}.{database}.{TABLE}"

    def debezium(self, database: str, folder: Path, poll_ms: str) -> dict[str, str]:
        return debezium.mariadb_properties(
            database,
            self._server.port,
            database,
            f"{database}.{TABLE}",
            folder,
            poll_interval_ms=poll_ms,
        )


@contextmanager
def database(name: str) -> Iterator[Database]:
    """A server of that kind, with room for a benchmark."""
    if name == "postgresql":
        settings = {"logical_decoding_work_mem": "64MB", "shared_buffers": "256MB", "fsync": "on"}
        with postgres(settings) as server:
            yield Postgres(server)
        return
    require_server()
    running = MariaDB("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")
    try:
        yield Maria(running)
    finally:
        running.close()
