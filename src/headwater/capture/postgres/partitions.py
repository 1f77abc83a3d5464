"""Partitions that come to a captured table with their rows, or leave it with them; called by `incremental`.

ATTACH, DETACH and DROP change no row: where a partitioned table is captured under its root, the stream says
nothing of them. So the position names the partitions that readers have rows of, and the catalogue is
asked now and then which ones there are.

    in the position:  {"leaves": {"public.events": [70398810161905, 70446054802162]}}

A partition's number there has in its upper half the table's, and in its lower half that of the transaction
that attached it: what is done to a table while it is no partition is nobody's change.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.capture.config import CaptureConfig
from headwater.capture.postgres.catalog import Catalog, Table
from headwater.capture.postgres.connection import Connection, plain
from headwater.capture.postgres.requests import Awaited

Leaves = dict[str, list[int]]
_LEAVES = """
SELECT (t.relid::oid::int8 << 32) + i.xmin::text::int8
FROM pg_partition_tree(%s::oid) t JOIN pg_inherits i ON i.inhrelid = t.relid
WHERE t.isleaf AND t.relid <> %s::oid ORDER BY 1
"""
_NAMED = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
FROM pg_partition_tree(%s::oid) t JOIN pg_class c ON c.oid = t.relid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s::oid
"""


def leaves(connection: Connection, publication: str) -> Leaves:
    """Of each table that is captured under its root."""
    found: Leaves = {}
    for table in Catalog(connection).tables(publication):
        if table.partitioned:
            with plain():
                rows = connection.execute(_LEAVES, [table.relation] * 2).fetchall()
            found[table.collection] = [row[0] for row in rows]
    return found


def part_of(connection: Connection, table: Table, leaf: int) -> Table | None:
    """The rows of one of its partitions; None where that is none of its partitions any more."""
    with plain():
        row = connection.execute(_NAMED, [table.relation, leaf]).fetchone()
    return None if row is None else replace(table, leaf=row[0])


def reads_moved_rows(config: CaptureConfig) -> bool:
    """Whether a table is read anew that has lost rows with a partition."""
    return bool(config.option("read_moved_rows", True))


class Partitions:
    """Those that readers have the rows of."""

    def __init__(self, config: CaptureConfig, known: Leaves | None, awaited: Awaited) -> None:
        """None: a position that does not say it; nor does one that has the tables' numbers alone."""
        numbers = [leaf for found in (known or {}).values() for leaf in found]
        self._known = None if any(leaf >> 32 == 0 for leaf in numbers) else known
        self._reads, self._awaited = reads_moved_rows(config), awaited

    @property
    def leaves(self) -> Leaves:
        return self._known or {}

    def look(
        self, connection: Connection, publication: str
    ) -> tuple[list[dict[str, str]], str | None]:
        """What is to be read of new ones, and a sentence about those that are not there any more; what they
        have left is asked for, behind the last of their changes."""
        now = leaves(connection, publication)
        before = now if self._known is None else self._known
        self._known, lost = now, _gone(before, now)
        if lost and self._reads:
            self._awaited.ask(connection, [*lost])
        return _came(before, now), _told(lost) if lost and not self._reads else None


def _came(before: Leaves, now: Leaves) -> list[dict[str, str]]:
    return [
        {"table": table, "leaf": str(leaf >> 32)}
        for table, found in now.items()
        for leaf in found
        if table in before and leaf not in before[table]
    ]


def _gone(before: Leaves, now: Leaves) -> dict[str, int]:
    fewer = {t: len({*before[t]} - {*found}) for t, found in now.items() if t in before}
    return {table: count for table, count in fewer.items() if count}


def _told(lost: dict[str, int]) -> str:
    """Where their rows are to stay."""
    tables = "; ".join(f"{table} has lost {count} partitions" for table, count in lost.items())
    return (
        f"{tables}, and the server told of none of their rows, which stay with readers "
        "(read_moved_rows = false): to have them go, start over: headwater capture run --resnapshot"
    )
