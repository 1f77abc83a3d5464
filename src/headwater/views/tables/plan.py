"""All that is known of a view over tables before its first batch. Made by `planner`, run by `upkeep`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.views.tables import lookup
from headwater.views.tables.aggregation import Aggregation
from headwater.views.tables.decoder import Table
from headwater.views.tables.plain_values import can_be_compared, can_be_kept
from headwater.views.tables.program import Program
from headwater.views.tables.state import State
from headwater.views.tables.store import Difference, Store, TableShape, ViewShape
from headwater.views.targets.contract import Misfit

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Plan:
    """All that is known of a view over tables before its first batch."""

    name: str
    tables: Sequence[Table]
    columns: Sequence[pa.Schema]
    """Of each table's state: c0, c1, …, d0, …."""
    result: pa.Schema
    key: tuple[str, ...]
    program: Program | None
    """None: computed as a whole in every batch."""
    query: str
    """The query, as text: state of another one is not used."""
    aggregation: Aggregation | None = None
    """What running totals keep of it, where they can."""

    def state(self, folder: Path, *, in_memory: bool = True) -> State:
        shapes = [
            TableShape(columns, table.keys, table.topic)
            for table, columns in zip(self.tables, self.columns, strict=True)
        ]
        store = Store(folder, shapes, ViewShape(self.result, self.key), self.query)
        return State(store, in_memory=in_memory and self.fits_memory)

    @property
    def followed(self) -> dict[int, int]:
        """Which column of the view's key each one that the program follows is: w → k."""
        assert self.program is not None
        return {w: self.key.index(name) for w, name in enumerate(self.program.key)}

    @property
    def followed_key(self) -> pa.Schema:
        """Those columns of the view's key, in the order of w0, w1, …"""
        import pyarrow as pa

        fields = [self.result.field(self.key[k]) for k in self.followed.values()]
        return pa.schema([field.with_nullable(True) for field in fields])

    def distinct(self, found: Difference) -> Difference:
        """Misfit where two rows have one key."""
        self.must_be_distinct(found.twice)
        return found

    def must_be_distinct(self, twice: Sequence[object] | None) -> None:
        """Misfit where there is a key that two rows have."""
        if twice is not None:
            values = ", ".join(map(str, twice))
            raise Misfit(
                f"the view {self.name!r} has two rows with the key ({values}); "
                f"{', '.join(self.key)} must be different in every row: add columns to the key, or group "
                "by it"
            )

    @property
    def fits_memory(self) -> bool:
        """Whether all values are such that Python compares them as the state's engine does."""
        if self.program is None or self.aggregation is not None:
            return False
        compared = [self.result.field(name).type for name in self.key]
        for columns, table in zip(self.columns, self.tables, strict=True):
            compared += [columns.types[n] for n in table.keys]
        compared += lookup.compared(self.program, self.columns)
        every = [kind for columns in (*self.columns, self.result) for kind in columns.types]
        return all(map(can_be_kept, every)) and all(map(can_be_compared, compared))
