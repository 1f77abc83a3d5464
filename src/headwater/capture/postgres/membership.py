"""Tables that a publication had not, for a while, or had otherwise; called by `incremental`.

What changes while a table is not published is never sent, and nothing in the stream says so: a publication
that was dropped and made again (from PostgreSQL 18 on the server goes on without it), a table that was taken
out and put back, another row filter or column list. Each of these gives the table another row in the
catalogue, whose number the position knows.

    in the position:  {"members": {"public.orders": "16391/16402"}}    publication / its row for the table
"""

from __future__ import annotations

from headwater.capture.change import Position
from headwater.capture.postgres import partitions
from headwater.capture.postgres.catalog import Catalog
from headwater.capture.postgres.connection import Connection, plain
from headwater.capture.postgres.requests import Awaited

_MEMBERS = """
SELECT t.schemaname || '.' || t.tablename, p.oid || '/' || coalesce(r.oid, 0)
FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
JOIN pg_namespace n ON n.nspname = t.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid WHERE t.pubname = %s
"""


def noted(connection: Connection, publication: str) -> Position:
    """For the first position."""
    leaves = partitions.leaves(connection, publication)
    return {"leaves": leaves, "members": members(connection, publication)}


def members(connection: Connection, publication: str) -> dict[str, str]:
    with plain():
        return dict(connection.execute(_MEMBERS, [publication]).fetchall())


class Members:
    """As what readers have the tables' rows."""

    def __init__(self, known: dict[str, str] | None, begun: set[str], awaited: Awaited) -> None:
        """None: a position that does not say it. `begun`: tables that this run has published itself, which
        are read from their first row anyhow."""
        self.known, self._begun, self._awaited = known, begun, awaited

    def look(self, connection: Connection, publication: str) -> str | None:
        """Ask for those that are published otherwise now; a sentence about them."""
        now = members(connection, publication)
        before = now if self.known is None else self.known
        self.known = {**before, **now}
        changed = {name for name, row in now.items() if before.get(name, row) != row} - self._begun
        self._begun.clear()
        if not changed:
            return None
        keyed = {t.collection for t in Catalog(connection).tables(publication) if t.key()}
        if read := sorted(changed & keyed):
            self._awaited.ask(connection, read)
        shown = ", ".join(sorted(changed))
        rest = ", ".join(sorted(changed - keyed))
        lost = (
            f"; without a key {rest} cannot be: headwater capture run --resnapshot" if rest else ""
        )
        return (
            f"{shown}: published otherwise than before, so changes may not have been sent; read from the "
            f"first row on{lost}"
        )
