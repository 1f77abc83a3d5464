"""What a change is compared with, as trees of comparisons: made by `program`, run in two ways.

As SQL by the state's engine (`store`), and by `lookup` over rows that are in memory. Both give the same
rows, in any order, perhaps some of them more than once.

    Rows      columns of a table's rows, as w0, w1, …: `t0` all of table 0, `change0` its changed rows,
              `rows3` a statement's; of several names, the rows of each
    Union     the rows of all parts
    Join      the pairs of rows that compare as equal; of which columns are shown

Statements give what later ones look at: `Semi` the rows of a table that compare as equal with a row of a
relation, `Distinct` the values of a relation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rows:
    """Columns of rows."""

    sources: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        shown = ", ".join(f"{column} AS w{n}" for n, column in enumerate(self.columns))
        if len(self.sources) == 1:
            return f"SELECT {shown} FROM {self.sources[0]}"
        united = " UNION ALL ".join(f"SELECT * FROM {source}" for source in self.sources)
        return f"SELECT {shown} FROM ({united})"


@dataclass(frozen=True)
class Union:
    """The rows of all parts."""

    parts: tuple[Relation, ...]

    @property
    def sql(self) -> str:
        return " UNION ALL ".join(part.sql for part in self.parts)


@dataclass(frozen=True)
class Join:
    """Pairs of rows."""

    left: Relation
    right: Relation
    on: tuple[tuple[int, int, bool], ...]
    """Columns of the left and of the right, and whether nothing equals nothing."""
    shown: tuple[tuple[bool, int], ...]
    """Whether of the left, and which column."""

    @property
    def sql(self) -> str:
        shown = ", ".join(
            f"{'l' if is_left else 'r'}.w{place} AS w{n}"
            for n, (is_left, place) in enumerate(self.shown)
        )
        condition = " AND ".join(
            f"l.w{left} {equals(nulls)} r.w{right}" for left, right, nulls in self.on
        )
        return f"SELECT {shown} FROM ({self.left.sql}) l JOIN ({self.right.sql}) r ON {condition}"


Relation = Rows | Union | Join


@dataclass(frozen=True)
class Semi:
    """The rows of a table that a relation names."""

    table: int
    relation: str
    on: tuple[tuple[str, int, bool], ...]
    """Columns of the table and of the relation, and whether nothing equals nothing."""

    @property
    def sql(self) -> str:
        condition = " AND ".join(
            f"s.{column} {equals(nulls)} x.w{place}" for column, place, nulls in self.on
        )
        return f"SELECT s.* FROM t{self.table} s SEMI JOIN {self.relation} x ON {condition}"


@dataclass(frozen=True)
class Distinct:
    """The values of a relation, each once."""

    of: Relation

    @property
    def sql(self) -> str:
        return f"SELECT DISTINCT * FROM ({self.of.sql})"


Statement = Semi | Distinct


def equals(nulls: bool) -> str:
    return "IS NOT DISTINCT FROM" if nulls else "="
