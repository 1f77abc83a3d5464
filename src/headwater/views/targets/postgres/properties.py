"""What people have put on a table in PostgreSQL, taken from one to another. Called by `switch`.

Owner, privileges (of columns too), row security and its policies, comments, triggers: at the switch, exactly
as the table has them that readers see, whatever the default privileges are.

Texts are read and run with an empty search_path, so that all names in them are whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from headwater.views.targets.postgres.book import Connection
from headwater.views.targets.sql.book import quoted

_COMMANDS = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE", "*": "ALL"}
_ENABLED = {"O": "ENABLE", "D": "DISABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}
_ACL = """SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
    a.privilege_type, a.is_grantable"""


@contextmanager
def whole_names(connection: Connection) -> Iterator[None]:
    (before,) = row(connection, "SELECT current_setting('search_path')")
    connection.execute("SELECT set_config('search_path', '', true)")
    yield
    connection.execute("SELECT set_config('search_path', %s, true)", (before,))


def oid_of(connection: Connection, table: str) -> int:
    return int(row(connection, "SELECT to_regclass(%s)::oid", quoted(table))[0])


def name_of(connection: Connection, oid: int) -> str:
    return str(row(connection, "SELECT %s::oid::regclass::text", oid)[0])


def attempt(connection: Connection, statement: str) -> str | None:
    """Run it; why it could not be, if so."""
    try:
        with connection.transaction():  # a savepoint
            connection.execute(statement.encode())
    except psycopg.Error as error:
        return " ".join((error.diag.message_primary or str(error)).split())
    return None


class Properties(NamedTuple):
    """Of one table, read before it is renamed."""

    owner: str
    privileges: list[tuple[str, str, bool]]
    of_columns: list[tuple[str, str, str, bool]]
    security: tuple[bool, bool]
    policies: list[tuple[str, str]]
    """Name, and what follows it and the table in CREATE POLICY."""
    comment: str | None
    column_comments: list[tuple[str, str | None]]
    triggers: list[tuple[str, str, str]]
    """Name, statement, whether and when it fires."""


def properties_of(connection: Connection, table: int) -> Properties:
    owner, security, forced, comment = row(
        connection,
        "SELECT quote_ident(pg_get_userbyid(relowner)), relrowsecurity, relforcerowsecurity, "
        "obj_description(oid, 'pg_class') FROM pg_class WHERE oid = %s",
        table,
    )
    return Properties(
        owner,
        _privileges(connection, table),
        _column_privileges(connection, table),
        (security, forced),
        [(name, _policy(*rest)) for name, *rest in rows(connection, _POLICIES, table)],
        comment,
        rows(connection, _COLUMN_COMMENTS, table),
        rows(connection, _TRIGGERS, table),
    )


_COLUMN_COMMENTS = """SELECT attname, col_description(attrelid, attnum) FROM pg_attribute
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"""
_TRIGGERS = """SELECT tgname, pg_get_triggerdef(oid), tgenabled FROM pg_trigger
    WHERE tgrelid = %s AND NOT tgisinternal ORDER BY oid"""
_POLICIES = """SELECT polname, polpermissive, polcmd,
    (SELECT string_agg(CASE r WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r)) END, ', ')
        FROM unnest(polroles) r),
    pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)
    FROM pg_policy WHERE polrelid = %s"""


def _policy(
    permissive: bool, command: str, roles: str, using: str | None, check: str | None
) -> str:
    text = f"AS {'PERMISSIVE' if permissive else 'RESTRICTIVE'} FOR {_COMMANDS[command]} TO {roles}"
    text += f" USING ({using})" if using is not None else ""
    return text + (f" WITH CHECK ({check})" if check is not None else "")


def _privileges(connection: Connection, table: int) -> list[tuple[str, str, bool]]:
    return rows(
        connection,
        f"{_ACL} FROM pg_class, aclexplode(coalesce(relacl, acldefault('r', relowner))) a "
        "WHERE oid = %s",
        table,
    )


def _column_privileges(connection: Connection, table: int) -> list[tuple[str, str, str, bool]]:
    return [
        (column, *rest)
        for *rest, column in rows(
            connection,
            f"{_ACL}, attname FROM pg_attribute, aclexplode(attacl) a "
            "WHERE attrelid = %s AND NOT attisdropped",
            table,
        )
    ]


def put(connection: Connection, given: Properties, table: int) -> list[str]:
    """Let a table have them, and no others; returns in words what it cannot have."""
    name, lost = name_of(connection, table), list[str]()
    columns = {column for column, _ in rows(connection, _COLUMN_COMMENTS, table)}
    before = properties_of(connection, table)
    must = [f"ALTER TABLE {name} OWNER TO {given.owner}"] if before.owner != given.owner else []
    for who in dict.fromkeys(who for who, *_ in before.privileges):
        must.append(f"REVOKE ALL ON {name} FROM {who} CASCADE")
    for column, who in dict.fromkeys((c, who) for c, who, *_ in before.of_columns):
        must.append(f"REVOKE ALL ({quoted(column)}) ON {name} FROM {who} CASCADE")
    for who, what, grantable in given.privileges:
        must.append(f"GRANT {what} ON {name} TO {who}{_option(grantable)}")
    for column, who, what, grantable in given.of_columns:
        if column in columns:
            granted = f"{what} ({quoted(column)}) ON {name} TO {who}"
            must.append(f"GRANT {granted}{_option(grantable)}")
        else:
            lost.append(f"{what} of the column {column}, which is not there, for {who}")
    must += [f"DROP POLICY {quoted(each)} ON {name}" for each, _ in before.policies]
    must += [f"CREATE POLICY {quoted(each)} ON {name} {rest}" for each, rest in given.policies]
    enabled, forced = given.security
    must.append(f"ALTER TABLE {name} {'ENABLE' if enabled else 'DISABLE'} ROW LEVEL SECURITY")
    must.append(f"ALTER TABLE {name} {'FORCE' if forced else 'NO FORCE'} ROW LEVEL SECURITY")
    must.append(f"COMMENT ON TABLE {name} IS {literal(connection, given.comment)}")
    for column, comment in given.column_comments:
        if column in columns:
            said = literal(connection, comment)
            must.append(f"COMMENT ON COLUMN {name}.{quoted(column)} IS {said}")
    for statement in must:
        connection.execute(statement.encode())
    for each, _, _ in before.triggers:
        connection.execute(f"DROP TRIGGER {quoted(each)} ON {name}".encode())
    for each, statement, when in given.triggers:
        if why := attempt(connection, statement):
            lost.append(f"the trigger {each}: {why}")
        elif when != "O":
            statement = f"ALTER TABLE {name} {_ENABLED[when]} TRIGGER {quoted(each)}"
            connection.execute(statement.encode())
    return lost


def _option(grantable: bool) -> str:
    return " WITH GRANT OPTION" if grantable else ""


def literal(connection: Connection, text: str | None) -> str:
    return "NULL" if text is None else str(row(connection, "SELECT quote_literal(%s)", text)[0])


def rows(connection: Connection, statement: str, *values: object) -> list[Any]:
    return connection.execute(statement.encode(), values).fetchall()


def row(connection: Connection, statement: str, *values: object) -> tuple[Any, ...]:
    (found,) = rows(connection, statement, *values)
    return tuple(found)
