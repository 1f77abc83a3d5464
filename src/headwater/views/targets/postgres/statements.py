"""The statements that a view in PostgreSQL needs, from its shape; text only, no connection.

A part is staged in unlogged tables of its own, which a crash of the server empties:

    PLACE     rows to be there, with the number of the row in its part
    PLACE_d   keys to be gone, with theirs; in a history deletes are among the rows

A row whose number is negative was refused when it was to count, and stays out. That column, and all else that
the statements name themselves, has a name that no column of the view has (`sql.names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.views.targets.contract import DELETED, VALID_FROM, VALIDITY, Kind, Part, Shape
from headwater.views.targets.postgres.values import column_type, keeps
from headwater.views.targets.sql.book import quoted
from headwater.views.targets.sql.names import OwnNames

BOOK = """CREATE TABLE IF NOT EXISTS headwater_views (
    view text NOT NULL, version integer NOT NULL, place text NOT NULL, epoch bigint NOT NULL,
    batch bigint, position text, current boolean NOT NULL, shape text, PRIMARY KEY (view, version))"""


def listed(names: Iterable[str], of: str = "") -> str:
    return ", ".join(f"{of}.{quoted(name)}" if of else quoted(name) for name in names)


def gone_of(place: str) -> str:
    return f"{place}_d"


class Place(NamedTuple):
    """What a part consists of."""

    table: str
    rows: int
    gone: int
    repeats: bool
    """Whether a key comes several times."""

    @classmethod
    def of(cls, part: Part) -> Place:
        table, rows, gone, repeats = part.place.rsplit(":", 3)
        return cls(table, int(rows), int(gone), repeats == "repeats")

    def __str__(self) -> str:
        return f"{self.table}:{self.rows}:{self.gone}:{'repeats' if self.repeats else 'once'}"


class Tables:
    """Statements for the rows of one view; `place` is its table of the moment, `staged` a part's."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.columns = list(shape.schema.names)
        history = shape.kind is Kind.HISTORY
        self.visible = [*self.columns, *VALIDITY] if history else self.columns
        self.staged = [*self.columns, DELETED, VALID_FROM] if history else self.columns
        self._own = OwnNames.beside(shape)
        self.number = self._own("n")
        """The column of staged rows with their number."""
        self.wanted = self._own("wanted")
        """A temporary table for keys that somebody asks for."""

    def types(self) -> dict[str, str]:
        found = {field.name: column_type(field.type) for field in self._shape.schema}
        if self._shape.kind is Kind.HISTORY:
            found |= zip(VALIDITY, ("timestamptz", "timestamptz", "boolean"), strict=True)
        return found

    def keeps(self, name: str, found: str) -> bool:
        return keeps(self.types()[name], found)

    def create(self, place: str, label: str, kept: Mapping[str, str]) -> list[str]:
        """`label` names the index, which keeps its name when the table gets another."""
        shape = self._shape
        parts = [f"{quoted(f.name)} {kept.get(f.name, column_type(f.type))}" for f in shape.schema]
        key = listed(shape.key)
        if shape.kind is Kind.UPSERT:
            parts.append(f"PRIMARY KEY ({key})")
        if shape.kind is not Kind.HISTORY:
            return [f"CREATE TABLE {quoted(place)} ({', '.join(parts)})"]
        parts += [
            "valid_from timestamptz NOT NULL",
            "valid_to timestamptz",
            "current boolean NOT NULL",
        ]
        index, table = quoted(f"{label}_current"), quoted(place)
        return [
            f"CREATE TABLE {table} ({', '.join(parts)})",
            f"CREATE UNIQUE INDEX {index} ON {table} ({key}) WHERE current",
            f"CREATE INDEX {quoted(f'{label}_key')} ON {table} ({key}, valid_to)",
        ]

    # ---- staging ----------------------------------------------------------------------------------

    def stage(self, place: str, staged: str) -> list[str]:
        """A table for a part's rows, with the types of the view's table, and its rules too."""
        table, target = quoted(staged), quoted(place)
        if self._shape.kind is Kind.HISTORY:
            return [
                f"CREATE UNLOGGED TABLE {table} AS SELECT {listed(self.columns)} FROM {target} "
                "WITH NO DATA",
                f"ALTER TABLE {table} ADD {DELETED} boolean, ADD {VALID_FROM} timestamptz, "
                f"ADD {self.number} bigint",
            ]
        return [
            f"CREATE UNLOGGED TABLE {table} (LIKE {target} INCLUDING CONSTRAINTS)",
            f"ALTER TABLE {table} ADD {self.number} bigint",
        ]

    def stage_gone(self, place: str, staged: str) -> list[str]:
        table = quoted(gone_of(staged))
        chosen = f"SELECT {listed(self._shape.key)} FROM {quoted(place)} WITH NO DATA"
        return [
            f"CREATE UNLOGGED TABLE {table} AS {chosen}",
            f"ALTER TABLE {table} ADD {self.number} bigint",
        ]

    # ---- making visible: rows whose number is in a range -------------------------------------------

    def delete(self, place: str, staged: str, rows: range) -> list[str]:
        row, gone = self._own("row"), self._own("gone")
        return [
            f"DELETE FROM {quoted(place)} AS {row} USING {quoted(gone_of(staged))} AS {gone} "
            f"WHERE {_same(self._shape.key, row, gone)} AND {self._between(gone, rows)}"
        ]

    def insert(self, place: str, staged: Place, rows: range) -> list[str]:
        """The last statement adds the rows, or lets them take the place of those with their keys."""
        if self._shape.kind is Kind.HISTORY:
            return self._history(place, staged.table, rows)
        key, row, part = self._shape.key, self._own("row"), self._own("part")
        # The alias also for a view that is called `excluded`.
        begin = f"INSERT INTO {quoted(place)} AS {row} ({listed(self.columns)})"
        source = (
            f"{listed(self.columns, part)} FROM {quoted(staged.table)} AS {part} "
            f"WHERE {self._between(part, rows)}"
        )
        if self._shape.kind is Kind.APPEND:
            return [f"{begin} SELECT {source}"]
        insert = f"{begin} SELECT {source}"
        if staged.repeats:
            insert = f"{begin} {self._last(source, staged, rows)}"
        rest = [name for name in self.columns if name not in key]
        change = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
        do = f"UPDATE SET {change}" if rest else "NOTHING"
        return [f"{insert} ON CONFLICT ({listed(key)}) DO {do}"]

    def _last(self, source: str, staged: Place, rows: range) -> str:
        """Of several changes of a key the last; none, where that one deletes it."""
        key, part, gone = self._shape.key, self._own("part"), self._own("gone")
        later = ""
        if staged.gone:
            later = (
                f" AND NOT EXISTS (SELECT 1 FROM {quoted(gone_of(staged.table))} AS {gone} WHERE "
                f"{_same(key, gone, part)} AND {gone}.{self.number} > {part}.{self.number} "
                f"AND {self._between(gone, rows)})"
            )
        keys = listed(key, part)
        return f"SELECT DISTINCT ON ({keys}) {source}{later} ORDER BY {keys}, {part}.{self.number} DESC"

    def _history(self, place: str, staged: str, rows: range) -> list[str]:
        """Versions that differ from the one before; the one that was current ends where they begin.

        No version begins before the one it follows, whatever its own time says.

            n       -1 for the row that is current, then the numbers of the staged ones
            look    the whole row, null where it is deleted; before: that of the version before it
            since   the row's own time; at, until: from when to when it holds
        """
        key, table, own = self._shape.key, quoted(place), self._own
        n, look, before, since, at, until, last = map(
            own, ("n", "look", "before", "since", "at", "until", "last")
        )
        part, touched, ended, every, marked, changed, versions = map(
            own, ("part", "touched", "ended", "every", "marked", "changed", "versions")
        )
        row, r, k, x = map(own, ("row", "r", "k", "x"))
        window = f"OVER (PARTITION BY {listed(key, r)} ORDER BY {r}.{n})"
        return [
            f"DROP TABLE IF EXISTS {versions}",
            f"""CREATE TEMP TABLE {versions} ON COMMIT DROP AS
            WITH {part} AS (SELECT * FROM {quoted(staged)} AS {r} WHERE {self._between(r, rows)}),
            {touched} AS (SELECT DISTINCT {listed(key, part)} FROM {part}),
            {ended} AS (SELECT {listed(key, row)}, max({row}.valid_to) AS {last}
                FROM {touched} AS {k} JOIN {table} AS {row} ON {_same(key, row, k)}
                GROUP BY {listed(key, row)}),
            {every} AS (
                SELECT {listed(key, row)}, -1 AS {n}, {row}.valid_from AS {since},
                    (SELECT ROW({listed(self.columns, row)})::text) AS {look}
                FROM {touched} AS {k} JOIN {table} AS {row} ON {_same(key, row, k)}
                WHERE {row}.current
                UNION ALL
                SELECT {listed(key, r)}, {r}.{n}, {r}.{VALID_FROM},
                    CASE WHEN NOT {r}.{DELETED} THEN ROW({listed(self.columns, r)})::text END
                FROM {part} AS {r}),
            {marked} AS (SELECT {r}.*, lag({r}.{look}) {window} AS {before} FROM {every} AS {r}),
            {changed} AS (
                SELECT {r}.*, greatest(max({r}.{since}) {window}, {x}.{last}) AS {at}
                FROM {marked} AS {r} LEFT JOIN {ended} AS {x} ON {_same(key, r, x)}
                WHERE {r}.{n} = -1 OR {r}.{look} IS DISTINCT FROM {r}.{before})
            SELECT {r}.*, lead({r}.{at}) {window} AS {until} FROM {changed} AS {r}""",
            f"UPDATE {table} AS {row} SET valid_to = {r}.{until}, current = false "
            f"FROM {versions} AS {r} WHERE {r}.{n} = -1 AND {r}.{until} IS NOT NULL "
            f"AND {row}.current AND {_same(key, row, r)}",
            f"INSERT INTO {table} ({listed(self.visible)}) SELECT {listed(self.columns, part)}, "
            f"{r}.{at}, {r}.{until}, {r}.{until} IS NULL FROM {versions} AS {r} "
            f"JOIN {quoted(staged)} AS {part} ON {part}.{n} = {r}.{n} "
            f"WHERE {r}.{n} >= 0 AND {r}.{look} IS NOT NULL",
        ]

    def select(self, place: str, *, wanted: bool = False) -> str:
        """All rows, or those whose keys are in the temporary table `wanted`."""
        row, key = self._own("row"), self._own("key")
        chosen = f"SELECT {listed(self.visible, row)} FROM "
        if not wanted:
            return f"{chosen}{quoted(place)} AS {row}"
        keys = f"(SELECT DISTINCT * FROM {self.wanted}) AS {key}"
        return f"{chosen}{keys} JOIN {quoted(place)} AS {row} ON {_same(self._shape.key, row, key)}"

    def want(self, place: str) -> str:
        """Makes the temporary table."""
        names = listed(self._shape.key)
        return (
            f"CREATE TEMP TABLE {self.wanted} ON COMMIT DROP AS SELECT {names} FROM {quoted(place)} "
            "WITH NO DATA"
        )

    def _between(self, alias: str, rows: range) -> str:
        return f"{alias}.{self.number} >= {rows.start} AND {alias}.{self.number} < {rows.stop}"


def _same(key: tuple[str, ...], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{quoted(name)} = {other}.{quoted(name)}" for name in key)
