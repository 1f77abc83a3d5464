"""The state of a view over tables, wherever it is: in its file, in memory, and until then in the journal.

Owned by `upkeep`. What is in memory is brought to the file when enough has come together, when a batch needs
the state's engine, and at the end. After a crash the file and the journal are as good as what was in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.tables import net_changes, new_columns, pending_batch
from headwater.views.tables.digest import hashed
from headwater.views.tables.journal import Journal
from headwater.views.tables.memory import Memory
from headwater.views.tables.pending_batch import Entry
from headwater.views.tables.store import Difference, Store

SMALL_ROWS = 2_000
"""Up to so many changes, a batch of a small state is done in memory."""
JOURNAL_BATCHES, JOURNAL_BYTES = 200, 8 << 20
"""So much is brought to the state's file at once."""


class State:
    """One thread at a time."""

    def __init__(self, store: Store, *, in_memory: bool) -> None:
        self.store = store
        self.batch = store.batch
        """The last that is in the state."""
        self._fits_memory = in_memory
        self.is_widened = new_columns.is_due(store)
        """Its tables have columns that the view was not computed with: the next batch does, as a whole."""
        # What the journal has of before knows nothing of them, and goes to the file, which has defaults.
        self._may_be_in_memory = in_memory and not self.is_widened
        self._memory: Memory | None = None
        self._journal = Journal(store.folder)
        self._begun: Entry | None = None
        """Of a batch that the target may have or not."""
        self._take_over()

    def close(self) -> None:
        try:
            self.to_file()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """As the end of the process would: what is in memory is in the journal."""
        self._journal.close()
        self.store.close()

    # ---- what was done before, by this run or another one ---------------------------------------

    def _take_over(self) -> None:
        """Do what the journal says; of its last batch nobody knows yet whether it was done."""
        entries = self._journal.after(self.batch)
        if not entries:
            self.look_again(self.batch + 1)
            return
        if self._may_be_in_memory:
            self._memory = Memory.of(self.store)
        for entry in entries[:-1]:
            self.redo(entry.with_columns(self.store.view.schema))
        self._begun = entries[-1].with_columns(self.store.view.schema)

    def look_again(self, batch: int) -> None:
        """A batch of the state's engine has failed, perhaps after its target had it."""
        begun = pending_batch.read(self.store.folder, batch)
        self._begun = None if begun is None else begun.with_columns(self.store.view.schema)

    def begun(self, batch: int) -> Entry | None:
        """What was written of this batch before; what was written of an earlier one was done."""
        entry = self._begun
        if entry is not None and entry.batch < batch:
            self.redo(entry)
            return None
        return entry if entry is not None and entry.batch == batch else None

    def last(self) -> Entry | None:
        """What was written of the last batch in the state, where that is still there."""
        folder = self.store.folder
        entries = Journal(folder).after(self.batch - 1)
        return entries[0] if entries else pending_batch.read(folder, self.batch)

    def redo(self, entry: Entry) -> None:
        """In memory only where all is there that came before: what `pending` alone has goes to the file."""
        store, memory = self.store, self._memory
        if memory is not None:
            with memory.batch():
                for n, rows in entry.changes.items():
                    memory.change(n, rows)
            memory.hold(entry.difference)
        else:
            with store.transaction():
                for n, rows in entry.changes.items():
                    net_changes.reapply(store, n, rows)
                store.hold(entry.difference)
                store.finish(entry.batch)
            store.batch = entry.batch
        self.batch, self._begun = entry.batch, None

    # ---- a batch in memory ----------------------------------------------------------------------

    def memory_for(self, changes: Sequence[pa.Table]) -> Memory | None:
        """The state in memory, if this batch can be done there; else it is all in the file."""
        small = sum(rows.num_rows for rows in changes) <= SMALL_ROWS
        emptied = any(pc.any(rows["emptied"]).as_py() for rows in changes)
        if self._memory is not None and self._memory.is_too_large:
            self._may_be_in_memory = False
        if not self._may_be_in_memory or not small or emptied:
            self.to_file()
            return None
        if self._memory is None:
            self._memory = Memory.of(self.store)
            self._may_be_in_memory = self._memory is not None
        return self._memory

    def begin(self, batch: int, changes: Mapping[int, pa.Table], found: Difference) -> None:
        """What a batch in memory is about to do; on disk when this returns."""
        self._begun = self._journal.add(batch, changes, found)

    def finish(self, batch: int) -> None:
        """Target and state have it."""
        self.batch, self._begun = batch, None
        behind = batch - self.store.batch
        if behind >= JOURNAL_BATCHES or self._journal.bytes >= JOURNAL_BYTES:
            self._bring()

    def digests(self, result: pa.Table) -> list[int]:
        """Of the rows of a result, in their order, as the file has them of the rows that the view holds."""
        numbered = result.rename_columns([f"v{n}" for n in range(result.num_columns)])
        numbered = numbered.append_column("n", pa.array(range(result.num_rows), pa.int64()))
        with self.store.lent(result=numbered):
            found = self.store.rows(f"SELECT hash({hashed(result.schema)}) FROM result ORDER BY n")
        return [int(h) for (h,) in found]

    def widened(self) -> None:
        """The view has been computed with all columns of its tables; that is in the state's file."""
        self.is_widened, self._may_be_in_memory = False, self._fits_memory

    def to_file(self) -> None:
        """All of it, and nothing is in memory any more."""
        self._bring()
        self._memory = None

    def _bring(self) -> None:
        memory, store = self._memory, self.store
        if memory is None or self.batch == store.batch:
            return
        rows, held = memory.changed_rows(), memory.changed_held()
        store.expect(sum(each.num_rows for each in rows.values()) + held.rows.num_rows)
        with store.transaction():
            for n, changed in rows.items():
                net_changes.reapply(store, n, changed)
            store.hold(held)
            store.finish(self.batch)
        store.batch = self.batch
        memory.settle()
        self._journal.settle()
