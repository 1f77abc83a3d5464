"""Which keys a change touches, and which rows decide over them, found among rows that are in memory.

The same questions that `store` asks its engine in SQL (`relations`), for a few rows: every comparison is a
look into an index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod

import pyarrow as pa

from headwater.views.tables.changed_rows import Changed
from headwater.views.tables.plain_values import Values, table_of
from headwater.views.tables.program import TOUCHED, Program
from headwater.views.tables.relations import Distinct, Join, Relation, Rows, Semi, Union
from headwater.views.tables.row_index import TableRows


def apply(
    tables: Sequence[TableRows], program: Program, found: Mapping[int, Sequence[Changed]]
) -> set[Values] | None:
    """Bring the tables up to date; the keys of the view that this touches, None where it touches none."""
    real = {n: [c for c in each if not c.is_same] for n, each in found.items()}
    looked_at = {n: each for n, each in real.items() if each and program.looks_at(n)}
    before = {
        n: rows
        for n, each in looked_at.items()
        if (rows := [c.before.values for c in each if c.before is not None])
    }
    keys = touched(program, tables, before)
    for n, each in found.items():
        for changed in each:
            tables[n].put(changed.key, changed.after)
    if not looked_at:
        return None
    after = {
        n: [c.after.values for c in each if c.after is not None] for n, each in looked_at.items()
    }
    return keys | touched(program, tables, after)


def deciding(
    tables: Sequence[TableRows], program: Program, keys: Collection[Values]
) -> dict[int, pa.Table]:
    """The rows of all tables that decide over these keys: their own columns."""
    found = _deciding(program, tables, keys)
    made = {}
    for n, table in enumerate(tables):
        own = pa.schema([f for f in table.shape.columns if f.name.startswith("c")])
        made[n] = table_of([row[: len(own)] for row in found.get(n, ())], own)
    return made


def touched(
    program: Program, tables: Sequence[TableRows], changed: Mapping[int, Sequence[Values]]
) -> set[Values]:
    """The keys that changed rows of tables touch."""
    match = _Matching(tables, {f"change{n}": rows for n, rows in changed.items()}, {})
    found: set[Values] = set()
    for table, relation in program.upward:
        if table in changed:
            found.update(match.all(relation))
    return found


def _deciding(
    program: Program, tables: Sequence[TableRows], keys: Collection[Values]
) -> dict[int, list[Values]]:
    """The rows of every table that decide over these keys, each once."""
    values: dict[str, Collection[Values]] = {TOUCHED: keys}
    of_table = {name: each.table for name, each in program.downward if isinstance(each, Semi)}
    rows: dict[str, Sequence[Values]] = {}
    match = _Matching(tables, rows, of_table)
    for name, statement in program.downward:
        if isinstance(statement, Distinct):
            values[name] = set(match.all(statement.of))
        else:
            rows[name] = match.semi(statement, values[statement.relation])
    return {
        n: list({tables[n].key_of(row): row for name in names for row in rows[name]}.values())
        for n, names in program.rows.items()
    }


def compared(program: Program, columns: Sequence[pa.Schema]) -> list[pa.DataType]:
    """The types of all columns that are looked at to find rows."""
    found: list[pa.DataType] = []
    for _, relation in program.upward:
        found += _types(relation, columns)
    for _, statement in program.downward:
        if isinstance(statement, Semi):
            found += [columns[statement.table].field(name).type for name, _, _ in statement.on]
    return found


def _types(relation: Relation, columns: Sequence[pa.Schema]) -> list[pa.DataType]:
    if isinstance(relation, Rows):
        table = columns[_number_of(relation.sources[0], {})]
        return [table.field(name).type for name in relation.columns]
    if isinstance(relation, Union):
        return [kind for part in relation.parts for kind in _types(part, columns)]
    return [*_types(relation.left, columns), *_types(relation.right, columns)]


@dataclass(frozen=True)
class _Matching:
    tables: Sequence[TableRows]
    rows: Mapping[str, Sequence[Values]]
    """Rows of tables that have a name."""
    of_table: Mapping[str, int]

    def semi(self, statement: Semi, values: Iterable[Values]) -> list[Values]:
        table = self.tables[statement.table]
        places = table.places(column for column, _, _ in statement.on)
        kept = _comparable([(place, nulls) for _, place, nulls in statement.on])
        return list(table.found(places, {key for row in values if (key := kept(row)) is not None}))

    @singledispatchmethod
    def all(self, relation: Relation) -> Iterable[Values]:
        """Every row of a relation."""
        raise TypeError(relation)

    @all.register
    def _(self, relation: Rows) -> Iterable[Values]:
        for source in relation.sources:
            number = _number_of(source, self.of_table)
            places = self.tables[number].places(relation.columns)
            rows: Iterable[Values]
            if source in self.rows:
                rows = self.rows[source]
            else:
                rows = [row.values for row in self.tables[number].by_key.values()]
            for row in rows:
                yield tuple(row[n] for n in places)

    @all.register
    def _(self, relation: Union) -> Iterable[Values]:
        for part in relation.parts:
            yield from self.all(part)

    @all.register
    def _(self, relation: Join) -> Iterable[Values]:
        if self._is_bound(relation.left):
            return self._joined(relation, lefts=list(self.all(relation.left)))
        return self._joined(relation, rights=list(self.all(relation.right)))

    def some(
        self, relation: Relation, places: Sequence[int], values: Collection[Values]
    ) -> Iterable[Values]:
        """The rows of a relation that have one of these values in these columns."""
        if isinstance(relation, Union):
            return [row for part in relation.parts for row in self.some(part, places, values)]
        if isinstance(relation, Join):
            return self._some_joined(relation, places, values)
        if self._is_bound(relation):
            rows = self.all(relation)
            return [row for row in rows if tuple(row[n] for n in places) in values]
        table = self.tables[_number_of(relation.sources[0], self.of_table)]
        shown = table.places(relation.columns)
        found = table.found(tuple(shown[n] for n in places), values)
        return [tuple(row[n] for n in shown) for row in found]

    def _some_joined(
        self, relation: Join, places: Sequence[int], values: Collection[Values]
    ) -> Iterable[Values]:
        """By those of the columns that are of one side; what the others have is seen in the end."""
        is_left = relation.shown[places[0]][0]
        own = [n for n, place in enumerate(places) if relation.shown[place][0] == is_left]
        below = [relation.shown[places[n]][1] for n in own]
        some = {tuple(value[n] for n in own) for value in values}
        side = list(self.some(relation.left if is_left else relation.right, below, some))
        both = self._joined(relation, **{"lefts" if is_left else "rights": side})
        return [row for row in both if tuple(row[n] for n in places) in values]

    def _joined(
        self,
        relation: Join,
        lefts: Sequence[Values] | None = None,
        rights: Sequence[Values] | None = None,
    ) -> Iterable[Values]:
        """The join, of which the rows of one side are known."""
        near = [(left if lefts is not None else right, n) for left, right, n in relation.on]
        far = [right if lefts is not None else left for left, right, _ in relation.on]
        other = relation.right if lefts is not None else relation.left
        value = _comparable(near)
        known = lefts if lefts is not None else rights or ()
        wanted = {key for row in known if (key := value(row)) is not None}
        partners: dict[Values, list[Values]] = {}
        for row in self.some(other, far, wanted):
            partners.setdefault(tuple(row[n] for n in far), []).append(row)
        for row in known:
            key = value(row)
            for partner in partners.get(key, ()) if key is not None else ():
                left, right = (row, partner) if lefts is not None else (partner, row)
                yield tuple((left if is_left else right)[n] for is_left, n in relation.shown)

    def _is_bound(self, relation: Relation) -> bool:
        """Whether a relation's rows are few: those of a change, or of a statement."""
        if isinstance(relation, Rows):
            return all(source in self.rows for source in relation.sources)
        if isinstance(relation, Union):
            return all(map(self._is_bound, relation.parts))
        return self._is_bound(relation.left) or self._is_bound(relation.right)


def _comparable(places: Sequence[tuple[int, bool]]) -> Callable[[Values], Values | None]:
    """A row's values in some columns; None where one is nothing, and nothing is not equal to it."""

    def value(row: Values) -> Values | None:
        found = tuple(row[n] for n, _ in places)
        for each, (_, nulls) in zip(found, places, strict=True):
            if each is None and not nulls:
                return None
        return found

    return value


def _number_of(source: str, of_table: Mapping[str, int]) -> int:
    """Which table's rows a name stands for."""
    if source in of_table:
        return of_table[source]
    return int(source.removeprefix("change").removeprefix("t"))
