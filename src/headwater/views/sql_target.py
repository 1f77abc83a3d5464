"""What views in SQLite and in PostgreSQL have in common: a table for each version, and who may use it.

The version that readers see has the view's name, another one NAME__v2; a switch renames both in one
transaction, and a writer looks up where its version is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headwater.views.sql_book import SqlBook, quoted
from headwater.views.target import Applied, Fenced, Misfit, Target


class Tables(Protocol):
    """The statements for a view's own tables."""

    visible: list[str]

    def create(self, place: str, label: str) -> list[str]: ...


class SqlTarget(Target):
    """A view as a table; rows and position change in one transaction of the store."""

    _book: SqlBook
    _tables: Tables

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        book = self._book
        with book.writing() as connection:
            book.create(connection)
            entry = book.find(connection)
            if entry is not None:
                self._must_fit(connection, entry.place)
                return
            label = f"{self.name}__v{self.shape.version}"
            first = book.current(connection) is None
            place = self.name if first else label
            if book.columns_of(connection, place):
                self._adopt(connection, place)
            else:
                for statement in self._tables.create(place, label):
                    book.run(connection, statement)
            book.add(connection, place, current=first)

    def claim(self) -> int:
        with self._book.writing() as connection:
            return self._book.claim(connection)

    def applied(self) -> Applied | None:
        with self._book.connected() as connection:
            entry = self._book.find(connection)
            return entry.applied if entry else None

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def _is_new(self, connection: Any, applied: Applied) -> str | None:
        """The table for a batch that is to be applied, None if it is there; `Fenced` for an old writer."""
        entry = self._book.known(connection, lock=True)
        if entry.epoch > applied.epoch:
            raise Fenced(
                f"the view {self.shape.view!r} in {self._book.where} has another writer now"
            )
        is_new = entry.applied is None or entry.applied.batch < applied.batch
        return entry.place if is_new else None

    # ---- versions ---------------------------------------------------------------------------------

    def versions(self) -> dict[int, Applied | None]:
        with self._book.connected() as connection:
            entries = self._book.all(connection)
        return {version: entry.applied for version, entry in entries.items()}

    def current(self) -> int | None:
        with self._book.connected() as connection:
            return self._book.current(connection)

    def switch(self) -> None:
        book = self._book
        with book.writing() as connection:
            book.lock_all(connection)
            entry, before = book.known(connection), book.current(connection)
            if entry.current:
                return
            if before is not None:
                book.move(connection, before, self.name, f"{self.name}__v{before}")
            book.move(connection, self.shape.version, entry.place, self.name, current=True)

    def drop(self) -> None:
        with self._book.writing() as connection:
            self._book.lock_all(connection)
            entry = self._book.find(connection)
            if entry is None:
                return
            if entry.current:
                raise Misfit(
                    f"version {self.shape.version} of the view {self.shape.view!r} is what readers see",
                    hint="switch to another version first",
                )
            self._drop_staged(connection)
            self._book.run(connection, f"DROP TABLE {quoted(entry.place)}")
            self._book.remove(connection)

    def _drop_staged(self, connection: Any) -> None:
        """Remove what is put aside in the store itself for this version."""
        return

    # ---- tables that were there -------------------------------------------------------------------

    def _must_fit(self, connection: Any, place: str) -> None:
        found: Sequence[str] = self._book.columns_of(connection, place)
        wanted = self._tables.visible
        if set(found) != set(wanted):
            raise Misfit(
                f"the table {place} in {self._book.where} has the columns "
                f"{', '.join(found) or 'none'}, and the view {self.shape.view!r} has "
                f"{', '.join(wanted)}: build a new version of it with "
                f"headwater rebuild {self.shape.view}"
            )

    def _adopt(self, connection: Any, place: str) -> None:
        """A table that somebody made for the view, perhaps with more rules, may be used if empty."""
        self._must_fit(connection, place)
        if self._book.run(connection, f"SELECT 1 FROM {quoted(place)} LIMIT 1").fetchone():
            raise Misfit(
                f"the table {place} in {self._book.where} has rows that are not of the view "
                f"{self.shape.view!r}: empty it, or name another one with options={{'table': …}}"
            )
