"""What a change touches, as SQL over the state: compiled once for a view, run in every batch.

    upward      the changed rows of one table, matched with the others, give the keys that they touch
    downward    the touched keys give the rows of every table that decide over them

Both only compare columns, so the state's own engine does it; Spark computes the rows. A key column that
cannot be followed through the query is left out: the keys then say too much, which costs time and
changes nothing. Where no key column can be followed, the query is not kept current row by row.

Names in the SQL: `t0` the state of table 0; `change0` its changed rows (as they were, or as they are);
`touched` the touched keys, with columns w0, w1, …; temporary tables `rows1`, `keys1`, ….
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.views.tables.algebra import (
    Column,
    Expression,
    First,
    Made,
    Matched,
    Node,
    Pair,
    Scan,
    Stacked,
    named,
    refs,
    substituted,
    text_of,
)
from headwater.views.tables.errors import NotByRow

TOUCHED = "touched"


@dataclass(frozen=True)
class Want:
    """An expression whose values are asked for."""

    expression: Expression
    nulls: bool
    """Whether "no value" is one of them; where not, values are only compared with others."""
    name: str = ""
    """Of the column of the relation that the values are compared with."""


@dataclass(frozen=True)
class Program:
    """The SQL of one view."""

    key: tuple[str, ...]
    """The key columns that are followed, in the order of w0, w1, …."""
    upward: tuple[tuple[int, str], ...]
    """For every mention of a table: the table, and the keys that its changed rows touch."""
    downward: tuple[str, ...]
    rows: Mapping[int, tuple[str, ...]]
    """Where the rows of a table are after `downward`: temporary tables, to be united."""
    temporary: tuple[str, ...]
    derived: Mapping[int, tuple[str, ...]]
    """Columns that the state of a table has besides its own: Spark's SQL over its columns."""

    def looks_at(self, table: int) -> bool:
        return table in self.rows


def compiled(
    root: Node, key: Mapping[str, Expression], columns: Sequence[Sequence[str]]
) -> Program:
    """The program of a view whose key columns are these; `columns` are those of its tables."""
    followed: list[str] = []
    program, reasons = None, []
    for name in key:
        try:
            program = _Compiler(columns).compile(root, {n: key[n] for n in [*followed, name]})
        except NotByRow as reason:
            reasons.append(f"{name} {reason.args[0]}")
        else:
            followed.append(name)
    if program is None:
        raise NotByRow(
            f"no column of its key can be followed to the tables: {'; '.join(reasons)}",
            hint="let the key be columns of a table that every row of the result has",
        )
    return program


@dataclass
class _Compiler:
    columns: Sequence[Sequence[str]]
    statements: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)
    derived: dict[int, list[str]] = field(default_factory=dict)
    _usable: dict[int, tuple[Pair, ...]] = field(default_factory=dict)

    def compile(self, root: Node, key: Mapping[str, Expression]) -> Program:
        wants = [Want(each, nulls=True, name=f"w{n}") for n, each in enumerate(key.values())]
        upward = tuple(
            (scan.table, self.values(root, wants, _state_or_change(scan.number), scan.number))
            for scan in root.scans
        )
        found = self.restrict(root, wants, TOUCHED)
        rows: dict[int, tuple[str, ...]] = {}
        for scan in root.scans:
            rows[scan.table] = (*rows.get(scan.table, ()), *found[scan.number])
        return Program(
            tuple(key),
            upward,
            tuple(self.statements),
            rows,
            tuple(self.temporary),
            {table: tuple(texts) for table, texts in self.derived.items()},
        )

    # ---- values of expressions, perhaps only of what a change touches -----------------------------

    def values(
        self,
        node: Node,
        wants: Sequence[Want],
        source: Callable[[Scan], str],
        changed: int | None = None,
    ) -> str:
        """SQL of the values of `wants` (as w0, w1, …) in the rows of a node, or in more than these.

        With `changed`, in the rows that come from this scan at least.
        """
        if isinstance(node, Scan):
            named_columns = (f"{self.column(node, w)} AS w{n}" for n, w in enumerate(wants))
            return f"SELECT {', '.join(named_columns)} FROM {source(node)}"
        if isinstance(node, Made):
            return self.values(node.child, _below(node, wants), source, changed)
        if isinstance(node, Stacked):
            if changed is None and not all(child.scans for child in node.children):
                raise NotByRow("comes in part from rows that are in no table")
            return " UNION ALL ".join(
                self.values(child, _in_child(node, n, wants), source, changed)
                for n, child in enumerate(node.children)
                if changed is None or _has(child, changed)
            )
        if isinstance(node, Matched):
            return self._values_matched(node, wants, source, changed)
        raise NotByRow("comes from rows that are in no table")

    def _values_matched(
        self,
        node: Matched,
        wants: Sequence[Want],
        source: Callable[[Scan], str],
        changed: int | None,
    ) -> str:
        if _is_split(node, wants):
            return self._values_split(node, wants, source, changed)
        on_left = [_side(node, want) for want in wants]
        # Every side from which nothing is wanted can be left out, as long as the change is not in it.
        if changed is None or not _has(node.right, changed):
            if all(on_left):
                return self.values(node.left, wants, source, changed)
        if (changed is None or not _has(node.left, changed)) and not any(on_left):
            return self.values(node.right, wants, source, changed)
        pairs = self.pairs(node)
        left = [w for w, is_left in zip(wants, on_left, strict=True) if is_left]
        right = [w for w, is_left in zip(wants, on_left, strict=True) if not is_left]
        lefts = self.values(node.left, [*left, *_wanted(pairs, "left")], source, changed)
        rights = self.values(node.right, [*right, *_wanted(pairs, "right")], source, changed)
        counts, shown = {True: 0, False: 0}, []
        for n, is_left in enumerate(on_left):
            shown.append(f"{'l' if is_left else 'r'}.w{counts[is_left]} AS w{n}")
            counts[is_left] += 1
        condition = " AND ".join(
            f"l.w{len(left) + n} {_equals(pair.nulls)} r.w{len(right) + n}"
            for n, pair in enumerate(pairs)
        )
        return f"SELECT {', '.join(shown)} FROM ({lefts}) l JOIN ({rights}) r ON {condition}"

    def _values_split(
        self,
        node: Matched,
        wants: Sequence[Want],
        source: Callable[[Scan], str],
        changed: int | None,
    ) -> str:
        left, right = _halves(node, wants)
        if changed is None:
            sides = (
                self.values(node.left, left, source),
                self.values(node.right, right, source),
            )
            return " UNION ALL ".join(sides)
        here, there, side, other, far = (
            (node.left, node.right, left, "right", right)
            if _has(node.left, changed)
            else (node.right, node.left, right, "left", left)
        )
        own = self.values(here, side, source, changed)
        if self._compared(node, left, right):
            return own  # a partner has the same values
        pairs = self.pairs(node)
        near = _wanted(pairs, "left" if other == "right" else "right")
        keys = self.values(here, near, source, changed)
        partners = self.values(there, [*far, *_wanted(pairs, other)], source)
        condition = " AND ".join(
            f"n.w{n} {_equals(pair.nulls)} f.w{len(far) + n}" for n, pair in enumerate(pairs)
        )
        shown = ", ".join(f"f.w{n} AS w{n}" for n in range(len(far)))
        return f"{own} UNION ALL SELECT {shown} FROM ({keys}) n JOIN ({partners}) f ON {condition}"

    # ---- rows that decide over given values -------------------------------------------------------

    def restrict(
        self, node: Node, wants: Sequence[Want], relation: str
    ) -> dict[int, tuple[str, ...]]:
        """Statements that find all rows which decide over the values in `relation`; where, by scan."""
        if isinstance(node, Scan):
            name = self._temporary("rows")
            condition = " AND ".join(
                f"s.{self.column(node, want)} {_equals(want.nulls)} x.{want.name}" for want in wants
            )
            self.statements.append(
                f"CREATE TEMP TABLE {name} AS "
                f"SELECT s.* FROM t{node.table} s SEMI JOIN {relation} x ON {condition}"
            )
            return {node.number: (name,)}
        if isinstance(node, Made):
            return self.restrict(node.child, _below(node, wants), relation)
        if isinstance(node, Stacked):
            children = (c for c in enumerate(node.children) if c[1].scans)
            return _united(
                *(
                    self.restrict(child, _in_child(node, n, wants), relation)
                    for n, child in children
                )
            )
        if isinstance(node, Matched):
            return self._restrict_matched(node, wants, relation)
        raise NotByRow("comes from rows that are in no table")

    def _restrict_matched(
        self, node: Matched, wants: Sequence[Want], relation: str
    ) -> dict[int, tuple[str, ...]]:
        if _is_split(node, wants):
            left, right = _halves(node, wants)
            lefts = self.restrict(node.left, left, relation)
            rights = self.restrict(node.right, right, relation)
            if self._compared(node, left, right):
                return _united(lefts, rights)
            partners = self._partners(node, lefts, of_left=True)
            return _united(lefts, rights, partners, self._partners(node, rights, of_left=False))
        sides = [_side(node, want) for want in wants]
        # One side finds its rows by the values, the other finds the partners of these rows.
        by_left = any(sides) and (all(sides) or not node.kept_right)
        chosen = [want for want, is_left in zip(wants, sides, strict=True) if is_left == by_left]
        found = self.restrict(node.left if by_left else node.right, chosen, relation)
        other = node.right if by_left else node.left
        if not other.scans:
            return found
        return _united(found, self._partners(node, found, of_left=by_left))

    def _partners(
        self, node: Matched, found: Mapping[int, tuple[str, ...]], *, of_left: bool
    ) -> dict[int, tuple[str, ...]]:
        near, far = ("left", "right") if of_left else ("right", "left")
        pairs = self.pairs(node)

        def restricted(scan: Scan) -> str:
            tables = found[scan.number]
            if len(tables) == 1:
                return tables[0]
            return "(" + " UNION ALL ".join(f"SELECT * FROM {name}" for name in tables) + ")"

        here, there = (node.left, node.right) if of_left else (node.right, node.left)
        values = self.values(here, _wanted(pairs, near), restricted)
        name = self._temporary("keys")
        self.statements.append(f"CREATE TEMP TABLE {name} AS SELECT DISTINCT * FROM ({values})")
        return self.restrict(there, _wanted(pairs, far), name)

    # ---- what can be compared ---------------------------------------------------------------------

    def pairs(self, node: Matched) -> tuple[Pair, ...]:
        """The comparisons of a join that can be followed to its tables."""
        if id(node) not in self._usable:
            self._usable[id(node)] = tuple(
                pair
                for pair in node.pairs
                if self._can(node.left, pair.left, pair.nulls)
                and self._can(node.right, pair.right, pair.nulls)
            )
        if not self._usable[id(node)]:
            raise NotByRow(
                f"is joined {node.where}without comparing a column of one side with one of the other"
            )
        return self._usable[id(node)]

    def _can(self, node: Node, expression: Expression, nulls: bool) -> bool:
        trial = _Compiler(self.columns)
        try:
            trial.values(node, [Want(expression, nulls)], lambda scan: f"t{scan.table}")
            trial.restrict(node, [Want(expression, nulls, "w0")], TOUCHED)
        except NotByRow:
            return False
        return True

    def _compared(self, node: Matched, left: Sequence[Want], right: Sequence[Want]) -> bool:
        both = {(pair.left, pair.right) for pair in node.pairs}
        return all(
            (mine.expression, other.expression) in both
            for mine, other in zip(left, right, strict=True)
        )

    def column(self, scan: Scan, want: Want) -> str:
        """The column of a table's state that has an expression's value."""
        expression = want.expression
        if isinstance(expression, Column) and expression.id in scan.columns:
            return f"c{list(self.columns[scan.table]).index(scan.columns[expression.id])}"
        text = text_of(expression)
        if text is None or not refs(expression) or not refs(expression) <= scan.outputs:
            raise NotByRow("is not computed from columns of one table")
        spelt = named(text, lambda each: f"`{scan.columns[each]}`")
        known = self.derived.setdefault(scan.table, [])
        if spelt not in known:
            known.append(spelt)
        return f"d{known.index(spelt)}"

    def _temporary(self, what: str) -> str:
        self.temporary.append(f"{what}{len(self.temporary)}")
        return self.temporary[-1]


def _state_or_change(changed: int) -> Callable[[Scan], str]:
    return lambda scan: f"{'change' if scan.number == changed else 't'}{scan.table}"


def _has(node: Node, number: int) -> bool:
    return any(scan.number == number for scan in node.scans)


def _equals(nulls: bool) -> str:
    return "IS NOT DISTINCT FROM" if nulls else "="


def _wanted(pairs: Sequence[Pair], side: str) -> list[Want]:
    return [Want(getattr(pair, side), pair.nulls, f"w{n}") for n, pair in enumerate(pairs)]


def _below(node: Made, wants: Sequence[Want]) -> list[Want]:
    """Wants in terms of the columns under a node."""
    found = []
    for want in wants:
        if not refs(want.expression) <= node.outputs:
            raise NotByRow(node.rest)
        found.append(Want(substituted(want.expression, node.made), want.nulls, want.name))
    return found


def _in_child(node: Stacked, number: int, wants: Sequence[Want]) -> list[Want]:
    names = {
        outer: Column(inner) for outer, inner in zip(node.columns, node.below[number], strict=True)
    }
    return [Want(substituted(w.expression, names), w.nulls, w.name) for w in wants]


def _side(node: Matched, want: Want) -> bool:
    """Whether a value comes from the left; NotByRow if from both, or from rows that may be missing."""
    looked_at = refs(want.expression)
    if not looked_at:
        raise NotByRow("is the same in all rows")
    for is_left, side, may_miss in (
        (True, node.left, node.kept_right),
        (False, node.right, node.kept_left),
    ):
        if looked_at <= side.outputs and (is_left or node.shows_right):
            if not side.scans:
                raise NotByRow("comes from rows that are in no table")
            if may_miss and (want.nulls or not isinstance(want.expression, Column)):
                raise NotByRow("comes from a side of an outer join that may have no row")
            return is_left
    if looked_at <= node.left.outputs | node.right.outputs:
        raise NotByRow("is computed from both sides of a join")
    raise NotByRow("is the result of an aggregate")


def _is_split(node: Matched, wants: Sequence[Want]) -> bool:
    """Whether every value is the first one of both sides, as in a full join by a common name."""
    return all(
        isinstance(want.expression, First)
        and len(want.expression.choices) == 2
        and not refs(want.expression) <= node.left.outputs
        and not refs(want.expression) <= node.right.outputs
        and all(
            refs(each) <= node.left.outputs or refs(each) <= node.right.outputs
            for each in want.expression.choices
        )
        for want in wants
    )


def _halves(node: Matched, wants: Sequence[Want]) -> tuple[list[Want], list[Want]]:
    left, right = [], []
    for want in wants:
        assert isinstance(want.expression, First)
        for each in want.expression.choices:
            half = Want(each, want.nulls, want.name)
            (left if refs(each) <= node.left.outputs else right).append(half)
    return left, right


def _united(*found: Mapping[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    together: dict[int, tuple[str, ...]] = {}
    for each in found:
        for number, tables in each.items():
            together[number] = (*together.get(number, ()), *tables)
    return together
