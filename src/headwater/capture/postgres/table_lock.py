"""A table is locked before its rows are read, and then looked at: does the snapshot still show them?

Called by `snapshot` and `incremental`, once their transaction has its snapshot. TRUNCATE, and an ALTER TABLE
that writes a table anew, are not MVCC-safe: to an older snapshot the table is empty afterwards, without an
error, unless its transaction had the table locked before. What a query finds in pg_class is the snapshot's,
what a function of the server says of a relation is of now: where the two name different files, the rows are
no longer there for this snapshot, and a later one must read them.
"""

from __future__ import annotations

import psycopg

from headwater.capture.errors import Interrupted
from headwater.capture.postgres.catalog import Table
from headwater.capture.postgres.connection import Connection, identifier, plain

_REPLACED = """
SELECT FROM pg_class c
WHERE (c.oid = %(table)s OR c.oid IN (SELECT relid FROM pg_partition_tree(%(table)s::oid)))
  AND (pg_relation_filenode(c.oid) IS DISTINCT FROM nullif(c.relfilenode, 0)
       OR c.oid = %(table)s AND to_regclass(%(name)s)::oid IS DISTINCT FROM c.oid)
LIMIT 1
"""


def lock(connection: Connection, table: Table) -> None:
    """Until the end of the transaction nobody alters the table. Interrupted: somebody did just before."""
    columns = ", ".join(identifier(column.name) for column in table.columns)
    altered = Interrupted(f"{table.collection} was altered while a snapshot was about to read it")
    with plain():
        try:
            # Not LOCK TABLE, which a role with rights on some columns may not.
            connection.execute(f"SELECT {columns} FROM {table.own_rows} LIMIT 0".encode())
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            raise altered from None
        asked = {"table": table.relation, "name": table.quoted}
        if connection.execute(_REPLACED, asked).fetchone() is not None:
            raise altered
