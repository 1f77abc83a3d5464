"""A switch that readers do not notice: what hangs on the table of the version before goes over to the next.

Called by `target` inside the transaction that renames both tables, which keeps readers out for that long.
Grants, policies, comments and triggers are put on the new table (`properties`), its indexes get the
known names, and what refers to the old table by its identity is pointed to the new one:

    views           CREATE OR REPLACE with their own text, which keeps their readers and dependents
    foreign keys    dropped and made again, not validated yet

What else depends on the old table (materialized views, functions with a parsed body) stays and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from headwater.views.targets.contract import Misfit
from headwater.views.targets.postgres.book import Connection
from headwater.views.targets.postgres.properties import (
    Properties,
    name_of,
    oid_of,
    properties_of,
    put,
    whole_names,
)
from headwater.views.targets.postgres.rules import copy_rules, exchange_names
from headwater.views.targets.sql.book import quoted

LOCK_MS = 3000
"""How long readers may have to wait behind a switch that waits for a long query."""
_VIEWS = """SELECT DISTINCT c.oid, c.oid::regclass::text, pg_get_viewdef(c.oid), c.reloptions
    FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    JOIN pg_class c ON c.oid = r.ev_class
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = %s AND c.oid <> %s AND c.relkind = 'v'
    ORDER BY c.oid"""
_FOREIGN_KEYS = """SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid), convalidated
    FROM pg_constraint WHERE contype = 'f' AND confrelid = %s AND conrelid <> %s ORDER BY oid"""
_DEPENDENTS = """
    WITH own AS (
        SELECT 'pg_class'::regclass AS class, %(table)s::oid AS id
        UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typrelid = %(table)s::oid
        UNION ALL SELECT 'pg_type'::regclass, typarray FROM pg_type WHERE typrelid = %(table)s::oid)
    SELECT DISTINCT CASE WHEN d.classid = 'pg_rewrite'::regclass
            THEN (SELECT pg_describe_object('pg_class'::regclass, ev_class, 0)
                  FROM pg_rewrite WHERE oid = d.objid)
            ELSE pg_describe_object(d.classid, d.objid, 0) END
    FROM pg_depend d JOIN own ON d.refclassid = own.class AND d.refobjid = own.id
    WHERE d.deptype IN ('n', 'a') AND NOT EXISTS (
        SELECT FROM own o WHERE o.class = d.classid AND o.id = d.objid)
      AND NOT EXISTS (SELECT FROM pg_index i WHERE d.classid = 'pg_class'::regclass
        AND i.indexrelid = d.objid AND i.indrelid = %(table)s::oid)
      AND NOT EXISTS (SELECT FROM pg_constraint c WHERE d.classid = 'pg_constraint'::regclass
        AND c.oid = d.objid AND c.conrelid = %(table)s::oid)
      AND NOT EXISTS (SELECT FROM pg_trigger t WHERE d.classid = 'pg_trigger'::regclass
        AND t.oid = d.objid AND t.tgrelid = %(table)s::oid)
      AND NOT EXISTS (SELECT FROM pg_policy p WHERE d.classid = 'pg_policy'::regclass
        AND p.oid = d.objid AND p.polrelid = %(table)s::oid)
      AND NOT EXISTS (SELECT FROM pg_attrdef a WHERE d.classid = 'pg_attrdef'::regclass
        AND a.oid = d.objid AND a.adrelid = %(table)s::oid)
    ORDER BY 1"""


class _View(NamedTuple):
    oid: int
    name: str
    definition: str
    options: Sequence[str] | None

    def statement(self) -> str:
        options = f" WITH ({', '.join(self.options)})" if self.options else ""
        return f"CREATE OR REPLACE VIEW {self.name}{options} AS {self.definition}"


class Handover(NamedTuple):
    """What is to go over, read while the old table still has the view's name."""

    old: int
    new: int
    properties: Properties
    views: list[_View]
    foreign_keys: list[tuple[str, str, str, bool]]

    @classmethod
    def prepared(cls, connection: Connection, old: str, new: str) -> Handover:
        connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}".encode())
        names = f"{quoted(old)}, {quoted(new)}"
        connection.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE".encode())
        one, other = oid_of(connection, old), oid_of(connection, new)
        with whole_names(connection):
            found: Any = connection.execute(_VIEWS, (one, one)).fetchall()
            keys = connection.execute(_FOREIGN_KEYS, (one, one)).fetchall()
            views = [_View(*each) for each in found]
            return cls(one, other, properties_of(connection, one), views, list(keys))

    def done(self, connection: Connection, before: str, after: str) -> list[str]:
        """Once the new table has the name: bring it over; returns in words what stays behind.

        `before`, `after`: what names of indexes end with while their table is not served.
        """
        with whole_names(connection):
            lost = copy_rules(connection, self.old, self.new, after)
            lost += put(connection, self.properties, self.new)
            exchange_names(connection, self.old, self.new, before)
            for view in self.views:
                self._point(connection, view)
            lost += [self._refer(connection, *each) for each in self.foreign_keys]
            table = name_of(connection, self.old)
            lost += [f"{each} still reads {table}" for each in dependents(connection, self.old)]
        return lost

    def _point(self, connection: Connection, view: _View) -> None:
        try:
            connection.execute(view.statement().encode())
        except psycopg.Error as error:
            said = " ".join((error.diag.message_primary or str(error)).split())
            raise Misfit(
                f"the view {view.name} reads the version before, and cannot read the new one: {said}",
                hint="drop or change it, switch, and create it again; nothing was switched yet",
            ) from error

    def _refer(
        self, connection: Connection, name: str, table: str, definition: str, validated: bool
    ) -> str:
        text = definition.removesuffix(" NOT VALID")
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {quoted(name)}".encode())
        statement = f"ALTER TABLE {table} ADD CONSTRAINT {quoted(name)} {text} NOT VALID"
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            said = " ".join((error.diag.message_primary or str(error)).split())
            raise Misfit(
                f"the foreign key {name} of {table} cannot point to the new version: {said}",
                hint="drop it, switch, and create it again; nothing was switched yet",
            ) from error
        return (
            f"the foreign key {name} of {table} points to the new version and holds for new rows; for "
            f"the others: ALTER TABLE {table} VALIDATE CONSTRAINT {quoted(name)}"
        )


def dependents(connection: Connection, table: int) -> list[str]:
    """What refers to a table and is not its own, as PostgreSQL describes it."""
    found = connection.execute(_DEPENDENTS.encode(), {"table": table}).fetchall()
    return [str(said) for (said,) in found]


def must_be_free(connection: Connection, place: str) -> None:
    """Misfit that names what depends on a table that is to be dropped."""
    found = dependents(connection, oid_of(connection, place))
    if found:
        raise Misfit(
            f"{place} is still needed by {', '.join(found)}",
            hint="let them read the version that readers see, or drop them, then drop again",
        )
