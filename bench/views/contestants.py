"""Who is measured: for each store headwater's target, and the obvious alternatives.

All stores are as durable as they come: PostgreSQL and Redis sync every commit, as the targets rely on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from bench.views import loops
from bench.views.jdbc import URL_OPTIONS, jdbc_write
from tests.capture.postgres.server import PostgresServer, postgres
from tests.views.redis.server import RedisServer, redis_server

Write = Callable[[DataFrame], None]


@dataclass
class Store:
    """A place for the target, and those who write beside it."""

    name: str
    to: str
    loops: dict[str, loops.Loop]
    writes: dict[str, Write] = field(default_factory=dict)
    """Spark's own sinks: they only add rows, so they take part only where all rows are new."""


@dataclass
class Servers:
    postgres: PostgresServer | None = None
    redis: RedisServer | None = None


NAMES = ("postgresql", "sqlite", "duckdb", "delta", "redis", "search")


@contextlib.contextmanager
def servers(names: tuple[str, ...]) -> Iterator[Servers]:
    with contextlib.ExitStack() as stack:
        found = Servers()
        if "postgresql" in names:
            settings = {"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}
            found.postgres = stack.enter_context(postgres(settings))
        if "redis" in names:
            found.redis = stack.enter_context(redis_server())
        yield found


def store(name: str, folder: Path, running: Servers) -> Store:
    folder.mkdir(parents=True)
    return _STORES[name](folder, running)


def _postgresql(folder: Path, running: Servers) -> Store:
    assert running.postgres is not None
    running.postgres.execute("CREATE DATABASE bench")
    url = running.postgres.url("bench")
    made = Store("postgresql", url, {"psycopg, row by row": loops.psycopg_loop(url)})
    running.postgres.execute(
        "CREATE TABLE sunk (id BIGINT PRIMARY KEY, customer TEXT, item TEXT, "
        "total DOUBLE PRECISION, placed_at TIMESTAMPTZ)",
        database="bench",
    )
    address = f"jdbc:postgresql://127.0.0.1:{running.postgres.port}/bench?user=postgres"
    made.writes["Spark's JDBC sink"] = lambda rows: jdbc_write(rows, address)
    made.writes["Spark's JDBC sink, tuned"] = lambda rows: jdbc_write(rows, address + URL_OPTIONS)
    return made


def _sqlite(folder: Path, _: Servers) -> Store:
    loop = loops.sqlite_loop(folder)
    return Store("sqlite", f"sqlite:{folder / 'view.db'}", {"sqlite3, row by row": loop})


def _duckdb(folder: Path, _: Servers) -> Store:
    loop = loops.duckdb_loop(folder)
    return Store("duckdb", f"duckdb:{folder / 'view.duckdb'}", {"duckdb, row by row": loop})


def _delta(folder: Path, _: Servers) -> Store:
    loop = loops.delta_loop(folder)
    named = {f"deltalake, merges of {loops.UNIT:,}": loop}
    return Store("delta", f"delta:{folder / 'view'}", named)


def _redis(folder: Path, running: Servers) -> Store:
    assert running.redis is not None
    url = running.redis.url
    named = {
        "redis-py, row by row": loops.redis_loop(url),
        "redis-py, pipelines of 1,000": loops.redis_loop(url, 1000),
    }
    return Store("redis", url, named)


def _search(folder: Path, _: Servers) -> Store:
    loop = loops.tantivy_loop(folder)
    return Store("search", f"search:{folder / 'view'}", {"tantivy, row by row": loop})


_STORES: dict[str, Callable[[Path, Servers], Store]] = {
    "postgresql": _postgresql,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "delta": _delta,
    "redis": _redis,
    "search": _search,
}
