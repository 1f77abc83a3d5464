"""One micro-batch of a view over tables: the four steps of DESIGN.md, and in which order they last.

    1  the rows that change, as they were and as they are                         (net_changes)
    2  the view's keys that they touch, before in the old state, after in the new (program)
    3  the view's function on the rows that decide over these keys                (frames)
       where it fails: of all but those for which it does                         (set_aside)
       or, for an aggregate that can be kept so, its totals                       (totals)
    4  the difference from what the view holds                                    (store, memory)

    then   what is to be done, on disk ──▶ the target, with the position ──▶ the state, with the batch

A small batch of a small state is done in memory, and what it does is added to the journal; any other by the
state's engine, in one transaction that is open all the while, with `pending` in the journal's place. If the
driver ends before the target has the batch, nothing has happened; if after, the batch comes again and what
was written says what was done. The state, journal included, can therefore be behind the target by one batch,
and never ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from headwater.views.tables import (
    changed_rows,
    lookup,
    net_changes,
    new_columns,
    pending_batch,
    set_aside,
)
from headwater.views.tables.memory import Memory
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import Program
from headwater.views.tables.set_aside import NOBODY, Blame, Compute
from headwater.views.tables.state import State
from headwater.views.tables.store import Difference, Store
from headwater.views.tables.totals import Totals
from headwater.views.targets.contract import Misfit

Write = Callable[[Difference], None]


@dataclass
class Upkeep:
    """A view over tables, kept current by one run of its query."""

    plan: Plan
    folder: Path
    in_memory: bool = True
    """Whether a small state may be kept there; for tests."""
    blame: Blame = NOBODY
    """For which errors keys are set aside."""
    _state: State | None = field(default=None, init=False)

    @property
    def state(self) -> State:
        if self._state is None:
            self._state = self.plan.state(self.folder, in_memory=self.in_memory)
        return self._state

    @property
    def store(self) -> Store:
        return self.state.store

    @property
    def batch(self) -> int:
        """The last that is in the state."""
        return self.state.batch

    @property
    def totals(self) -> Totals | None:
        plan = self.plan
        if plan.aggregation is None or plan.program is None:
            return None
        shown = [plan.aggregation.shown[plan.result.names.index(k)] for k in plan.program.key]
        groups = [each for each in shown if isinstance(each, int)]
        return Totals(self.store, plan.aggregation, groups, plan.result)

    def close(self) -> None:
        if self._state is not None:
            self._state.close()
            self._state = None

    def let_go(self) -> None:
        """As the end of the process would: what is in memory is in the journal."""
        if self._state is not None:
            self._state.let_go()
            self._state = None

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
        state = self.state
        begun = state.begun(batch)
        if batch <= state.batch:
            return
        if batch != state.batch + 1:
            raise Misfit(
                f"the checkpoint of the view {self.plan.name!r} goes on with batch {batch}, and the "
                f"state of its tables ends with {state.batch}; put back what is missing, or rebuild the "
                "view with headwater rebuild"
            )
        if begun is not None:
            write(begun.difference)
            state.redo(begun)
            return
        given = changes()
        if self._program(batch) is None:
            state.to_file()
            memory = None
        else:
            memory = state.memory_for(given)
        if memory is None:
            self._by_store(batch, given, compute, write)
        else:
            self._by_memory(memory, batch, given, compute, write)

    # ---- in memory ------------------------------------------------------------------------------

    def _by_memory(
        self,
        memory: Memory,
        batch: int,
        changes: Sequence[pa.Table],
        compute: Compute,
        write: Write,
    ) -> None:
        plan, tables, state = self.plan, memory.tables, self.state
        assert plan.program is not None
        with memory.batch():
            nets = {n: changed_rows.net(tables[n], rows) for n, rows in enumerate(changes)}
            found = {n: each for n, each in nets.items() if each}
            keys = lookup.apply(tables, plan.program, found)
            difference = self.store.no_difference()
            if keys is not None:
                result, aside = set_aside.in_memory(plan, memory, keys, compute, self.blame)
                difference = plan.distinct(
                    memory.differing(result, keys, plan.followed, state.digests)
                )
                difference = replace(difference, aside=aside)
            kept = {n: changed_rows.kept(tables[n], each) for n, each in found.items()}
            state.begin(batch, kept, difference)
            write(difference)
        memory.hold(difference)
        state.finish(batch)

    # ---- by the state's engine ------------------------------------------------------------------

    def _by_store(
        self, batch: int, changes: Sequence[pa.Table], compute: Compute, write: Write
    ) -> None:
        store = self.store
        try:
            with store.transaction():
                difference = self._compute(batch, changes, compute)
                write(difference)
                store.hold(difference)
                store.finish(batch)
                if self.state.is_widened:
                    new_columns.finish(store)
            store.batch = batch
        finally:
            if store.batch != batch:
                self.state.look_again(batch)
        self.state.finish(batch)
        if self.state.is_widened:
            self.state.widened()

    def _compute(self, batch: int, changes: Sequence[pa.Table], compute: Compute) -> Difference:
        store, program = self.store, self._program(batch)
        store.expect(sum(rows.num_rows for rows in changes))
        found = [net_changes.net(store, n, rows) for n, rows in enumerate(changes) if rows.num_rows]
        found = [each for each in found if each.kept.num_rows]
        # A table that the query does not look at is kept as well: another query may.
        changed = [each.number for each in found if each.changed]
        touching = [n for n in changed if program is None or program.looks_at(n)]
        were = [n.number for n in found if n.was_there and n.number in touching]
        if program is not None and were:
            store.touch(program, {n: net_changes.before(store.tables[n], n) for n in were})
        for each in found:
            net_changes.apply(store, each)
        if program is not None:
            self._total(batch, touching)
        if not touching and not self._is_whole(batch):
            return store.no_difference()
        result = aside = None
        if program is not None:
            after = {n: net_changes.after(store.tables[n], n) for n in touching}
            store.touch(program, after, more=bool(were))
            if self.totals is not None:
                result = self.totals.touched()
        if result is None:
            result, aside = set_aside.in_store(self.plan, store, program, compute, self.blame)
        difference = replace(self._difference(result, program), aside=aside)
        pending_batch.write(self.folder, batch, {n.number: n.kept for n in found}, difference)
        return difference

    def _total(self, batch: int, touching: Sequence[int]) -> None:
        """Bring the totals up to date with the tables, where the view is kept by totals."""
        totals = self.totals
        if totals is None:
            return
        if not totals.are_of(batch - 1):
            totals.count()  # the first time, or a batch was done again as `pending` says
        elif touching:
            table = self.store.tables[totals.of.table]
            totals.move(
                net_changes.before(table, totals.of.table),
                net_changes.after(table, totals.of.table),
            )
        totals.finish(batch)

    def _program(self, batch: int) -> Program | None:
        """None: as a whole."""
        return None if self._is_whole(batch) else self.plan.program

    def _is_whole(self, batch: int) -> bool:
        """The first batch of every view: rows that are in no table (a list, a file) are touched by no change,
        and must be in the view from its beginning. And the first one after its tables have got columns."""
        return batch == 0 or self.state.is_widened

    def _difference(self, result: pa.Table, program: Program | None) -> Difference:
        followed = None if program is None else self.plan.followed
        return self.plan.distinct(self.store.differing(result, followed))
