"""A database of its own on a PostgreSQL that somebody else runs, for the time of the demo.

Called by `job` where --database is given. The tables of that server are left alone: the shop gets a new
database, which is dropped in the end together with the replication slot of the capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from headwater.errors import HeadwaterError
from headwater.project.demo.shop.database import TABLES
from headwater.project.demo.summary import DemoFailed


@contextmanager
def own_database(server: str, name: str) -> Iterator[str]:
    """The address of a new, empty database of that name."""
    try:
        import psycopg
    except ModuleNotFoundError:
        raise DemoFailed(
            "PostgreSQL needs psycopg", hint="pip install 'headwater[postgres]'"
        ) from None
    try:
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
    except psycopg.Error as error:
        said = str(error).strip().splitlines()[0]
        raise DemoFailed(
            f"no database can be made there: {said}",
            hint="give the address of a server and of a user who may: postgresql://USER@HOST/postgres",
        ) from None
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as db:
            _drop(db, name)


def check(url: str, slot: str) -> None:
    """Raise DemoFailed with what mends it if the server cannot be captured from."""
    from headwater.capture.config import CaptureConfig
    from headwater.capture.source import open_source

    try:
        source = open_source(CaptureConfig("shop", url, tables=TABLES, options={"slot": slot}))
        try:
            wrong = [each for each in source.check() if not each.ok]
        finally:
            source.close()
    except HeadwaterError as error:
        raise DemoFailed(str(error), hint=error.hint) from None
    if wrong:
        raise DemoFailed(wrong[0].sentence, hint=wrong[0].remedy)


def _drop(db: Any, name: str) -> None:
    db.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
        (name,),
    )
    db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
