"""The table of servers: which version, where it comes from, and whether `make test` has it or `make soak`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.capture.contract.mongodb import MongoDB
from tests.capture.contract.mysql import MariaDB10, MariaDB118, MySQL8, MySQL9
from tests.capture.contract.postgres import Postgres
from tests.capture.contract.subject import Subject
from tests.capture.mongodb.mongod import Mongod
from tests.capture.mysql.mariadb_server import BuiltMariaDB
from tests.capture.mysql.mysql_server import MySQL
from tests.capture.mysql.server import MariaDB, require_server
from tests.capture.postgres.server import postgres
from tests.capture.servers.builds import MONGOD_6, MYSQL_9, POSTGRES_14, POSTGRES_18, Build
from tests.capture.servers.versions import (
    MARIADB_11_4,
    MARIADB_11_8,
    MONGOD_4,
    MONGOD_5,
    MYSQL_8,
    POSTGRES_16,
    POSTGRES_17,
)


@dataclass(frozen=True)
class Entry:
    """One server and version."""

    name: str
    subject: type[Subject]
    running: Callable[[], contextlib.AbstractContextManager[Any]]
    quick: bool = False


def _postgres(build: Build | None = None) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    return lambda: postgres(build=build)


def _closed(make: Callable[[], Any]) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    @contextlib.contextmanager
    def running() -> Iterator[Any]:
        server = make()
        try:
            yield server
        finally:
            server.close()

    return running


def _debian_mariadb() -> MariaDB:
    require_server()
    return MariaDB()


SERVERS = (
    Entry("PostgreSQL 14.24", Postgres, _postgres(POSTGRES_14)),
    Entry("PostgreSQL 15", Postgres, _postgres()),
    Entry("PostgreSQL 16.15", Postgres, _postgres(POSTGRES_16)),
    Entry("PostgreSQL 17.11", Postgres, _postgres(POSTGRES_17)),
    Entry("PostgreSQL 18.6", Postgres, _postgres(POSTGRES_18), quick=True),
    Entry("MySQL 8.0.33", MySQL8, _closed(lambda: MySQL(build=MYSQL_8))),
    Entry("MySQL 9.7", MySQL9, _closed(lambda: MySQL(build=MYSQL_9)), quick=True),
    Entry("MariaDB 10.11", MariaDB10, _closed(_debian_mariadb), quick=True),
    Entry("MariaDB 11.4.5", MariaDB10, _closed(lambda: BuiltMariaDB(build=MARIADB_11_4))),
    Entry("MariaDB 11.8", MariaDB118, _closed(lambda: BuiltMariaDB(build=MARIADB_11_8))),
    Entry("MongoDB 4.4.2", MongoDB, _closed(lambda: Mongod(MONGOD_4))),
    Entry("MongoDB 5.0.4", MongoDB, _closed(lambda: Mongod(MONGOD_5))),
    Entry("MongoDB 6.0.5", MongoDB, _closed(lambda: Mongod(MONGOD_6)), quick=True),
)
