"""The one connection of a capture to its database file, and what waiting for a lock means.

Used by everything else in this package. Reading never waits long (WAL: not at all); writing is short
(a prune, new triggers) and gives way: an application must not be refused because of a capture.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from headwater.capture.errors import Interrupted, Misconfigured, SourceRefused

BUSY_MS = 5_000
OLDEST = (3, 37, 0)  # PRAGMA table_list; generated columns and RETURNING came before
_FOR_NOW = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}


def file_of(url: str) -> Path:
    """The file of `sqlite:shop.db`, `sqlite:/var/shop.db` or `sqlite:///var/shop.db`."""
    rest = unquote(url.partition(":")[2])
    if rest.startswith("//"):
        rest = rest[2:]
    if not rest or rest == ":memory:":
        raise Misconfigured(
            f"{url!r} names no database file",
            hint='write from = "sqlite:shop.db"; a database in memory cannot be captured',
        )
    return Path(rest)


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing file; without implicit transactions."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise SourceRefused(
            f"Python's SQLite is {sqlite3.sqlite_version}, 3.37 is needed",
            hint="use a Python that was built with a newer SQLite",
        )
    if not path.is_file():
        raise SourceRefused(f"there is no file {path}", hint="create the database first")
    connection = sqlite3.connect(
        path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        with plainly(path):
            _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    # Also finds out that it is no database, or is encrypted.
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    # What we write (pruning) may be repeated; in a rollback journal less would risk the file.
    connection.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'FULL'}")
    connection.execute("PRAGMA cache_size=-8192")


@contextlib.contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours: what waiting mends, and what it does not."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in _FOR_NOW:
            raise Interrupted(f"{path}: {error}") from error
        raise SourceRefused(
            f"{path}: {error}", hint="look at the file with: headwater capture check"
        ) from error


def is_damaged_text(error: sqlite3.Error) -> bool:
    """SQLite lets an application store any bytes as text; JSON is UTF-8."""
    return "Could not decode to UTF-8" in str(error)


def tolerate_damaged_text(connection: sqlite3.Connection) -> None:
    """From here on U+FFFD stands for what is no UTF-8. Slower, so only once it is needed."""
    connection.text_factory = lambda data: data.decode("utf-8", "replace")


@contextlib.contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """One moment of the database for everything that is read inside."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def writing(connection: sqlite3.Connection, wait_ms: int = BUSY_MS) -> Iterator[None]:
    """One transaction that nobody writes beside; committed at the end."""
    connection.execute(f"PRAGMA busy_timeout={wait_ms}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'
