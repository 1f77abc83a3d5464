"""The machine without Spark: rows by hand, the watermark as a clock that only moves when told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from headwater.processing.patterns.machine import Machine
from headwater.processing.patterns.plan import Plan
from headwater.processing.patterns.plan import plan as planned
from headwater.processing.patterns.trees import (
    Call,
    Constant,
    Literal,
    Operation,
    RowsReference,
    Tree,
    Typed,
)
from headwater.processing.patterns.worker import END_OF_TIME, Bucket
from tests.processing.patterns.reference import Path, Row

WITHIN = "10 microseconds"


def last(path: Path, variable: str | None, back: int = 0) -> int | None:
    rows = [row.x for name, row in path if variable is None or name == variable]
    return rows[-1 - back] if len(rows) > back else None


def values(path: Path, variable: str | None = None) -> list[int]:
    named = [row.x for name, row in path if variable is None or name == variable]
    return [x for x in named if x is not None]


def less(one: int | float | None, two: int | float | None) -> bool:
    return one is not None and two is not None and one < two


# SQL, and the same in Python; those of the first kind concern the row alone.
ROW_CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "x = 0": lambda row: row.x == 0,
    "x = 1": lambda row: row.x == 1,
    "x >= 1": lambda row: row.x is not None and row.x >= 1,
    "x = 2": lambda row: row.x == 2,
    "x < 2": lambda row: row.x is not None and row.x < 2,
    "x is null": lambda row: row.x is None,
}
CONDITIONS: dict[str, Callable[[Row, Path], bool]] = {
    "x > A.x": lambda row, path: less(last(path, "A"), row.x),
    "x > last(x, 1)": lambda row, path: less(last(path, None, 1), row.x),
    "count(B) < 3": lambda row, path: sum(name == "B" for name, _ in path) < 3,
    "sum(x) < 4": lambda row, path: bool(values(path)) and sum(values(path)) < 4,
    "x < avg(A.x)": lambda row, path: bool(a := values(path, "A")) and less(row.x, sum(a) / len(a)),
    "first(A.x) = x": lambda row, path: (
        bool(a := [row.x for name, row in path if name == "A"])
        and a[0] is not None
        and a[0] == row.x
    ),
    "(min(B.x) < x or max(C.x) = x)": lambda row, path: (
        (bool(b := values(path, "B")) and less(min(b), row.x))
        or (bool(c := values(path, "C")) and row.x is not None and max(c) == row.x)
    ),
}


def both(sql: str) -> Callable[[Row, Path], bool]:
    """The Python of a condition of `define`, of parts between ANDs."""
    parts = sql.split(" and ")

    def holds(row: Row, path: Path) -> bool:
        return all(
            ROW_CONDITIONS[part](row) if part in ROW_CONDITIONS else CONDITIONS[part](row, path)
            for part in parts
        )

    return holds


class WholeNumbers:
    """In place of Spark: all there is are whole numbers, and an average is a double."""

    ansi = True

    def __call__(self, tree: Tree, where: str) -> Typed:
        if isinstance(tree, Literal):
            return Constant(int(tree.sql), "bigint")
        if isinstance(tree, RowsReference):
            return replace(tree, of="bigint", type="double" if tree.kind == "avg" else "bigint")
        if not isinstance(tree, Call):
            return replace(tree, type="bigint")
        inside = tuple(self(each, where) for each in tree.arguments)
        type = "double" if tree.name == "/" else "boolean" if tree.name in BOOLEAN else "bigint"
        return Operation(NAMES[tree.name], inside, type)


NAMES = {
    "/": "Divide",
    "+": "Add",
    "-": "Subtract",
    "*": "Multiply",
    "=": "EqualTo",
    "<": "LessThan",
}
NAMES |= {">": "GreaterThan", ">=": "GreaterThanOrEqual", "<=": "LessThanOrEqual"}
NAMES |= {"and": "And", "or": "Or", "not": "Not", "is null": "IsNull", "in": "In"}
BOOLEAN = (*set(NAMES) - {"+", "-", "*", "/"},)


def plan(*words: Any) -> Plan:
    return planned(*words, WholeNumbers())


class Clocked:
    """A match over rows that a test hands in; `advance` moves the watermark and returns what it settles."""

    def __init__(self, planned: Plan) -> None:
        self.plan = planned
        self._blob: bytes | None = None
        self._new: list[pd.DataFrame] = []

    def arrive(self, rows: Sequence[Row], key: str = "k") -> None:
        if rows:
            self._new.append(frame(self.plan, rows, key))

    def advance(self, to: int) -> list[tuple[Any, ...]]:
        """Every time through the bytes of the state, as in a checkpoint."""
        bucket = Bucket(Machine(self.plan), len(self.plan.columns), 1)
        if self._blob is not None:
            bucket.load(self._blob, self.plan.fingerprint)
        found = list(bucket.advance(self._new, to))
        self._new, self._blob = [], bucket.dump(self.plan.fingerprint)
        return found

    @property
    def holds_nothing(self) -> bool:
        return self._blob is None


def frame(planned: Plan, rows: Sequence[Row], key: str) -> pd.DataFrame:
    """Rows as Spark would prepare them; rows of one time are ordered by x, nulls first."""
    masks = []
    for row in rows:
        bits = [_row_part(sql, row) for sql in planned.row_conditions]
        masks.append(sum(1 << number for number, bit in enumerate(bits) if bit))
    xs = np.array([row.x or 0 for row in rows], dtype=np.int64)
    null = np.array([row.x is None for row in rows], dtype=np.int64)
    computed = {"x": xs, "coalesce(x, -1)": np.where(null, -1, xs)}
    nulls = null << len(planned.columns)
    for number, sql in enumerate(planned.columns):
        nulls |= null << number if sql == "x" else 0
    columns: dict[str, Any] = {
        "k": np.array([key] * len(rows), dtype=object),
        "t": np.array([row.time for row in rows], dtype=np.int64),
        "m": np.array(masks, dtype=np.int64),
        "n": nulls,
        "o0": xs,
    }
    columns |= {f"v{number}": computed[sql] for number, sql in enumerate(planned.columns)}
    return pd.DataFrame(columns)


def _row_part(sql: str, row: Row) -> bool:
    """`x > A.x` as the condition of A itself compares a row with itself, and blanks stand for the name."""
    parts = (
        [" ".join(part.strip("()").split()) for part in re.split(" and ", sql, flags=re.I)]
        if sql
        else []
    )
    return all(part != "x > x" and ROW_CONDITIONS[part](row) for part in parts)


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.time, row.x is not None, row.x or 0))


def found(
    pattern: str,
    rows: Sequence[Row],
    define: Mapping[str, str] | None = None,
    *,
    within: str = WITHIN,
    skip: str = "past last row",
    measures: Mapping[str, str] | None = None,
    timeouts: bool = False,
) -> list[tuple[Any, ...]]:
    """(start, end, timed_out, measures …) of a complete input."""
    clocked = Clocked(plan(pattern, define or {}, within, skip, measures or {}, timeouts))
    clocked.arrive(rows)
    return [result[1:] for result in clocked.advance(END_OF_TIME)]
