"""The databases that the contestants capture: their server, the workload, how each is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import psycopg

from bench.capture import debezium
from tests.capture.mongodb.mongod import Mongod
from tests.capture.mysql.mysql_server import MySQL
from tests.capture.mysql.server import MariaDB, require_server
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.servers.builds import MYSQL_9

TABLE = "orders"
NOTE = "a note of some length, as people write them"


_MARIADB, _MYSQL = debezium.mariadb_properties, debezium.mysql_properties


class Database(Protocol):
    """One server with one database per contestant."""

    name: str
    settings: str
    """More of the capture's section."""
    peer: bool
    """Whether Debezium captures it too."""

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
    settings, peer = "", True

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

            def insert(number: int) -> None:
                connection.execute("INSERT INTO orders VALUES (%s, 'x')", [number])

            yield insert

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
    settings, peer = "", True

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
        return f"{self.name}://root@127.0.0.1:{self._server.port}/{database}"

    def debezium_topic(self, database: str) -> str:
        return f"{database}.{database}.{TABLE}"

    def debezium(self, database: str, folder: Path, poll_ms: str) -> dict[str, str]:
        return self._properties(
            database,
            self._server.port,
            database,
            f"{database}.{TABLE}",
            folder,
            poll_interval_ms=poll_ms,
        )

    _properties = staticmethod(_MARIADB)


class My(Maria):
    """The same statements, but for the numbers, which it makes in another way."""

    name = "mysql"

    def bulk(self, database: str, first: int, count: int) -> None:
        self._server.execute(
            "SET SESSION cte_max_recursion_depth = 10000000",
            f"INSERT INTO orders WITH RECURSIVE i (n) AS (SELECT {first} UNION ALL "
            f"SELECT n + 1 FROM i WHERE n < {first + count - 1}) SELECT n, CONCAT('customer ', n), "
            f"n / 100, NOW(6), n % 2 = 0, '{NOTE}' FROM i",
            database=database,
        )

    _properties = staticmethod(_MYSQL)


class Mongo:
    name = "mongodb"
    settings, peer = 'documents = "object"\n', False

    def __init__(self, server: Mongod) -> None:
        self._server = server

    def create(self, database: str, rows: int) -> None:
        self._server.client[database].create_collection(TABLE)
        self.bulk(database, 1, rows)

    def single(self, database: str, first: int, count: int) -> None:
        orders = self._server.client[database][TABLE]
        for n in range(count):
            orders.insert_one(_document(first + n))

    def bulk(self, database: str, first: int, count: int) -> None:
        orders = self._server.client[database][TABLE]
        for begin in range(first, first + count, 10_000):
            end = min(begin + 10_000, first + count)
            orders.insert_many(_document(n) for n in range(begin, end))

    @contextmanager
    def inserting(self, database: str) -> Iterator[Callable[[int], None]]:
        orders = self._server.client[database][TABLE]

        def insert(number: int) -> None:
            orders.insert_one({"_id": number, "id": number, "customer": "x"})

        yield insert

    def url(self, database: str) -> str:
        return self._server.url(database)

    def debezium_topic(self, database: str) -> str:
        raise NotImplementedError

    def debezium(self, database: str, folder: Path, poll_ms: str) -> dict[str, str]:
        raise NotImplementedError


def _document(n: int) -> dict[str, Any]:
    more = {"customer": f"customer {n}", "total": n / 100, "paid": n % 2 == 0, "note": NOTE}
    return {"_id": n, "id": n, **more}


@contextmanager
def database(name: str) -> Iterator[Database]:
    """A server of that kind, with room for a benchmark."""
    if name == "postgresql":
        settings = {"logical_decoding_work_mem": "64MB", "shared_buffers": "256MB", "fsync": "on"}
        with postgres(settings) as server:
            yield Postgres(server)
        return
    if name == "mongodb":
        with closing(Mongod()) as mongod:
            yield Mongo(mongod)
        return
    if name == "mysql":
        with closing(MySQL("--innodb-buffer-pool-size=512M", build=MYSQL_9)) as mysql:
            yield My(mysql)
        return
    require_server()
    with closing(MariaDB("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")) as maria:
        yield Maria(maria)
