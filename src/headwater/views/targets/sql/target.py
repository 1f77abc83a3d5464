"""What views in SQLite and in PostgreSQL have in common: a table for each version, and who may use it.

The version that readers see has the view's name, another one NAME__v2; a switch renames both in one
transaction, and a writer looks up where its version is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

from headwater.views.targets.contract import Applied, Fenced, Misfit, Target
from headwater.views.targets.places import Naming, must_be_alone, must_be_free
from headwater.views.targets.schema_fit import Types, must_fit, noted, types_of
from headwater.views.targets.sql.book import SqlBook, quoted


class Tables(Protocol):
    """The statements for a view's own tables."""

    visible: list[str]

    def create(self, place: str, label: str, kept: Types) -> list[str]:
        """`label` names the indexes; `kept`: types of columns that are not to be our own."""

    def types(self) -> Types:
        """Of the columns of a table that we make."""

    def keeps(self, name: str, found: str) -> bool:
        """Whether a column of a type that somebody chose keeps the view's values as they are, or
        refuses them."""


class SqlTarget(Target):
    """A view as a table; rows and position change in one transaction of the store."""

    naming: ClassVar[Naming]
    """How the store compares names of tables."""
    _book: SqlBook
    _tables: Tables

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        book = self._book
        with book.writing() as connection:
            book.create(connection)
            entry = book.find(connection)
            taken = book.others(connection)
            if entry is not None:
                must_be_alone(entry.place, book.where, taken, self.naming)
                self._must_fit(connection, entry.place)
                book.note_shape(connection, noted(self.shape))
                return
            must_be_free(self.name, book.where, taken, self.naming)
            label = f"{self.name}__v{self.shape.version}"
            first = book.current(connection) is None
            place = self.name if first else label
            if book.columns_of(connection, place):
                self._adopt(connection, place)
            else:
                for statement in self._tables.create(place, label, self._kept(connection)):
                    book.run(connection, statement)
                if not first:
                    self._copy_rules(connection, place)
            book.add(connection, place, current=first)
            book.note_shape(connection, noted(self.shape))

    def can_widen(self) -> bool:
        return True

    def widen(self) -> None:
        book = self._book
        with book.writing() as connection:
            book.create(connection)
            entry = book.find(connection, lock=True)
            if entry is None:
                return
            found, kept = book.types_of(connection, entry.place), self.shape.schema.names
            for name, kind in self._tables.types().items():
                if name not in found and name in kept:
                    table = quoted(entry.place)
                    book.run(connection, f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {kind}")
            before = book.shape_of(connection, self.shape.version)
            if before is not None:
                new = {n: k for n, k in types_of(self.shape.schema).items() if n not in found}
                book.note_shape(connection, json.dumps({**before, **new}, ensure_ascii=False))

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

    def switch(self) -> list[str]:
        book, lost = self._book, list[str]()
        with book.writing() as connection:
            book.lock_all(connection)
            entry, before = book.known(connection), book.current(connection)
            if entry.current:
                return []
            if before is None:
                book.move(connection, self.shape.version, entry.place, self.name, current=True)
                return []
            with self._handing_over(connection, entry.place, before, lost):
                book.move(connection, before, self.name, f"{self.name}__v{before}")
                book.move(connection, self.shape.version, entry.place, self.name, current=True)
        return lost

    @contextmanager
    def _handing_over(
        self, connection: Any, place: str, before: int, lost: list[str]
    ) -> Iterator[None]:
        """Around the renaming: what people have put on the table that served goes to the next one.

        What does not is added to `lost`, in words.
        """
        yield

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
            self._must_be_free(connection, entry.place)
            self._book.run(connection, f"DROP TABLE {quoted(entry.place)}")
            self._book.remove(connection)

    def _must_be_free(self, connection: Any, place: str) -> None:
        """Misfit where something that people have made needs the table."""
        return

    def _drop_staged(self, connection: Any) -> None:
        """Remove what is put aside in the store itself for this version."""
        return

    # ---- tables that were there -------------------------------------------------------------------

    def _must_fit(self, connection: Any, place: str) -> None:
        """Misfit where the view has other columns or types than when its table was made."""
        where = f"the table {place} in {self._book.where}"
        before = self._book.shape_of(connection, self.shape.version)
        if before is not None:
            must_fit(self.shape, where, before, types_of(self.shape.schema))
        found, wanted = self._book.types_of(connection, place), dict(self._tables.types())
        # A type that somebody else chose for the table may do as well as ours.
        alike = {n: wanted[n] for n, t in found.items() if n in wanted and self._tables.keeps(n, t)}
        must_fit(self.shape, where, {**found, **alike}, wanted)

    def _kept(self, connection: Any) -> Types:
        """Types that somebody chose for the table that serves, of columns that are as they were."""
        return {}

    def _copy_rules(self, connection: Any, place: str) -> None:
        """A new version, still empty, gets the indexes and rules of the table that serves."""
        return

    def _adopt(self, connection: Any, place: str) -> None:
        """A table that somebody made for the view, perhaps with more rules, may be used if empty."""
        self._must_fit(connection, place)
        coarse = {name for (name,) in self._book.run(connection, self._book.coarse, (place,))}
        if merged := [name for name in self.shape.key if name in coarse]:
            raise Misfit(
                f"the table {place} in {self._book.where} takes texts that differ for one key in "
                f"{merged[0]}, as A and a: rows of the view {self.shape.view!r} would replace others",
                hint="make the column without that collation, or let the query make such keys one",
            )
        if self._book.run(connection, f"SELECT 1 FROM {quoted(place)} LIMIT 1").fetchone():
            raise Misfit(
                f"the table {place} in {self._book.where} has rows that are not of the view "
                f"{self.shape.view!r}: empty it, or name another one with options={{'table': …}}"
            )
