"""Keys that two rows have at once: the transactions of a table whose primary key is DEFERRABLE.

Used for PostgreSQL's tables with REPLICA IDENTITY FULL, where such a key is the records' key. Until the
transaction ends, a row may arrive at a key that another has not left yet:

    UPDATE t SET id = 3 - id        (1, a) → (2, a)    then    (2, b) → (1, b)

The second row leaves the key 2, which then is the first one's, and no delete may say otherwise. Rows are
told apart by their values. What the transaction does not tell is whether a key was taken before the first
row arrived there; where that row leaves again, the key must be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.capture.change import TRANSACTION_BYTES_MAX

DOUBTS_MAX = 100
Row = Sequence[str]


@dataclass
class _Seat:
    """Who is at one key, as far as the transaction has told."""

    rows: list[Row] = field(default_factory=list)
    may_have_been_taken: bool = True


class Occupants:
    """The keys of one table within one transaction."""

    def __init__(self) -> None:
        self._seats: dict[bytes | None, _Seat] = {}
        self._bytes = 0
        self._doubts: set[str] = set()

    def arrive(self, key: bytes | None, row: Row) -> None:
        """A row is there now, whoever is there beside it."""
        self._bytes += 100 + sum(map(len, row))
        if self._bytes <= TRANSACTION_BYTES_MAX:
            self._seats.setdefault(key, _Seat()).rows.append(row)
        else:
            self._seats.clear()

    def stay(self, key: bytes | None, before: Row, after: Row) -> None:
        """A row has other values under the same key."""
        self._seats.setdefault(key, _Seat())
        self._remove(key, before)
        self.arrive(key, after)

    def leave(self, key: bytes | None, row: Row, where: str) -> Row | None:
        """A row is no longer there; the one that is, if it is known. `where`: the key, in SQL."""
        if key in self._seats:
            self._remove(key, row)
            seat = self._seats[key]
            if seat.rows:
                return seat.rows[-1]
            if seat.may_have_been_taken and len(self._doubts) <= DOUBTS_MAX:
                self._doubts.add(where)
        return None

    def _remove(self, key: bytes | None, row: Row) -> None:
        seat = self._seats[key]
        if row in seat.rows:
            seat.rows.remove(row)
        else:
            seat.may_have_been_taken = False  # it was, by this row

    def doubts(self) -> str | None:
        """A condition for the rows that are to be read, empty: all; None: there are none."""
        if self._bytes > TRANSACTION_BYTES_MAX or len(self._doubts) > DOUBTS_MAX:
            return ""
        return " OR ".join(sorted(self._doubts)) if self._doubts else None


class Occupancy:
    """All such tables of one transaction."""

    def __init__(self) -> None:
        self._tables: dict[str, Occupants] = {}

    def begin(self) -> None:
        """Another transaction."""
        self._tables.clear()

    def of(self, table: str) -> Occupants:
        return self._tables.setdefault(table, Occupants())

    def doubts(self) -> list[tuple[str, str]]:
        """Table and condition of the rows that are to be read."""
        found = [(name, occupants.doubts()) for name, occupants in self._tables.items()]
        return [(name, where) for name, where in found if where is not None]
