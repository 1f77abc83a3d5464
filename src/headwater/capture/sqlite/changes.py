"""Rows of the change table become events; what REPLACE removed without a trigger is found here.

Called by `drain` with the rows of one look, in order. Pure: no database, no clock.

REPLACE: before an INSERT (UPDATE), our trigger notes each row that has one of the new row's unique
values, as p (q). SQLite then refuses, ignores, updates instead, or removes those rows and goes on. Only
in the last case does a c (u) with the very same unique values follow, because two rows cannot have
them. So that c settles it: rows in the way are gone, and a row of the same key was in truth updated.
Between p and its c there may be other changes (cascades, an application's own triggers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from headwater.capture.sqlite.shape import Shape

Values: TypeAlias = tuple[Any, ...]
NESTED_MAX = 16
"""So many statements may be under way inside each other (triggers) and still be told apart."""


class Event(NamedTuple):
    """One thing that happened. `op`: c u d r t as in the envelope, or s b as in the change table."""

    op: str
    sid: int
    seq: int
    at: float
    before: Values | None
    after: Values | None


class _Noted(NamedTuple):
    seq: int
    values: Values
    new: Values


class Resolver:
    """From rows to events; holds what is noted as in the way, within one transaction."""

    def __init__(self, shape_of: Callable[[int], Shape]) -> None:
        self._shape_of = shape_of
        self._noted: dict[tuple[int, str], list[_Noted]] = {}

    def resolve(self, rows: Iterable[Sequence[Any]]) -> list[Event]:
        """`rows`: seq, at, sid, op, v0, v1, …"""
        events: list[Event] = []
        for row in rows:
            seq, at, sid, op = row[:4]
            if op in ("s", "b", "t"):
                events.append(Event(op, sid, seq, at, None, tuple(row[4:7])))
                continue
            width = len(self._shape_of(sid).names)
            first = tuple(row[4 : 4 + width])
            if op == "d":
                self._forget(sid, first)
                events.append(Event("d", sid, seq, at, first, None))
                continue
            if op == "c":
                if self._noted:
                    events += self._inserted(sid, seq, at, first)
                else:
                    events.append(Event("c", sid, seq, at, None, first))
                continue
            second = tuple(row[4 + width : 4 + 2 * width])
            if op in ("p", "q"):
                self._note((sid, "c" if op == "p" else "u"), _Noted(seq, first, second))
            elif self._noted:
                events += self._updated(sid, seq, at, first, second)
            else:
                events.append(Event("u", sid, seq, at, first, second))
        return events

    def held(self) -> list[int]:
        """Notes that may still matter; to be read again by whoever goes on in mid-transaction."""
        return sorted(note.seq for notes in self._noted.values() for note in notes)

    def settle(self) -> None:
        """The transaction is over: what was not removed by now was not removed."""
        self._noted.clear()

    def _note(self, key: tuple[int, str], note: _Noted) -> None:
        notes = self._noted.setdefault(key, [])
        notes.append(note)
        if len({one.new for one in notes}) > NESTED_MAX:
            eldest = notes[0].new
            self._noted[key] = [one for one in notes if one.new != eldest]

    def _inserted(self, sid: int, seq: int, at: float, new: Values) -> list[Event]:
        shape = self._shape_of(sid)
        events, before = [], None
        for row in self._removed(sid, "c", shape, new):
            if _part(row, shape.key) == _part(new, shape.key):
                before = row
            else:
                events.append(Event("d", sid, seq, at, row, None))
        op = "c" if before is None else "u"
        return [*events, Event(op, sid, seq, at, before, new)]

    def _updated(self, sid: int, seq: int, at: float, old: Values, new: Values) -> list[Event]:
        shape = self._shape_of(sid)
        events = [
            Event("d", sid, seq, at, row, None) for row in self._removed(sid, "u", shape, new)
        ]
        self._forget(sid, old)
        return [*events, Event("u", sid, seq, at, old, new)]

    def _removed(self, sid: int, op: str, shape: Shape, new: Values) -> list[Values]:
        notes = self._noted.get((sid, op))
        if not notes:
            return []
        mine = [note for note in notes if _same_uniques(shape, note.new, new)]
        self._noted[sid, op] = [note for note in notes if note not in mine]
        if not self._noted[sid, op]:
            del self._noted[sid, op]
        alias = shape.order[0] if shape.rowid is None and len(shape.order) == 1 else None
        rows = {
            # An ignored statement may have noted the same row before: the last note counts.
            tuple(_part(note.values, shape.order)): note.values
            for note in mine
            # Before an INSERT that leaves the number to SQLite, the new row's number reads -1.
            if alias is None or not (note.values[alias] == -1 != new[alias])
        }
        for row in rows.values():
            self._forget(sid, row)
        return list(rows.values())

    def _forget(self, sid: int, row: Values) -> None:
        """The row is gone or is another by now, so nothing that comes can replace it."""
        for key in ((sid, "c"), (sid, "u")):
            notes = self._noted.get(key)
            if notes:
                left = [note for note in notes if note.values != row]
                if left:
                    self._noted[key] = left
                else:
                    del self._noted[key]


def _part(row: Values, places: Sequence[int]) -> list[tuple[type, Any]]:
    return [(type(row[place]), row[place]) for place in places]


def _same_uniques(shape: Shape, noted: Values, new: Values) -> bool:
    lead = shape.order[0] if shape.rowid is None and len(shape.order) == 1 else None
    for unique in shape.uniques:
        for place in unique.places:
            if place == lead and noted[place] == -1:
                continue
            if noted[place] != new[place]:
                return False
    return True
