"""A table with a column of each type, for databases that speak SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tests.capture.contract.subject import OTHER, Row, Subject, Type

_COLUMN = re.compile(r"\bc\b")


class WithColumns(Subject):
    types: Sequence[Type] = ()
    before: Sequence[str] = ()
    """Statements that make types."""

    def write_types(self) -> None:
        columns = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(self.types))
        self.execute(*self.before, f"CREATE TABLE types (id int PRIMARY KEY, {columns})")
        for number in range(max(len(values) for _, values, _ in self.types)):
            # Where a type has fewer values, its last one comes again.
            given = [values[min(number, len(values) - 1)] for _, values, _ in self.types]
            self.execute(f"INSERT INTO types VALUES ({number}, {', '.join(given)})")
        nulls = ", ".join("NULL" for _ in self.types)
        self.execute(f"INSERT INTO types VALUES ({OTHER - 1}, {nulls})")

    def write_types_again(self) -> None:
        names = ", ".join(f"c{n}" for n, _ in enumerate(self.types))
        self.execute(f"INSERT INTO types SELECT id + {OTHER}, {names} FROM types")

    def selected_types(self) -> list[Row]:
        asked = {
            f"c{n}": f"({_COLUMN.sub(f'c{n}', shown)})"
            for n, (_, _, shown) in enumerate(self.types)
            if shown
        }
        rows = self.execute(
            f"SELECT id, {', '.join(asked.values())} FROM types WHERE id < {OTHER} ORDER BY id"
        )
        names = ["id", *asked]
        return [dict(zip(names, (row[0], *map(_read, row[1:])), strict=True)) for row in rows]


def _read(shown: str | None) -> object:
    return None if shown is None else json.loads(shown)
