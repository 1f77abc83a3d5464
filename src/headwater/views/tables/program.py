"""What a change touches, as SQL over the state: compiled once for a view, run in every batch.

    upward      the changed rows of one table, matched with the others, give the keys that they touch
    downward    the touched keys give the rows of every table that decide over them

Both only compare columns, so the state's own engine does it; Spark computes the rows. A key column that
cannot be followed through the query is left out: the keys then say too much, which costs time and
changes nothing. Where no key column can be followed, the query is not kept current row by row.

Names in the SQL: `t0` the state of table 0; `change0` its changed rows (as they were, or as they are);
`touched` the touched keys, with columns w0, w1, …; `rows1`, `keys1`, … what `downward` has found so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.views.tables.algebra import (
    Column,
    Expression,
    Made,
    Matched,
    Node,
    Pair,
    Scan,
    Stacked,
    named,
    refs,
    text_of,
)
from headwater.views.tables.errors import NotByRow
from headwater.views.tables.relations import Distinct, Join, Relation, Rows, Semi, Statement, Union
from headwater.views.tables.wants import (
    Want,
    are_compared,
    below,
    comes_from_left,
    compared,
    halves,
    has_scan,
    in_child,
    is_split,
    united,
)

TOUCHED = "touched"
_NAMES = re.compile(r"\b(?:rows|keys)\d+\b")


@dataclass(frozen=True)
class Program:
    """The SQL of one view."""

    key: tuple[str, ...]
    """The key columns that are followed, in the order of w0, w1, …."""
    upward: tuple[tuple[int, Relation], ...]
    """For every mention of a table: the table, and the keys that its changed rows touch."""
    downward: tuple[tuple[str, Statement], ...]
    """Names, each with the rows that it stands for; later ones look at earlier ones."""
    rows: Mapping[int, tuple[str, ...]]
    """Which names of `downward` have the rows of a table, to be united."""
    derived: Mapping[int, tuple[str, ...]]
    """Columns that the state of a table has besides its own: Spark's SQL over its columns."""
    stacks_static: bool = False
    """Whether rows that are in no table are united with, or taken from, those of tables."""

    def looks_at(self, table: int) -> bool:
        return table in self.rows

    def needed_for(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """As much of `downward` as these names need, each of which looks only at earlier ones."""
        wanted, found = set(names), []
        for name, statement in reversed(self.downward):
            if name in wanted:
                sql = statement.sql
                wanted.update(_NAMES.findall(sql))
                found.append((name, sql))
        return found[::-1]


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
    statements: list[tuple[str, Statement]] = field(default_factory=list)
    derived: dict[int, list[str]] = field(default_factory=dict)
    _usable: dict[int, tuple[Pair, ...]] = field(default_factory=dict)

    def compile(self, root: Node, key: Mapping[str, Expression]) -> Program:
        wants = [Want(each, nulls=True, place=n) for n, each in enumerate(key.values())]
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
            {table: tuple(texts) for table, texts in self.derived.items()},
            _stacks_static(root),
        )

    # ---- values of expressions, perhaps only of what a change touches -----------------------------

    def values(
        self,
        node: Node,
        wants: Sequence[Want],
        source: Callable[[Scan], tuple[str, ...]],
        changed: int | None = None,
    ) -> Relation:
        """The values of `wants` (as w0, w1, …) in the rows of a node, or in more than these.

        With `changed`, in the rows that come from this scan at least.
        """
        if isinstance(node, Scan):
            return Rows(source(node), tuple(self.column(node, want) for want in wants))
        if isinstance(node, Made):
            return self.values(node.child, below(node, wants), source, changed)
        if isinstance(node, Stacked):
            if changed is None and not all(child.scans for child in node.children):
                raise NotByRow("comes in part from rows that are in no table")
            return Union(
                tuple(
                    self.values(child, in_child(node, n, wants), source, changed)
                    for n, child in enumerate(node.children)
                    if changed is None or has_scan(child, changed)
                )
            )
        if isinstance(node, Matched):
            return self._values_matched(node, wants, source, changed)
        raise NotByRow("comes from rows that are in no table")

    def _values_matched(
        self,
        node: Matched,
        wants: Sequence[Want],
        source: Callable[[Scan], tuple[str, ...]],
        changed: int | None,
    ) -> Relation:
        if is_split(node, wants):
            return self._values_split(node, wants, source, changed)
        on_left = [comes_from_left(node, want) for want in wants]
        # Every side from which nothing is wanted can be left out, as long as the change is not in it.
        if changed is None or not has_scan(node.right, changed):
            if all(on_left):
                return self.values(node.left, wants, source, changed)
        if (changed is None or not has_scan(node.left, changed)) and not any(on_left):
            return self.values(node.right, wants, source, changed)
        pairs = self.pairs(node)
        left = [w for w, is_left in zip(wants, on_left, strict=True) if is_left]
        right = [w for w, is_left in zip(wants, on_left, strict=True) if not is_left]
        lefts = self.values(node.left, [*left, *compared(pairs, "left")], source, changed)
        rights = self.values(node.right, [*right, *compared(pairs, "right")], source, changed)
        counts, shown = {True: 0, False: 0}, []
        for is_left in on_left:
            shown.append((is_left, counts[is_left]))
            counts[is_left] += 1
        on = tuple((len(left) + n, len(right) + n, pair.nulls) for n, pair in enumerate(pairs))
        return Join(lefts, rights, on, tuple(shown))

    def _values_split(
        self,
        node: Matched,
        wants: Sequence[Want],
        source: Callable[[Scan], tuple[str, ...]],
        changed: int | None,
    ) -> Relation:
        left, right = halves(node, wants)
        if changed is None:
            sides = (
                self.values(node.left, left, source),
                self.values(node.right, right, source),
            )
            return Union(sides)
        here, there, side, other, far = (
            (node.left, node.right, left, "right", right)
            if has_scan(node.left, changed)
            else (node.right, node.left, right, "left", left)
        )
        own = self.values(here, side, source, changed)
        if are_compared(node, left, right):
            return own  # a partner has the same values
        pairs = self.pairs(node)
        near = compared(pairs, "left" if other == "right" else "right")
        keys = self.values(here, near, source, changed)
        partners = self.values(there, [*far, *compared(pairs, other)], source)
        on = tuple((n, len(far) + n, pair.nulls) for n, pair in enumerate(pairs))
        shown = tuple((False, n) for n in range(len(far)))
        return Union((own, Join(keys, partners, on, shown)))

    # ---- rows that decide over given values -------------------------------------------------------

    def restrict(
        self, node: Node, wants: Sequence[Want], relation: str
    ) -> dict[int, tuple[str, ...]]:
        """Statements that find all rows which decide over the values in `relation`; where, by scan."""
        if isinstance(node, Scan):
            on = tuple((self.column(node, want), want.place, want.nulls) for want in wants)
            return {node.number: (self._named("rows", Semi(node.table, relation, on)),)}
        if isinstance(node, Made):
            return self.restrict(node.child, below(node, wants), relation)
        if isinstance(node, Stacked):
            children = (c for c in enumerate(node.children) if c[1].scans)
            return united(
                *(self.restrict(child, in_child(node, n, wants), relation) for n, child in children)
            )
        if isinstance(node, Matched):
            return self._restrict_matched(node, wants, relation)
        raise NotByRow("comes from rows that are in no table")

    def _restrict_matched(
        self, node: Matched, wants: Sequence[Want], relation: str
    ) -> dict[int, tuple[str, ...]]:
        if is_split(node, wants):
            left, right = halves(node, wants)
            lefts = self.restrict(node.left, left, relation)
            rights = self.restrict(node.right, right, relation)
            if are_compared(node, left, right):
                return united(lefts, rights)
            partners = self._partners(node, lefts, of_left=True)
            return united(lefts, rights, partners, self._partners(node, rights, of_left=False))
        sides = [comes_from_left(node, want) for want in wants]
        # One side finds its rows by the values, the other finds the partners of these rows.
        by_left = any(sides) and (all(sides) or not node.kept_right)
        chosen = [want for want, is_left in zip(wants, sides, strict=True) if is_left == by_left]
        found = self.restrict(node.left if by_left else node.right, chosen, relation)
        other = node.right if by_left else node.left
        if not other.scans:
            return found
        return united(found, self._partners(node, found, of_left=by_left))

    def _partners(
        self, node: Matched, found: Mapping[int, tuple[str, ...]], *, of_left: bool
    ) -> dict[int, tuple[str, ...]]:
        near, far = ("left", "right") if of_left else ("right", "left")
        pairs = self.pairs(node)

        here, there = (node.left, node.right) if of_left else (node.right, node.left)
        values = self.values(here, compared(pairs, near), lambda scan: found[scan.number])
        name = self._named("keys", Distinct(values))
        return self.restrict(there, compared(pairs, far), name)

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
            trial.values(node, [Want(expression, nulls)], lambda scan: (f"t{scan.table}",))
            trial.restrict(node, [Want(expression, nulls)], TOUCHED)
        except NotByRow:
            return False
        return True

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

    def _named(self, what: str, statement: Statement) -> str:
        name = f"{what}{len(self.statements)}"
        self.statements.append((name, statement))
        return name


def _stacks_static(node: Node) -> bool:
    if isinstance(node, Made):
        return _stacks_static(node.child)
    if isinstance(node, Matched):
        return _stacks_static(node.left) or _stacks_static(node.right)
    if isinstance(node, Stacked):
        return any(not child.scans or _stacks_static(child) for child in node.children)
    return False


def _state_or_change(changed: int) -> Callable[[Scan], tuple[str, ...]]:
    return lambda scan: (f"{'change' if scan.number == changed else 't'}{scan.table}",)
