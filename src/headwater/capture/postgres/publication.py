"""The publication: which tables it has, made for the user, added to, and dropped.

Called by `source` and `check`. One that the settings name is the user's own, and is left as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured, SourceRefused
from headwater.capture.postgres.connection import Connection, identifier, plain
from headwater.capture.postgres.requests import begin_anew
from headwater.capture.source import Finding

_ALL_TABLES = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_%%'
ORDER BY 1, 2
"""


_KIND = """
SELECT c.relkind::text, c.relpersistence::text, c.relispartition, inhparent::regclass::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_inherits ON inhrelid = c.oid
WHERE c.relname = %s AND (n.nspname = %s OR c.relpersistence = 't')
"""
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}

ROOT, LEAF = "root", "leaf"


def partitions_as(config: CaptureConfig) -> str:
    """Under which name the rows of a partitioned table come."""
    return str(config.option("partitions_as", ROOT))


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
            raise _unfit(connection, place)
        if place not in wanted:
            wanted.append(place)
    return wanted


def _unfit(connection: Connection, place: tuple[str, str]) -> Misconfigured:
    """Why a relation of that name cannot be captured."""
    shown = ".".join(place)
    with plain():
        row = connection.execute(_KIND, [place[1], place[0]]).fetchone()
    if row is None:
        return Misconfigured(
            f"the database has no table {shown}", hint="name it as schema.table, or create it"
        )
    kind, persistence, partition, parent = row
    if persistence == "u":
        return Misconfigured(
            f"{shown} is an unlogged table: its changes are not in the server's log",
            hint=f"ALTER TABLE {identifier(*place)} SET LOGGED, or leave it out",
        )
    if persistence == "t":
        return Misconfigured(
            f"{shown} is a temporary table: nobody but its session sees it",
            hint="capture a table that stays",
        )
    if partition:
        return Misconfigured(
            f"{shown} is a partition of {parent}",
            hint=f'name {parent} in `tables`; with partitions_as = "leaf" each has its own topic',
        )
    return Misconfigured(
        f"{shown} is {_KINDS.get(kind, 'no table')}, which has no changes of its own",
        hint="name the tables that its rows come from",
    )


def ensure_publication(connection: Connection, config: CaptureConfig, publication: str) -> None:
    """Make the publication where it is missing."""
    root = partitions_as(config) == ROOT
    with plain():
        row = connection.execute(
            "SELECT pubviaroot FROM pg_publication WHERE pubname = %s", [publication]
        ).fetchone()
        if row is not None:
            if row[0] != root and "partitions_as" in config.options:
                raise Misconfigured(
                    f"the publication {publication} has partitioned tables by "
                    f"{ROOT if row[0] else LEAF}, and partitions_as says otherwise",
                    hint=f"ALTER PUBLICATION {identifier(publication)} SET "
                    f"(publish_via_partition_root = {str(root).lower()}), "
                    "then headwater capture run --resnapshot",
                )
            return
        wanted = wanted_tables(connection, config)
        if not wanted:
            raise SourceRefused("the database has no table to capture", hint="create one")
        listed = ", ".join(identifier(*place) for place in wanted)
        connection.execute(
            f"CREATE PUBLICATION {identifier(publication)} FOR TABLE {listed} "
            f"WITH (publish_via_partition_root = {str(root).lower()})"
        )


_MEMBERS = """
SELECT n.nspname::text, c.relname::text FROM pg_publication_rel r
JOIN pg_publication p ON p.oid = r.prpubid JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s
"""


def unpublished(
    connection: Connection, config: CaptureConfig, publication: str
) -> list[tuple[str, str]]:
    """Wanted tables that the publication lacks: added to the settings, or made (again) since.

    One that the settings name, or that has all tables, is the user's own: what is in it is the user's
    business.
    """
    with plain():
        row = connection.execute(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", [publication]
        ).fetchone()
        if row is None or row[0] or "publication" in config.options:
            return []
        members = {(row[0], row[1]) for row in connection.execute(_MEMBERS, [publication])}
    return [place for place in wanted_tables(connection, config) if place not in members]


def _begin(connection: Connection, publication: str, place: tuple[str, str]) -> None:
    """Publish a table and have it read from its first row, in one transaction.

    So all changes of an earlier table of that name lie before the request, and all of this one behind it.
    """
    with plain(), connection.transaction():
        begin_anew(connection, [".".join(place)])
        connection.execute(
            f"ALTER PUBLICATION {identifier(publication)} ADD TABLE {identifier(*place)}"
        )


_WITHOUT_IDENTITY = """
SELECT p.schemaname::text, p.tablename::text FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate))
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


_SENT = """
SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s
"""


def left_out(connection: Connection, publication: str) -> Iterator[Finding]:
    """The kinds of changes that it does not send, if any."""
    with plain():
        row = connection.execute(_SENT, [publication]).fetchone()
    kinds = ("insert", "update", "delete", "truncate")
    missing = [kind for kind, sent in zip(kinds, row or (), strict=False) if not sent]
    if missing:
        sentence = f"{publication} does not send {', '.join(missing)}: readers keep what is gone"
        remedy = (
            f"ALTER PUBLICATION {identifier(publication)} SET (publish = '{', '.join(kinds)}');"
        )
        yield Finding("what is published", False, sentence, remedy)


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


class Admission:
    """The publication of one capture, over its runs' connections."""

    def __init__(self, config: CaptureConfig, name: str) -> None:
        self._config = config
        self.name = name
        self._told: set[tuple[str, str]] = set()
        self._warnings: list[str] = []
        self.begun: set[str] = set()
        """Tables that were published just now, and are to be read from their first row."""

    def begin(self, database: Connection) -> None:
        """A table of the settings that cannot be published is an error."""
        ensure_publication(database, self._config, self.name)
        self._admit(database, refuse=bool(self._config.tables))
        self._warnings += without_identity(database, self.name)
        self._warnings += [found.sentence for found in left_out(database, self.name)]

    def look(self, database: Connection) -> str | None:
        """Let in what was made meanwhile; a sentence that somebody should read."""
        with contextlib.suppress(Misconfigured):  # a table of the settings that is not there now
            ensure_publication(database, self._config, self.name)
            self._admit(database)
        return self._warnings.pop(0) if self._warnings else None

    def _admit(self, database: Connection, *, refuse: bool = False) -> None:
        for place in unpublished(database, self._config, self.name):
            try:
                _begin(database, self.name, place)
                self.begun.add(".".join(place))
            except SourceRefused as error:
                if refuse:
                    raise
                if place not in self._told:
                    self._told.add(place)
                    self._warnings.append(f"{'.'.join(place)} is not captured: {error}")
