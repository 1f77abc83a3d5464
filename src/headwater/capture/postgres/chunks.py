"""A table in chunks, in the order of its key: the queries for them, and one that is under way.

Called by `snapshot`, which has them read side by side, and by `incremental`, one by one while the stream goes
on.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.capture.postgres import table_lock
from headwater.capture.postgres.catalog import Table
from headwater.capture.postgres.connection import Connection, identifier, literal, plain
from headwater.capture.postgres.relations import Relation

CHUNK_BYTES = 1 << 20
CHUNK_ROWS_MIN, CHUNK_ROWS_MAX = 10, 50_000
_RUNNING = "SELECT pg_snapshot_xip(pg_current_snapshot())::text"
_EMPTY_ROWS, _SAMPLE_ROWS, _ROW_HEADER_BYTES = 10_000, 100, 28


@dataclass
class Window:
    """One chunk, from its read to its high watermark."""

    identity: str
    table: Table
    relation: Relation
    data: bytes
    last: list[str] | None
    running: set[int]
    """Transactions that the SELECT could not see yet."""
    open: bool = False
    again: bool = False


def chunk_rows(connection: Connection, table: Table) -> int:
    """So many rows that a chunk has about CHUNK_BYTES."""
    with plain():
        row = connection.execute(
            "SELECT pg_table_size(oid)::int8, greatest(reltuples, 0)::int8 FROM pg_class "
            "WHERE oid = %s",
            [table.relation],
        ).fetchone()
    size, rows = row or (0, 0)
    if rows > 0 and size > 0:
        row_bytes = size // rows
    else:  # never analysed, as after a restore; of a partitioned table its own pages, which are none
        row_bytes = _sampled_bytes(connection, table)
    if row_bytes is None:
        return _EMPTY_ROWS
    return min(CHUNK_ROWS_MAX, max(CHUNK_ROWS_MIN, CHUNK_BYTES // max(row_bytes, 1)))


def _sampled_bytes(connection: Connection, table: Table) -> int | None:
    """Of a row, by some of them; None: there is none. What a value takes is known without reading it."""
    sizes = "+".join(f"coalesce(pg_column_size({identifier(c.name)}), 0)" for c in table.columns)
    some = f"SELECT {sizes or 0} AS size FROM {table.own_rows} LIMIT {_SAMPLE_ROWS}"
    with plain():
        query = f"SELECT avg(size)::int8 + {_ROW_HEADER_BYTES} FROM ({some}) rows"
        row = connection.execute(query.encode()).fetchone()
    return None if row is None else row[0]


def boundary(
    connection: Connection, table: Table, key: tuple[str, ...], after: list[str] | None, rows: int
) -> list[str] | None:
    """The key of the last row of the next chunk; None: the rest is one chunk."""
    # Named apart: ORDER BY would otherwise mean the text, not the column.
    shown = ", ".join(f"{identifier(name)}::text AS key{n}" for n, name in enumerate(key))
    order = ", ".join(identifier(name) for name in key)
    query = (
        f"SELECT {shown} FROM {table.own_rows}{_where(table, key, after, None)} "
        f"ORDER BY {order} OFFSET {rows - 1} LIMIT 1"
    )
    with plain():
        row = connection.execute(query.encode()).fetchone()
    return None if row is None else list(row)


def chunk_query(
    table: Table, key: tuple[str, ...], after: list[str] | None, last: list[str] | None
) -> str:
    """COPY of the rows behind `after` up to `last`, in the order of the key."""
    columns = ", ".join(identifier(column.name) for column in table.columns)
    order = f" ORDER BY {', '.join(identifier(name) for name in key)}" if key else ""
    where = _where(table, key, after, last)
    return f"COPY (SELECT {columns} FROM {table.own_rows}{where}{order}) TO STDOUT"


def copy_out(reader: Connection, query: str) -> bytes:
    with reader.cursor() as cursor, cursor.copy(query) as copy:
        return b"".join(copy)


def copy_chunk(
    reader: Connection, table: Table, after: list[str] | None, rows: int
) -> tuple[bytes, list[str] | None, set[int]]:
    """Its rows and the key of the last (None: nothing is behind it), in a view of its own; and which
    transactions were still running for it. `rows` 0: about CHUNK_BYTES of them."""
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        running = {int(row[0]) & 0xFFFFFFFF for row in reader.execute(_RUNNING).fetchall()}
        table_lock.lock(reader, table)
        last = boundary(reader, table, table.key(), after, rows or chunk_rows(reader, table))
        return copy_out(reader, chunk_query(table, table.key(), after, last)), last, running
    finally:
        reader.execute("ROLLBACK")


def _where(
    table: Table, key: tuple[str, ...], after: list[str] | None, last: list[str] | None
) -> str:
    conditions = [f"({table.row_filter})"] if table.row_filter else []
    names = f"({', '.join(identifier(name) for name in key)})"
    if after is not None:
        conditions.append(f"{names} > ({', '.join(literal(value) for value in after)})")
    if last is not None:
        conditions.append(f"{names} <= ({', '.join(literal(value) for value in last)})")
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
