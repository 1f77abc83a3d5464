"""The statements that a view in PostgreSQL needs, from its shape; text only, no connection.

A part is staged in unlogged tables of its own, which a crash of the server empties:

    PLACE     rows to be there, with `_n`, the number of the row in its part
    PLACE_d   keys to be gone, with `_n`; in a history deletes are among the rows

A row whose `_n` is negative was refused when it was to count, and stays out.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.views.postgres_values import column_type
from headwater.views.sql_book import quoted
from headwater.views.target import DELETED, VALID_FROM, VALIDITY, Kind, Shape

BOOK = """CREATE TABLE IF NOT EXISTS headwater_views (
    view text NOT NULL, version integer NOT NULL, place text NOT NULL, epoch bigint NOT NULL,
    batch bigint, position text, current boolean NOT NULL, PRIMARY KEY (view, version))"""


def listed(names: Iterable[str], of: str = "") -> str:
    return ", ".join(f"{of}.{quoted(name)}" if of else quoted(name) for name in names)


def gone_of(place: str) -> str:
    return f"{place}_d"


class Tables:
    """Statements for the rows of one view; `place` is its table of the moment, `staged` a part's."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.columns = list(shape.schema.names)
        history = shape.kind is Kind.HISTORY
        self.visible = [*self.columns, *VALIDITY] if history else self.columns
        self.staged = [*self.columns, DELETED, VALID_FROM] if history else self.columns

    def create(self, place: str, label: str) -> list[str]:
        """`label` names the index, which keeps its name when the table gets another."""
        shape = self._shape
        parts = [f"{quoted(f.name)} {column_type(f.type)}" for f in shape.schema]
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
                "ADD _n bigint",
            ]
        return [
            f"CREATE UNLOGGED TABLE {table} (LIKE {target} INCLUDING CONSTRAINTS)",
            f"ALTER TABLE {table} ADD _n bigint",
        ]

    def stage_gone(self, place: str, staged: str) -> list[str]:
        table = quoted(gone_of(staged))
        chosen = f"SELECT {listed(self._shape.key)} FROM {quoted(place)} WITH NO DATA"
        return [f"CREATE UNLOGGED TABLE {table} AS {chosen}", f"ALTER TABLE {table} ADD _n bigint"]

    # ---- making visible: rows whose `_n` is in a range ----------------------------------------------

    def delete(self, place: str, staged: str, rows: range) -> list[str]:
        same = _same(self._shape.key, "t", "g")
        return [
            f"DELETE FROM {quoted(place)} AS t USING {quoted(gone_of(staged))} AS g "
            f"WHERE {same} AND {_between('g', rows)}"
        ]

    def insert(self, place: str, staged: str, rows: range) -> list[str]:
        """The last statement adds the rows, or lets them take the place of those with their keys."""
        if self._shape.kind is Kind.HISTORY:
            return self._history(place, staged, rows)
        names, key = listed(self.columns), self._shape.key
        insert = (
            f"INSERT INTO {quoted(place)} ({names}) SELECT {names} FROM {quoted(staged)} AS s "
            f"WHERE {_between('s', rows)}"
        )
        if self._shape.kind is Kind.APPEND:
            return [insert]
        rest = [name for name in self.columns if name not in key]
        change = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
        do = f"UPDATE SET {change}" if rest else "NOTHING"
        return [f"{insert} ON CONFLICT ({listed(key)}) DO {do}"]

    def _history(self, place: str, staged: str, rows: range) -> list[str]:
        """Versions that differ from the one before; the one that was current ends where they begin.

        No version begins before the one it follows, whatever its own time says.
        """
        key, table, part = self._shape.key, quoted(place), quoted(staged)
        keys = listed(key)
        look = f"ROW({listed(self.columns)})::text"
        w, w2 = (f"PARTITION BY {listed(key, of)} ORDER BY n" for of in ("", "m"))
        return [
            "DROP TABLE IF EXISTS _versions",
            f"""CREATE TEMP TABLE _versions ON COMMIT DROP AS
            WITH s AS (SELECT * FROM {part} AS s WHERE {_between("s", rows)}),
            touched AS (SELECT DISTINCT {keys} FROM s),
            ended AS (SELECT {listed(key, "t")}, max(t.valid_to) AS last FROM touched AS k
                JOIN {table} AS t ON {_same(key, "t", "k")} GROUP BY {listed(key, "t")}),
            every AS (
                SELECT {listed(key, "t")}, -1 AS n, t.valid_from AS since,
                    (SELECT ROW({listed(self.columns, "t")})::text) AS look
                FROM touched AS k JOIN {table} AS t ON {_same(key, "t", "k")} WHERE t.current
                UNION ALL
                SELECT {keys}, _n, {VALID_FROM}, CASE WHEN NOT {DELETED} THEN {look} END FROM s),
            marked AS (SELECT e.*, lag(look) OVER ({w}) AS before FROM every AS e),
            changed AS (SELECT m.*, greatest(max(since) OVER ({w2}), x.last) AS at
                FROM marked AS m LEFT JOIN ended AS x ON {_same(key, "m", "x")}
                WHERE n = -1 OR look IS DISTINCT FROM before)
            SELECT *, lead(at) OVER ({w}) AS until FROM changed""",
            f"UPDATE {table} AS t SET valid_to = v.until, current = false FROM _versions AS v "
            f"WHERE v.n = -1 AND v.until IS NOT NULL AND t.current AND {_same(key, 't', 'v')}",
            f"INSERT INTO {table} ({listed(self.visible)}) SELECT {listed(self.columns, 's')}, v.at, "
            f"v.until, v.until IS NULL FROM _versions AS v JOIN {part} AS s ON s._n = v.n "
            "WHERE v.n >= 0 AND v.look IS NOT NULL",
        ]

    def select(self, place: str, keys: str | None = None) -> str:
        """All rows, or those whose keys are in the table `keys`."""
        names = listed(self.visible, "t")
        if keys is None:
            return f"SELECT {names} FROM {quoted(place)} AS t"
        same = _same(self._shape.key, "t", "k")
        return f"SELECT {names} FROM {keys} AS k JOIN {quoted(place)} AS t ON {same}"


def _same(key: tuple[str, ...], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{quoted(name)} = {other}.{quoted(name)}" for name in key)


def _between(alias: str, rows: range) -> str:
    return f"{alias}._n >= {rows.start} AND {alias}._n < {rows.stop}"
