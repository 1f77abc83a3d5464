"""A query as far as keeping it current needs it: what is matched with what, by which columns.

Made by `analysis` from Spark's plan, read by `program`. Filters are not in it, nor what is computed from
columns without deciding where a row belongs: whatever a change *may* touch is computed anew by Spark,
and only the rows that differ are written. So everything here may say too much, never too little.

Columns have Spark's expression ids, which are unique in a plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

MARK = "hw_"
_MARKED = re.compile(rf"\b{MARK}(\d+)\b")


@dataclass(frozen=True)
class Column:
    id: int


@dataclass(frozen=True)
class Formula:
    """Something computed; `text` is Spark's SQL with `hw_ID` for columns, None where there is none."""

    text: str | None
    refs: frozenset[int]


@dataclass(frozen=True)
class First:
    """The first of these that has a value (coalesce)."""

    choices: tuple[Expression, ...]


Expression = Column | Formula | First


def refs(expression: Expression) -> frozenset[int]:
    """The columns that an expression looks at."""
    if isinstance(expression, Column):
        return frozenset([expression.id])
    if isinstance(expression, Formula):
        return expression.refs
    return frozenset().union(*(refs(each) for each in expression.choices))


def text_of(expression: Expression) -> str | None:
    """Spark's SQL of an expression, with `hw_ID` for columns."""
    if isinstance(expression, Column):
        return f"{MARK}{expression.id}"
    if isinstance(expression, Formula):
        return expression.text
    texts = [text_of(each) for each in expression.choices]
    known = [text for text in texts if text is not None]
    return f"coalesce({', '.join(known)})" if len(known) == len(texts) else None


def named(text: str, name: Callable[[int], str]) -> str:
    """The SQL of an expression with names in place of `hw_ID`."""
    return _MARKED.sub(lambda found: name(int(found[1])), text)


def substituted(expression: Expression, made: Mapping[int, Expression]) -> Expression:
    """An expression over a node's output, as one over what its columns are made of."""
    if isinstance(expression, Column):
        return made.get(expression.id, expression)
    if isinstance(expression, First):
        return First(tuple(substituted(each, made) for each in expression.choices))
    inner = {each: made.get(each, Column(each)) for each in expression.refs}
    below = frozenset().union(*map(refs, inner.values()))
    texts = {each: text_of(value) for each, value in inner.items()}
    if expression.text is None or None in texts.values():
        return Formula(None, below)
    return Formula(named(expression.text, lambda each: f"({texts[each]})"), below)


class Node:
    """A part of a query that gives rows."""

    outputs: frozenset[int]
    scans: tuple[Scan, ...]


@dataclass(frozen=True)
class Scan(Node):
    """One mention of a table; a table that is joined with itself has two."""

    number: int
    table: int
    columns: Mapping[int, str]

    @cached_property
    def outputs(self) -> frozenset[int]:  # type: ignore[override]
        return frozenset(self.columns)

    @property
    def scans(self) -> tuple[Scan, ...]:  # type: ignore[override]
        return (self,)


@dataclass(frozen=True)
class Static(Node):
    """Rows that do not change: a file, a list."""

    outputs: frozenset[int]
    scans: tuple[Scan, ...] = ()


@dataclass(frozen=True)
class Made(Node):
    """Rows with other columns, each made of those below."""

    child: Node
    made: Mapping[int, Expression]
    rest: str = "is generated"
    """What is to be said of columns that are not in `made`: they cannot be followed further."""

    @cached_property
    def outputs(self) -> frozenset[int]:  # type: ignore[override]
        return frozenset(self.made)

    @property
    def scans(self) -> tuple[Scan, ...]:  # type: ignore[override]
        return self.child.scans


@dataclass(frozen=True)
class Stacked(Node):
    """Rows of several queries by the position of their columns: union, intersect, except."""

    columns: tuple[int, ...]
    children: tuple[Node, ...]
    below: tuple[tuple[int, ...], ...]
    """The columns of each child, in order."""

    @cached_property
    def outputs(self) -> frozenset[int]:  # type: ignore[override]
        return frozenset(self.columns)

    @cached_property
    def scans(self) -> tuple[Scan, ...]:  # type: ignore[override]
        return tuple(scan for child in self.children for scan in child.scans)


@dataclass(frozen=True)
class Pair:
    """Two expressions that a join compares."""

    left: Expression
    right: Expression
    nulls: bool = False
    """Whether nothing equals nothing (`<=>`)."""


@dataclass(frozen=True)
class Matched(Node):
    """A join. `kept_left`: rows without a partner are in the result, with nothing on the right."""

    left: Node
    right: Node
    pairs: tuple[Pair, ...]
    kept_left: bool = False
    kept_right: bool = False
    shows_right: bool = True
    """Not in semi and anti joins."""
    where: str = field(default="", compare=False)
    """For people."""

    @cached_property
    def outputs(self) -> frozenset[int]:  # type: ignore[override]
        return self.left.outputs | (self.right.outputs if self.shows_right else frozenset())

    @cached_property
    def scans(self) -> tuple[Scan, ...]:  # type: ignore[override]
        return (*self.left.scans, *self.right.scans)
