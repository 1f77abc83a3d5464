"""One micro-batch of a view over tables: the four steps of DESIGN.md, and in which order they last.

    1  the rows that change, as they were and as they are                         (netting)
    2  the view's keys that they touch, before in the old state, after in the new (program)
    3  the view's function on the rows that decide over these keys                (frames)
    4  the difference from what the view holds                                    (store)

    then   pending ──▶ the target, with the position ──▶ the state, with the batch

The state's transaction is open all the while. If the driver ends before the target has the batch, nothing
has happened; if after, the batch comes again and `pending` says what was done. The state can therefore be
behind the target by one batch, and never ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.views.tables import netting, pending
from headwater.views.tables.decoding import Table
from headwater.views.tables.program import Program
from headwater.views.tables.store import Difference, Store, TableShape, ViewShape
from headwater.views.target import Misfit

if TYPE_CHECKING:
    import pyarrow as pa

Compute = Callable[[Mapping[int, "pa.Table"]], "pa.Table"]
"""The view's query on given rows of its tables."""
Write = Callable[[Difference], None]


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

    def store(self, folder: Path) -> Store:
        shapes = [
            TableShape(columns, table.keys, table.topic)
            for table, columns in zip(self.tables, self.columns, strict=True)
        ]
        return Store(folder, shapes, ViewShape(self.result, self.key), self.query)


@dataclass
class Upkeep:
    """A view over tables, kept current by one run of its query."""

    plan: Plan
    folder: Path
    _store: Store | None = field(default=None, init=False)

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = self.plan.store(self.folder)
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def apply(
        self,
        batch: int,
        changes: Callable[[], Sequence[pa.Table]],
        compute: Compute,
        write: Write,
    ) -> None:
        """Bring a batch into the view and the state; nothing happens if both have it.

        `write` brings a difference into the target, and ignores it if that has the batch already.
        """
        store = self.store
        if batch <= store.batch:
            return
        if batch != store.batch + 1:
            raise Misfit(
                f"the checkpoint of the view {self.plan.name!r} goes on with batch {batch}, and the "
                f"state of its tables ends with {store.batch}; put back what is missing, or build the "
                "view anew with headwater rebuild"
            )
        with store.transaction():
            done = pending.read(self.folder, batch)
            if done is None:
                difference = self._compute(batch, changes(), compute)
            else:
                difference = done[1]
                for n, rows in done[0].items():
                    netting.reapply(store, n, rows)
            write(difference)
            store.hold(difference)
            store.finish(batch)
        store.batch = batch

    def _compute(self, batch: int, changes: Sequence[pa.Table], compute: Compute) -> Difference:
        store, program = self.store, self._program(batch)
        changed = [n for n, rows in enumerate(changes) if rows.num_rows]
        changed = [n for n in changed if netting.net(store, n, changes[n])]
        # A table that the query does not look at is kept as well: another query may.
        touching = [n for n in changed if program is None or program.looks_at(n)]
        if program is not None and touching:
            store.touch(program, touching, "before")
        for n in changed:
            netting.apply(store, n)
        if not touching and batch > 0:
            return store.no_difference()
        if program is not None:
            store.touch(program, touching, "after")
            rows = store.deciding(program)
        else:
            rows = store.whole()
        rows = {n: rows.get(n, store.nothing_of(n)) for n in range(len(store.tables))}
        difference = self._difference(compute(rows), program)
        pending.write(self.folder, batch, {n: netting.kept(store, n) for n in changed}, difference)
        return difference

    def _program(self, batch: int) -> Program | None:
        """None: as a whole. So is the first batch of every view: rows that are in no table (a list, a file)
        are touched by no change, and must be in the view from its beginning."""
        return None if batch == 0 else self.plan.program

    def _difference(self, result: pa.Table, program: Program | None) -> Difference:
        plan = self.plan
        followed = None
        if program is not None:
            followed = {w: plan.key.index(name) for w, name in enumerate(program.key)}
        found = self.store.differing(result, followed)
        if found.twice is not None:
            values = ", ".join(map(str, found.twice))
            raise Misfit(
                f"the view {plan.name!r} has two rows with the key ({values}); "
                f"{', '.join(plan.key)} must be different in every row: add columns to the key, or group "
                "by it"
            )
        return found
