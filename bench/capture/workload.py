"""What both capture: a table of orders, read as it is, then changed in three ways."""

from __future__ import annotations

from tests.capture.postgres.server import PostgresServer

TABLE = "orders"
_CREATE = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, total numeric(12,2), placed timestamptz,
    paid boolean, note text);
CREATE PROCEDURE one_by_one(first bigint, count int) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 0 .. count - 1 LOOP
        INSERT INTO orders VALUES (first + n, 'customer ' || n, n / 100.0, now(), n % 2 = 0,
                                   'a note of some length, as people write them');
        COMMIT;
    END LOOP;
END $$;
"""
_ROWS = (
    "INSERT INTO orders SELECT n, 'customer ' || n, n / 100.0, now(), n % 2 = 0, "
    "'a note of some length, as people write them' FROM generate_series({first}, {last}) n"
)


def create(server: PostgresServer, database: str, rows: int) -> None:
    server.execute(f"CREATE DATABASE {database}")
    server.execute(_CREATE, database=database)
    server.execute(_ROWS.format(first=1, last=rows), "ANALYZE orders", database=database)


def single(server: PostgresServer, database: str, first: int, count: int) -> None:
    """So many transactions of one row each."""
    server.execute(
        "SET synchronous_commit = off", f"CALL one_by_one({first}, {count})", database=database
    )


def bulk(server: PostgresServer, database: str, first: int, count: int) -> None:
    """One transaction of so many rows."""
    server.execute(_ROWS.format(first=first, last=first + count - 1), database=database)
