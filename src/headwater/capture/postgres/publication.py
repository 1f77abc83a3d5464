"""The publication: which tables it has, made for the user, added to, and dropped.

Called by `source` and `check`. One that the settings name is the user's own, and is left as it is.
"""

from __future__ import annotations

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured, SourceRefused
from headwater.capture.postgres.connection import Connection, identifier, plain

_ALL_TABLES = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_%%'
ORDER BY 1, 2
"""


def wanted_tables(connection: Connection, config: CaptureConfig) -> list[tuple[str, str]]:
    """The tables of the settings as (schema, name); without any, all there are."""
    with plain():
        found = [(row[0], row[1]) for row in connection.execute(_ALL_TABLES).fetchall()]
    if not config.tables:
        return found
    wanted: list[tuple[str, str]] = []
    for name in (*config.tables, *((config.outbox,) if config.outbox else ())):
        schema, _, table = name.rpartition(".")
        place = (schema or "public", table)
        if place not in found:
            raise Misconfigured(
                f"the database has no table {'.'.join(place)}",
                hint="name it as schema.table, or create it",
            )
        if place not in wanted:
            wanted.append(place)
    return wanted


def ensure_publication(
    connection: Connection, config: CaptureConfig, publication: str
) -> list[str]:
    """Make the publication, or add what it lacks; the tables that were added to an older one."""
    with plain():
        row = connection.execute(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", [publication]
        ).fetchone()
        if row is not None and (row[0] or "publication" in config.options):
            return []  # the user's own: its filters and column lists are the user's business
        wanted = wanted_tables(connection, config)
        if not wanted:
            raise SourceRefused("the database has no table to capture", hint="create one")
        if row is None:
            listed = ", ".join(identifier(*place) for place in wanted)
            connection.execute(
                f"CREATE PUBLICATION {identifier(publication)} FOR TABLE {listed} "
                "WITH (publish_via_partition_root = true)"
            )
            return []
        there = {
            (schema, table)
            for schema, table in connection.execute(
                "SELECT schemaname::text, tablename::text FROM pg_publication_tables "
                "WHERE pubname = %s",
                [publication],
            ).fetchall()
        }
        missing = [place for place in wanted if place not in there] if config.tables else []
        for place in missing:
            connection.execute(
                f"ALTER PUBLICATION {identifier(publication)} ADD TABLE {identifier(*place)}"
            )
    return [".".join(place) for place in missing]


_WITHOUT_IDENTITY = """
SELECT p.schemaname::text, p.tablename::text FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
ORDER BY 1, 2
"""


def without_identity(connection: Connection, publication: str) -> list[str]:
    """A sentence for each published table whose updates and deletes the server refuses now."""
    with plain():
        found = connection.execute(_WITHOUT_IDENTITY, [publication]).fetchall()
    return [
        f"{identifier(*place)} is published and its rows are identified by nothing: the server refuses "
        f"its UPDATEs and DELETEs; ALTER TABLE {identifier(*place)} REPLICA IDENTITY FULL allows them"
        for place in found
    ]


def drop_publication(connection: Connection, publication: str) -> str | None:
    """Drop it, where it is there and this role's; a sentence where it is another's, and stays."""
    with plain():
        row = connection.execute(
            "SELECT pg_has_role(pubowner, 'USAGE'), pg_get_userbyid(pubowner)::text "
            "FROM pg_publication WHERE pubname = %s",
            [publication],
        ).fetchone()
        if row is None:
            return None
        named = identifier(publication)
        if not row[0]:
            return (
                f"the publication {named} belongs to {row[1]}, and stays: DROP PUBLICATION {named}"
            )
        connection.execute(f"DROP PUBLICATION IF EXISTS {named}".encode())
    return None
