"""Rows through a target, as a task and a driver bring them there: which come back as they were, which are
refused in words, and which are neither."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import HeadwaterError
from headwater.testing.targets import Writer, at
from headwater.testing.values import ID, MOMENT, exact
from headwater.views.targets.contract import (
    DELETED,
    VALID_FROM,
    Applied,
    Kind,
    Refusal,
    RowsRefused,
    Shape,
    Target,
    Unavailable,
)

Make = Callable[[Shape], Target]
SINCE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_SENTENCE = re.compile(r"\w+\W+\w+\W+\w+")


@dataclass
class Outcome:
    """Of each row, by its number in the table."""

    equal: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)

    def take(self, other: Outcome, numbers: list[int]) -> None:
        """What became of these rows, tried by themselves."""
        self.equal |= {numbers[n] for n in other.equal}
        self.refused |= {numbers[n]: why for n, why in other.refused.items()}
        self.wrong |= {numbers[n]: why for n, why in other.wrong.items()}


_numbers = itertools.count(1)


class Stores:
    """One kind of target; every attempt is a view of its own."""

    def __init__(self, make: Make, kind: Kind) -> None:
        self._make, self._kind = make, kind

    def through(self, rows: pa.Table, key: tuple[str, ...] = (ID,)) -> Outcome:
        """All rows at once; where that fails in no words of ours, in halves, to find those that do it."""
        try:
            return self._attempt(rows, key)
        except Unavailable as error:  # who is told so waits, and comes again for ever
            return Outcome(wrong=dict.fromkeys(range(rows.num_rows), f"unavailable: {error}"))
        except HeadwaterError as error:
            if rows.num_columns > 2 and rows.num_rows > 1:
                return self._columns(rows, key)
            why = _said(str(error))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:300]
            if rows.num_rows == 1:
                return Outcome(wrong={0: why})
            return self._halves(rows, key)
        return Outcome(refused=dict.fromkeys(range(rows.num_rows), why))

    def _halves(self, rows: pa.Table, key: tuple[str, ...]) -> Outcome:
        found, middle = Outcome(), rows.num_rows // 2
        for begin, end in ((0, middle), (middle, rows.num_rows)):
            some = rows.slice(begin, end - begin)
            found.take(self.through(some, key), list(range(begin, end)))
        return found

    def _columns(self, rows: pa.Table, key: tuple[str, ...]) -> Outcome:
        """A type that is refused as such must not hide the others: each column by itself."""
        found = Outcome()
        ours = [name for name in rows.schema.names if name not in key and name != ID]
        for name in ours:
            there = rows.column(name).is_valid()
            numbers = pc.indices_nonzero(there).to_pylist()
            some = rows.filter(there).select([*dict.fromkeys((ID, *key)), name])
            found.take(self.through(some, key), numbers)
        return found

    def _attempt(self, rows: pa.Table, key: tuple[str, ...]) -> Outcome:
        keyed = () if self._kind is Kind.APPEND else key
        target = self._make(Shape(f"v{next(_numbers)}", rows.schema, keyed, self._kind))
        writer = Writer(target)
        part = target.stage(0, 0, iter(_staged(rows, self._kind).to_batches(97)))
        refusals: list[Refusal] = list(part.refused)
        for _ in range(rows.num_rows + 1):
            try:
                target.commit(Applied(0, writer.epoch, at(1)), [part])
                break
            except RowsRefused as refused:
                refusals += refused.refusals
        return _compared(rows, target, refusals)


def _staged(rows: pa.Table, kind: Kind) -> pa.Table:
    if kind is not Kind.APPEND:
        rows = rows.append_column(DELETED, pa.array([False] * rows.num_rows))
    if kind is Kind.HISTORY:
        rows = rows.append_column(VALID_FROM, pa.array([SINCE] * rows.num_rows, MOMENT))
    return rows


def _compared(rows: pa.Table, target: Target, refusals: list[Refusal]) -> Outcome:
    found = Outcome()
    names = rows.schema.names
    numbers = {id: number for number, id in enumerate(rows.column(ID).to_pylist())}
    for each in refusals:
        found.refused[numbers[int(json.loads(each.row)[ID])]] = _said(each.reason)
    with target.reading() as (_, batches):
        read = list(batches)
    seen = by_id(pa.Table.from_batches(read), names) if read else {}
    for number, (id, row) in enumerate(by_id(rows, names).items()):
        if number in found.refused:
            if id in seen:
                found.wrong[number] = f"refused ({found.refused.pop(number)}), and there"
        elif seen.get(id) == row:
            found.equal.add(number)
        else:
            found.wrong[number] = f"{_shown(row)} became {_shown(seen.get(id))}"
    return found


def by_id(table: pa.Table, names: list[str]) -> dict[int, tuple[Any, ...]]:
    """Rows by their ids, as they can be compared."""
    columns = [exact(table.column(name)) for name in names]
    places = names.index(ID)
    return {row[places]: row for row in zip(*columns, strict=True)}


def _shown(row: tuple[Any, ...] | None) -> str:
    return "nothing" if row is None else repr([v for v in row if v is not None])[:200]


def _said(sentence: str) -> str:
    assert _SENTENCE.search(sentence), f"no sentence: {sentence!r}"
    return sentence
