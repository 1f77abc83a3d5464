"""Random changes of three tables, in batches; and a view in memory that the differences are written to."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headwater.views.tables.decoder import Table
from headwater.views.tables.store import Difference

IDS = st.integers(0, 5)
MAYBE_ID = st.none() | IDS
TEXT = st.none() | st.sampled_from(["x", "X", "y"])
VALUES = (
    st.tuples(MAYBE_ID, st.none() | st.integers(0, 4), TEXT),
    st.tuples(MAYBE_ID, TEXT),
    st.tuples(TEXT),
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Any, ...]:
    """(table, what, id, new id, values)"""
    table = draw(st.sampled_from([0, 0, 1, 1, 2]))
    what = draw(st.sampled_from(["put", "put", "put", "delete", "move", "empty"]))
    if what == "empty" and draw(st.integers(0, 4)):
        what = "put"
    return table, what, draw(IDS), draw(IDS), draw(VALUES[table])


CRASHES = st.sampled_from(["", "", "", "while computing", "before the target", "after the target"])
BATCHES = st.tuples(CRASHES, st.lists(changes(), max_size=8))
HISTORIES = st.lists(BATCHES, min_size=1, max_size=6)
"""Batches of changes, and at which point of each the driver ends and begins anew."""


def seeded(seed: int, batches: int) -> list[list[tuple[Any, ...]]]:
    """A history without Hypothesis, for what takes long."""
    chance = random.Random(seed)

    def maybe(most: int) -> int | None:
        return chance.choice([None, *range(most), *range(most)])

    def change() -> tuple[Any, ...]:
        table = chance.choice([0, 0, 1, 1, 2])
        text = chance.choice([None, "x", "X", "y"])
        values = ((maybe(6), maybe(5), text), (maybe(6), text), (text,))[table]
        what = chance.choice(["put"] * 6 + ["delete", "move"])
        return table, what, chance.randrange(6), chance.randrange(6), values

    return [[change() for _ in range(24)] for _ in range(batches)]


class Tables:
    """What the tables are, after each batch, by the plainest means."""

    def __init__(self) -> None:
        self.rows: tuple[dict[int, tuple[Any, ...]], ...] = ({}, {}, {})

    def take(self, batch: Sequence[tuple[Any, ...]]) -> None:
        for table, what, key, other, values in batch:
            rows = self.rows[table]
            if what == "put":
                rows[key] = values
            elif what == "delete":
                rows.pop(key, None)
            elif what == "empty":
                rows.clear()
            elif what == "move":
                rows.pop(key, None)
                rows[other] = values

    def arrow(self, tables: Sequence[Table], columns: Sequence[pa.Schema]) -> dict[int, pa.Table]:
        found = {}
        for n, rows in enumerate(self.rows):
            own = [each for each in columns[n] if each.name.startswith("c")]
            listed = [(key, *values) for key, values in rows.items()]
            found[n] = pa.table(
                {f.name: pa.array([row[i] for row in listed], f.type) for i, f in enumerate(own)}
            )
        return found


def as_changes(
    batch: Sequence[tuple[Any, ...]], columns: Sequence[pa.Schema], derived: Mapping[int, Any]
) -> list[pa.Table]:
    """The changes of a batch as `net_changes` takes them."""
    found = []
    for n, schema in enumerate(columns):
        mine = [(o, change) for o, change in enumerate(batch) if change[0] == n]
        rows = [_row(o, change, derived.get(n)) for o, change in mine]
        own = pa.schema(
            [
                *schema,
                ("gone", pa.bool_()),
                ("emptied", pa.bool_()),
                ("m0", pa.int64()),
                ("p", pa.int32()),
                ("o", pa.int64()),
                ("ts", pa.int64()),
            ]
        )
        found.append(pa.Table.from_pylist(rows, own))
    return found


def _row(offset: int, change: tuple[Any, ...], derive: Any) -> dict[str, Any]:
    _, what, key, other, values = change
    row: dict[str, Any] = {
        "gone": what == "delete",
        "emptied": what == "empty",
        "p": 0,
        "o": offset,
        "ts": offset,
    }
    row["m0"] = key if what == "move" and key != other else None
    if what in ("put", "move"):
        row |= {"c0": other if what == "move" else key}
        row |= {f"c{n + 1}": value for n, value in enumerate(values)}
        if derive is not None:
            row["d0"] = derive(row)
    elif what == "delete":
        row["c0"] = key
    return row


class Held:
    """A view in memory. A row that is written without a change, or deleted twice, is a mistake."""

    def __init__(self, key: Sequence[str]) -> None:
        self.key = key
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.batch = -1

    def taking(self, batch: int) -> Callable[[Difference], None]:
        """As a target takes a batch: once."""

        def take(difference: Difference) -> None:
            if batch > self.batch:
                self.write(difference)
                self.batch = batch

        return take

    def write(self, difference: Difference) -> None:
        for row in difference.gone.to_pylist():
            del self.rows[tuple(row[name] for name in self.key)]
        for row in difference.rows.to_pylist():
            key = tuple(row[name] for name in self.key)
            assert self.rows.get(key) != row, f"{row} was there already"
            self.rows[key] = row


def keyed(result: pa.Table, key: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = result.to_pylist()
    found = {tuple(row[name] for name in key): row for row in rows}
    assert len(found) == len(rows), "the test's own query has a key twice"
    return found
