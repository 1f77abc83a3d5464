"""What a SQL store knows of the views in it: the table `headwater_views`.

view, version   which
place           the table of this version at the moment: a switch renames
epoch           of the writer; an older one is refused
batch, position how far it is; null before the first batch
current         whether readers see it under the view's name
shape           the view's columns and types when the table was made (`schema_fit`); null in older books

The statements are the same for SQLite and PostgreSQL; connections, locks and the mark of a parameter are
each store's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

from headwater.client.position import Position
from headwater.views.targets.contract import Applied, Misfit, Shape
from headwater.views.targets.schema_fit import Types, read_note

TABLE = "headwater_views"
_FIELDS = "place, epoch, batch, position, current"


class Entry(NamedTuple):
    """One version of a view."""

    place: str
    epoch: int
    applied: Applied | None
    current: bool


class SqlBook(ABC):
    """The entries of one view in one store."""

    mark: ClassVar[str]
    """How the store's library writes a parameter."""
    for_update: ClassVar[str] = ""
    """What keeps a row that was read from others until the end; nothing where all is locked already."""
    coarse: ClassVar[str]
    """Asks for the columns in which a table takes texts that differ for the same, as `A` and `a`."""

    def __init__(self, where: str, shape: Shape) -> None:
        self.where = where
        """The store, as people know it; without a password."""
        self._view, self._version = shape.view, shape.version
        self._mine = f"WHERE view = {self.mark} AND version = {self.mark}"

    # ---- each store's own -------------------------------------------------------------------------

    @abstractmethod
    def connected(self) -> AbstractContextManager[Any]:
        """A connection to look with."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Any]:
        """One transaction."""

    @abstractmethod
    def create(self, connection: Any) -> None:
        """Make the table where it is missing."""

    @abstractmethod
    def run(self, connection: Any, statement: str, values: Sequence[object] = ()) -> Any:
        """Execute a statement; returns the cursor."""

    @abstractmethod
    def types_of(self, connection: Any, table: str) -> dict[str, str]:
        """Column to type, as the store writes it; empty where there is no such table."""

    @abstractmethod
    def lock_all(self, connection: Any) -> None:
        """Keep writers of all versions out until the end of the transaction."""

    def columns_of(self, connection: Any, table: str) -> list[str]:
        """Empty where there is no such table."""
        return list(self.types_of(connection, table))

    # ---- looking ----------------------------------------------------------------------------------

    def find(self, connection: Any, *, lock: bool = False) -> Entry | None:
        if not self.columns_of(connection, TABLE):
            return None
        statement = f"SELECT {_FIELDS} FROM {TABLE} {self._mine}{self.for_update if lock else ''}"
        found = self.run(connection, statement, (self._view, self._version)).fetchone()
        return None if found is None else _entry(*found)

    def known(self, connection: Any, *, lock: bool = False) -> Entry:
        entry = self.find(connection, lock=lock)
        if entry is None:
            raise Misfit(
                f"version {self._version} of the view {self._view!r} is not in {self.where}",
                hint="headwater run and headwater rebuild make versions",
            )
        return entry

    def all(self, connection: Any) -> dict[int, Entry]:
        """Every version of the view."""
        if not self.columns_of(connection, TABLE):
            return {}
        statement = (
            f"SELECT version, {_FIELDS} FROM {TABLE} WHERE view = {self.mark} ORDER BY version"
        )
        found = self.run(connection, statement, (self._view,))
        return {version: _entry(*rest) for version, *rest in found}

    def current(self, connection: Any) -> int | None:
        entries = self.all(connection).items()
        return next((version for version, entry in entries if entry.current), None)

    def others(self, connection: Any) -> list[tuple[str, str]]:
        """View and place of what is not this view's."""
        statement = f"SELECT view, place FROM {TABLE} WHERE view <> {self.mark}"
        return list(self.run(connection, statement, (self._view,)))

    def shape_of(self, connection: Any, version: int) -> Types | None:
        """What was noted of a version's columns; the book must be there."""
        statement = f"SELECT shape FROM {TABLE} {self._mine}"
        found = self.run(connection, statement, (self._view, version)).fetchone()
        return None if found is None else read_note(found[0])

    # ---- inside a transaction ---------------------------------------------------------------------

    def add(self, connection: Any, place: str, *, current: bool) -> None:
        marks = ", ".join([self.mark] * 5)
        self.run(
            connection,
            f"INSERT INTO {TABLE} (view, version, place, epoch, current) VALUES ({marks})",
            (self._view, self._version, place, 0, current),
        )

    def claim(self, connection: Any) -> int:
        epoch = self.known(connection, lock=True).epoch + 1
        self._set(connection, self._version, epoch=epoch)
        return epoch

    def note(self, connection: Any, applied: Applied) -> None:
        position = applied.position.to_json()
        self._set(connection, self._version, batch=applied.batch, position=position)

    def move(
        self, connection: Any, version: int, place: str, to: str, *, current: bool = False
    ) -> None:
        self.run(connection, f"ALTER TABLE {quoted(place)} RENAME TO {quoted(to)}")
        self._set(connection, version, place=to, current=current)

    def note_shape(self, connection: Any, text: str) -> None:
        self._set(connection, self._version, shape=text)

    def remove(self, connection: Any) -> None:
        self.run(connection, f"DELETE FROM {TABLE} {self._mine}", (self._view, self._version))

    def _set(self, connection: Any, version: int, **values: object) -> None:
        changes = ", ".join(f"{name} = {self.mark}" for name in values)
        statement = f"UPDATE {TABLE} SET {changes} {self._mine}"
        self.run(connection, statement, (*values.values(), self._view, version))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _entry(place: str, epoch: int, batch: int | None, position: str | None, current: bool) -> Entry:
    applied = None
    if batch is not None and position is not None:
        applied = Applied(batch, epoch, Position.from_json(position))
    return Entry(place, epoch, applied, bool(current))
