"""The tree of a condition or a measure, as written and as Spark reads it, and what can be read off it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS = ("first", "last", "count", "sum", "avg", "min", "max", "collect_list")
"""What can be remembered of the rows of a match."""
FUNCTIONS = ("abs", "coalesce", "greatest", "least", "nullif")
"""Functions over anything. Any other function may only concern a row: Spark computes it."""


@dataclass(frozen=True)
class Literal:
    sql: str


@dataclass(frozen=True)
class Row:
    """An expression over the row itself, as SQL."""

    sql: str
    type: str = ""


@dataclass(frozen=True)
class RowsReference:
    """Something of the rows bound to a variable (of all rows of the match, without one)."""

    kind: str
    variable: str | None
    sql: str | None
    """Over each of these rows; None counts rows."""
    offset: int = 0
    of: str = ""
    """The type over each row."""
    type: str = ""


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Tree, ...]


Tree = Literal | Row | RowsReference | Call
"""As it is written."""


@dataclass(frozen=True)
class Constant:
    value: object
    type: str


@dataclass(frozen=True)
class Operation:
    name: str
    """Spark's own name of it: `GreaterThan`, `Add`, `Cast`."""
    arguments: tuple[Typed, ...]
    type: str


Typed = Constant | Row | RowsReference | Operation
"""As Spark reads it: with its casts, and the type of everything in the words of its SQL (`decimal(12,2)`)."""


def refers(tree: Tree) -> bool:
    """Whether other rows than the current one have a part in it."""
    if isinstance(tree, Call):
        return any(map(refers, tree.arguments))
    return isinstance(tree, RowsReference)


def rows_references(tree: Typed) -> list[RowsReference]:
    if isinstance(tree, Operation):
        return [each for argument in tree.arguments for each in rows_references(argument)]
    return [tree] if isinstance(tree, RowsReference) else []


def rows(tree: Typed) -> list[str]:
    """The SQL of each expression over the row itself."""
    if isinstance(tree, Operation):
        return [each for argument in tree.arguments for each in rows(argument)]
    return [tree.sql] if isinstance(tree, Row) else []


def leaves(tree: Tree) -> list[Row | RowsReference]:
    """What a tree is made of, but for what is written in it."""
    if isinstance(tree, Call):
        return [each for argument in tree.arguments for each in leaves(argument)]
    return [] if isinstance(tree, Literal) else [tree]


def as_sql(tree: Tree, names: Mapping[Row | RowsReference, str]) -> str:
    """SQL of the same meaning over columns that stand for the leaves."""
    if isinstance(tree, Literal):
        return tree.sql
    if isinstance(tree, Call):
        return _sql(tree.name, [as_sql(each, names) for each in tree.arguments])
    return names[tree]


def _sql(name: str, inside: list[str]) -> str:
    if name == "nullif":
        return f"if({inside[0]} = {inside[1]}, NULL, {inside[0]})"
    if name in FUNCTIONS:
        return f"{name}({', '.join(inside)})"
    if name in ("not", "negative"):
        return f"({'NOT ' if name == 'not' else '-'}{inside[0]})"
    if name == "is null":
        return f"({inside[0]} IS NULL)"
    if name == "between":
        return f"(({inside[0]} >= {inside[1]}) AND ({inside[0]} <= {inside[2]}))"
    if name == "in":
        return f"({inside[0]} IN ({', '.join(inside[1:])}))"
    return f"({inside[0]} {name} {inside[1]})"


def at_end(tree: Tree) -> Tree:
    if isinstance(tree, Row):
        return RowsReference("last", None, tree.sql)
    if isinstance(tree, Call):
        return Call(tree.name, tuple(map(at_end, tree.arguments)))
    return tree
