"""Where a capture has come to: the position of a SQLite source, and what is still to be read in chunks.

Held by `drain`; written into the log with each batch. As JSON:

    id        the database's identity (`state`): a position fits one file only
    seq, at   the last change that the log has; `at` shows that it is still the same change
    snapshot  tables → how far: while the first snapshot is not complete
    backfill  tables → how far: later, for a table that is new or was made anew, or on request
    tx        a commit that was cut: its id, last seq, and counts so far
    held      notes of rows in the way (`changes`) that may still matter, to be read again

A table's `key` is the last row read (null: none yet). `fresh`: readers have none of its rows yet, so
changes of rows behind `key` need not be told: the chunk that brings the row brings its last state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headwater.capture.change import Position
from headwater.capture.sqlite.changes import Event, Values
from headwater.capture.sqlite.shape import Shape


@dataclass
class Pending:
    """A table that is being read in chunks."""

    key: Values | None = None
    fresh: bool = True
    where: str | None = None
    """Only these rows are read, where not all were asked for."""

    def covers(self, shape: Shape, values: Values) -> bool:
        """Whether readers know this row's place already."""
        if not self.fresh:
            return True
        if self.key is None:
            return False
        return order_key(tuple(values[place] for place in shape.order)) <= order_key(self.key)

    def narrowed(self, event: Event, shape: Shape) -> Event | None:
        """What of the event concerns rows that readers know."""
        if event.op not in ("c", "u", "d"):
            return event
        old = event.before is not None and self.covers(shape, event.before)
        new = event.after is not None and self.covers(shape, event.after)
        if event.op == "u" and old != new:
            if old:
                return event._replace(op="d", after=None)
            return event._replace(op="c", before=None)
        return event if old or new else None


@dataclass
class Commit:
    """One transaction of the application; or several, where they cannot be told apart."""

    identity: str
    until: int
    begun: bool = False
    orders: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Place:
    """The position, as something that moves."""

    identity: str
    seq: int
    at: float
    pending: dict[str, Pending] = field(default_factory=dict)
    first: bool = False
    commit: Commit | None = None
    held: list[int] = field(default_factory=list)

    def to_position(self) -> Position:
        position: Position = {"id": self.identity, "seq": self.seq, "at": self.at}
        if self.pending or self.first:
            position["snapshot" if self.first else "backfill"] = {
                table: {
                    "key": _key_to_json(one.key),
                    "fresh": one.fresh,
                    **({} if one.where is None else {"where": one.where}),
                }
                for table, one in self.pending.items()
            }
        if self.commit is not None:
            commit = self.commit
            position["tx"] = {
                "id": commit.identity,
                "until": commit.until,
                "begun": commit.begun,
                "orders": commit.orders,
                "counts": commit.counts,
            }
        if self.held:
            position["held"] = self.held
        return position

    @staticmethod
    def from_position(position: Position) -> Place:
        first = "snapshot" in position
        tables = position.get("snapshot" if first else "backfill") or {}
        place = Place(position["id"], position["seq"], position["at"], first=first)
        for table, one in tables.items():
            place.pending[table] = Pending(
                _key_from_json(one["key"]), one["fresh"], one.get("where")
            )
        if tx := position.get("tx"):
            place.commit = Commit(
                tx["id"], tx["until"], tx["begun"], tx["orders"], dict(tx["counts"])
            )
        place.held = list(position.get("held", ()))
        return place


def order_key(values: Values) -> tuple[tuple[int, Any], ...]:
    """Compares as SQLite does with the collation BINARY: numbers, then text, then blobs."""
    return tuple(
        (0, value)
        if isinstance(value, (int, float))
        else (1, value.encode())
        if isinstance(value, str)
        else (2, value)
        for value in values
    )


def _key_to_json(key: Values | None) -> list[Any] | None:
    if key is None:
        return None
    return [{"hex": value.hex()} if isinstance(value, bytes) else value for value in key]


def _key_from_json(key: list[Any] | None) -> Values | None:
    if key is None:
        return None
    return tuple(bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in key)
