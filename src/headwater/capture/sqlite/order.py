"""The true order of changes that an application's newer trigger has put the wrong way round.

Called by `reconcile` when it finds such a trigger: SQLite runs the newest trigger first, so until ours
are made again, what that trigger does to a row is noted before the change that set it off:

    UPDATE … (A → B), whose trigger does B → C     noted as B → C, A → B     true: A → B, B → C

The changes of one row form a chain: each begins as the one before ended. Where a change does not fit the
end of its row's chain, but ends as one noted shortly before begins, it belongs before that one. Where
values repeat, that can be wrong; so the caller compares the end with the table. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headwater.capture.sqlite.changes import Values

WINDOW = 256
"""So far back is looked; what one statement's triggers do lies close together."""


class Noted(NamedTuple):
    """One change; before and after as in the change table."""

    seq: int
    before: Values | None
    after: Values | None


def true_order(changes: Sequence[Noted], key: Sequence[int]) -> list[int]:
    """The numbers of the changes, as they happened. `key`: places that make a row the same row."""
    rows: dict[tuple[Any, ...], Values | None] = {}
    placed: list[Noted] = []
    for change in changes:
        where = None if _fits(change, rows, key) else _place_before(change, placed, key)
        if where is not None:
            placed.insert(where, change)
            continue
        placed.append(change)
        if change.before is not None:
            rows[_part(change.before, key)] = None
        if change.after is not None:
            rows[_part(change.after, key)] = change.after
    return [change.seq for change in placed]


def end_rows(changes: Sequence[Noted], key: Sequence[int]) -> dict[tuple[Any, ...], Values | None]:
    """How the touched rows are in the end (None: gone), if the changes happened in this order."""
    rows: dict[tuple[Any, ...], Values | None] = {}
    for change in changes:
        if change.before is not None:
            rows[_part(change.before, key)] = None
        if change.after is not None:
            rows[_part(change.after, key)] = change.after
    return rows


def _fits(change: Noted, rows: dict[tuple[Any, ...], Values | None], key: Sequence[int]) -> bool:
    """Whether the rows, as far as they are known, are as the change begins."""
    before = None if change.before is None else _part(change.before, key)
    if before is not None and rows.get(before, change.before) != change.before:
        return False
    after = None if change.after is None else _part(change.after, key)
    return after is None or after == before or rows.get(after) is None


def _place_before(change: Noted, placed: Sequence[Noted], key: Sequence[int]) -> int | None:
    for place in range(len(placed) - 1, max(-1, len(placed) - 1 - WINDOW), -1):
        other = placed[place]
        if change.after is not None:
            if other.before == change.after:
                return place
        elif other.before is None and other.after is not None and change.before is not None:
            if _part(other.after, key) == _part(change.before, key):
                return place
    return None


def _part(row: Values, key: Sequence[int]) -> tuple[Any, ...]:
    return tuple(row[place] for place in key)
