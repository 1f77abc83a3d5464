"""Connections to the server, and its errors in our words.

Called by everything here that talks to PostgreSQL. Every connection asks for the one text form of
each type that `types` reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headwater.capture.errors import Interrupted, Misconfigured, SourceRefused

Connection: TypeAlias = psycopg.Connection[Any]

# bytea and floats have other text forms too; a row must not depend on the server's settings.
SESSION = (
    "-c DateStyle=ISO -c IntervalStyle=iso_8601 -c TimeZone=UTC "
    "-c bytea_output=hex -c extra_float_digits=1 -c client_encoding=UTF8 "
    "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c lock_timeout=0 "
    "-c idle_session_timeout=0 -c default_transaction_read_only=off "
    # Rows that a policy hides from this role are an error: a snapshot without them would look whole.
    "-c row_security=off"
)
TRANSACTION_TIMEOUT_SINCE = 170_000
CONNECT_TIMEOUT_S = 10
APPLICATION = "headwater capture"


def conninfo(url: str, **more: str) -> str:
    """libpq's form of the address, with our session settings behind the user's own."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise Misconfigured(
            f"the address of the database is not understood: {str(error).strip()}",
            hint="write it as postgresql://user@host:port/database",
        ) from None
    options = f"{given.get('options') or ''} {SESSION}".strip()
    own = {"options": options, "application_name": APPLICATION, **more}
    if "connect_timeout" not in given:
        own["connect_timeout"] = str(CONNECT_TIMEOUT_S)
    if "tcp_user_timeout" not in given:
        own["tcp_user_timeout"] = "30000"  # what was sent and never arrived: the network was cut
    return make_conninfo(url, **own)


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """An ordinary connection, autocommit."""
    with plain():
        connection = psycopg.connect(conninfo(url), autocommit=True)
        if connection.info.server_version >= TRANSACTION_TIMEOUT_SINCE:
            connection.execute("SET transaction_timeout = 0")  # a snapshot is one transaction
        return connection


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """psycopg's errors: what time mends becomes Interrupted, what a person must mend SourceRefused."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error) from None


def translated(error: psycopg.Error) -> Exception:
    said = " ".join(str(error).split()) or type(error).__name__
    state = error.sqlstate or ""
    if state[:2] in ("28", "3D") or _names_login(said):
        return SourceRefused(f"PostgreSQL refuses the connection: {said}", hint="correct `from`")
    if state == "42501":
        return SourceRefused(f"PostgreSQL: {said}", hint="see: headwater capture check")
    # 25: read-only just now, after a failover; or ended by a time-out.
    if not state or state[:2] in ("08", "25", "53", "57", "55", "40", "58", "XX"):
        return Interrupted(f"PostgreSQL: {said}")
    return SourceRefused(f"PostgreSQL: {said} ({state})", hint="see: headwater capture check")


def _names_login(said: str) -> bool:
    # While connecting, libpq gives the sentence and no SQLSTATE.
    return any(
        part in said
        for part in ("authentication failed", "no pg_hba.conf entry", "does not exist")
        if "FATAL" in said
    )


def identifier(*parts: str) -> str:
    """A quoted name, for statements that take no parameters."""
    return sql.Identifier(*parts).as_string(None)


def literal(value: str) -> str:
    return sql.Literal(value).as_string(None)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)
