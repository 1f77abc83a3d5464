"""What the contract asks of a database, and a capture of it that is driven by hand, without a log.

Each kind of server has its own file beside this one. A test knows a database by what it can do (`can`).
"""

from __future__ import annotations

import itertools
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from headwater.capture.change import Batch, Position
from headwater.capture.config import CaptureConfig
from headwater.capture.source import Source, open_source

STILL_S = 100.0
_numbers = itertools.count(1)

KEYS_CHANGE = "keys change"
KEYS_REDEFINED = "a table's key becomes other columns"
TRANSACTIONS = "transactions of many rows"
COLUMNS = "columns are added, dropped, renamed, retyped"
TRUNCATE = "truncate"
RENAME = "tables are renamed"
ROWS_FOLLOW = "rows of a renamed table that do not change are read under its new name"
PARTITIONS = "partitions come and go with their rows"
REPLACE = "a table is made in the place of another"
RESET = "its log can be reset"
PURGE = "its log can be purged"
SILENCE = "silence is noticed"
NO_KEY = "tables without a key"
VERSIONS = "tables keep their old rows"
SESSIONS = "what a session begins with can be set for all"
READ_AGAIN = "tables are read again while it streams"


def needs(*abilities: str) -> pytest.MarkDecorator:
    """A clause of the contract for databases that can do these things."""
    return pytest.mark.needs(*abilities)


Row = dict[str, Any]
Type = tuple[str, tuple[str, ...], str]
"""A column's type, values for it as the server takes them, and an expression over the column `c` with
which a SELECT shows what the record must have, as JSON; without one, snapshot and stream are compared."""
OTHER = 1_000
"""Rows of `types` that are streamed have the numbers of those that were there before, and this."""


class Subject(ABC):
    """One database of a server that runs, and what a source has handed over of it so far."""

    can: ClassVar[frozenset[str]]
    ddl: ClassVar[Mapping[str, Sequence[str]]] = {}
    """What it is called → statements that change the table t, whose rows are all written anew after."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"contract{next(_numbers)}"
        self.position: Position | None = None
        self.records: list[tuple[str, Any, Any]] = []
        self.marks = self.marked = 0
        self.options: dict[str, Any] = {}
        self.make_database()
        self.create("mark")

    # ── the database ───────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def make_database(self) -> None: ...

    @abstractmethod
    def remove_database(self) -> None: ...

    @abstractmethod
    def url(self, port: int | None = None) -> str: ...

    @property
    @abstractmethod
    def port(self) -> int: ...

    @abstractmethod
    def kill(self) -> None:
        """kill -9 of the server."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def create(self, table: str) -> None:
        """With the key `id`, a number `n` and a text `s`."""

    @abstractmethod
    def insert(self, table: str, first: int, last: int, text: str = "x") -> None:
        """These rows, `n` = `id`, in one transaction."""

    @abstractmethod
    def set(self, table: str, identity: int, n: int) -> None: ...

    @abstractmethod
    def delete(self, table: str, identity: int) -> None: ...

    @abstractmethod
    def select(self, table: str) -> list[Row]:
        """As the server shows it, in the order of `id`."""

    @abstractmethod
    def write_types(self) -> None:
        """The table `types`, with every type at its extremes, and null."""

    @abstractmethod
    def write_types_again(self) -> None:
        """The same values, under other keys."""

    @abstractmethod
    def selected_types(self) -> list[Row]:
        """What the server says about the first rows, as records must show it."""

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def redefine(self, table: str, *columns: str) -> None:
        """These columns are its key from now on; without any it has none."""
        raise NotImplementedError

    def retype_as_text(self, table: str, column: str) -> None:
        raise NotImplementedError

    def begin_sessions_oddly(self) -> None:
        """From now on a session begins with limits and forms that nobody expects; not those of `execute`."""
        raise NotImplementedError

    def read_again(self, table: str, after: list[str] | None) -> None:
        """As if it were being read again, behind that key."""
        raise NotImplementedError

    def truncate(self, table: str) -> None:
        self.execute(f"TRUNCATE TABLE {table}")

    def lose(self) -> None:
        """The server forgets what comes after the position."""
        raise NotImplementedError

    def purge(self) -> None:
        """The server's log no longer reaches back to the position."""
        raise NotImplementedError

    # ── the capture ────────────────────────────────────────────────────────────────────────────

    def config(self, *tables: str, port: int | None = None, **more: Any) -> CaptureConfig:
        more = {"transactions": False, "bootstrap": "127.0.0.1:1", "options": self.options, **more}
        return CaptureConfig(self.name, self.url(port), tables, **more)

    def snapshot(
        self, *tables: str, batches: int | None = None, while_catching_up: bool = True
    ) -> None:
        """`batches`: killed after so many; those in which it catches up with changes count, or not."""
        source = open_source(self.config(*tables))
        number = 0
        try:
            source.topics()
            for batch in source.snapshot(self.position):
                self.take(batch)
                number += while_catching_up or not batch.streamed
                if number == batches:
                    return
        finally:
            source.close()

    def stream(self, *tables: str, port: int | None = None) -> None:
        """All that is there now: until a row that is written now has come, and what is read again."""
        source = open_source(self.config(*tables, port=port))
        try:
            source.topics()  # as a run does; what it asks for lies before the mark
            self.marks += 1
            self.insert("mark", self.marks, self.marks)
            for _ in self.followed(source):
                if self.marked == self.marks and "incremental" not in (self.position or {}):
                    return
        finally:
            source.close()

    def stream_without_a_server(self) -> None:
        """Raises: nobody is there."""
        assert self.position is not None
        source = open_source(self.config())
        try:
            next(source.stream(self.position))
        finally:
            source.close()

    def follow(self, source: Source, act: Callable[[], None]) -> None:
        """Until it raises; after each batch something is done to it."""
        for _ in self.followed(source):
            act()

    def followed(self, source: Source) -> Iterator[Batch]:
        """Its batches, for as long as any come."""
        assert self.position is not None
        deadline = time.monotonic() + STILL_S
        for batch in source.stream(self.position):
            if batch.records:
                deadline = time.monotonic() + STILL_S
            assert time.monotonic() < deadline, f"it stands still at {batch.position}"
            self.take(batch)
            source.acknowledge(batch.position)
            yield batch

    def take(self, batch: Batch) -> None:
        self.position = json.loads(json.dumps(batch.position))
        for topic, key, value, *_ in batch.records:
            read = None if value is None else json.loads(value)
            self.records.append((topic, key, read))
            if read is not None and topic == f"{self.name}.mark" and read["after"]:
                self.marked = int(self.row(read["after"])["id"])

    def row(self, after: Any) -> Row:
        return dict(after)

    def changes(self, table: str) -> list[tuple[str, Any]]:
        """(op, after) of a table's topic."""
        return [
            (value["op"], value["after"] and self.row(value["after"]))
            for topic, _, value in self.records
            if topic == f"{self.name}.{table}" and value is not None
        ]

    def fold(self, table: str) -> list[Row]:
        """The table that the changes make."""
        rows: dict[Any, Row] = {}
        for topic, key, value in self.records:
            if topic != f"{self.name}.{table}" or value is None:
                continue
            if value["op"] == "t":
                rows.clear()
            elif value["op"] == "d":
                rows.pop(key, None)
            else:
                rows[key] = self.row(value["after"])
        return sorted(rows.values(), key=lambda row: row["id"])

    def close(self) -> None:
        self.remove_database()
