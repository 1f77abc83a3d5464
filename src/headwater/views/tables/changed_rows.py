"""Step 1 for a state in memory: the rows of a table that really change, each as it was and as it is.

Called by `upkeep`. The rules are those of `net_changes`, which says them; here they are loops over few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.views.tables.net_changes import check_keys
from headwater.views.tables.plain_values import Values, rows_of
from headwater.views.tables.row_index import Row, TableRows, kept_table


@dataclass(frozen=True)
class Changed:
    """A key whose row is another now."""

    key: Values
    before: Row | None
    after: Row | None
    said: tuple[int, int]
    """In which partition, and when."""

    @property
    def is_same(self) -> bool:
        """Whether that was only said again."""
        before, after = self.before, self.after
        return (
            before is not None
            and after is not None
            and before.partition == after.partition
            and before.values == after.values
        )


def net(table: TableRows, changes: pa.Table) -> list[Changed]:
    """What really changes in a table; nothing is changed yet."""
    check_keys(table.shape, changes)
    found = []
    for key, (said, row) in _latest_in_memory(table, changes).items():
        changed = Changed(key, table.by_key.get(key), row, said)
        if _counts(changed):
            found.append(changed)
    return found


Step = tuple[int, int, int, int, Row | None]
"""Partition, time, offset, 0 for a key that is left and 1 otherwise, and what there is now."""


def _latest_in_memory(
    table: TableRows, changes: pa.Table
) -> dict[Values, tuple[tuple[int, int], Row | None]]:
    """The last change of each key."""
    names = [f"m{n}" for n in range(len(table.shape.key))]
    rows, olds = rows_of(changes.select(table.shape.columns.names)), rows_of(changes.select(names))
    places = zip(*(changes[name].to_pylist() for name in ("gone", "p", "o", "ts")), strict=True)
    steps: dict[Values, list[Step]] = {}
    for values, old, (gone, p, o, ts) in zip(rows, olds, places, strict=True):
        if old[0] is not None:
            steps.setdefault(old, []).append((p, ts, o, 0, None))
        row = None if gone else Row(values, p, ts)
        steps.setdefault(table.key_of(values), []).append((p, ts, o, 1, row))
    return {key: _last(found, table.by_key.get(key)) for key, found in steps.items()}


def _last(steps: Sequence[Step], before: Row | None) -> tuple[tuple[int, int], Row | None]:
    """In a partition the offset is the order; between several the latest time that each has said."""
    times: dict[int, int] = {}
    if before is not None and before.time is not None:
        times[before.partition] = before.time
    last: dict[int, Step] = {}
    for step in steps:
        p, ts, offset, turn, _ = step
        times[p] = max(ts, times.get(p, ts))
        if p not in last or (offset, turn) > last[p][2:4]:
            last[p] = step
    p = max(last, key=lambda each: (times[each], each))
    row = last[p][-1]
    return (p, times[p]), None if row is None else Row(row.values, p, times[p])


def _counts(changed: Changed) -> bool:
    before, (p, ts) = changed.before, changed.said
    if before is None:
        return changed.after is not None
    if (
        before.partition != p
        and before.time is not None
        and (ts, p) < (before.time, before.partition)
    ):
        return False  # older than the row of another partition
    if changed.after is None or not changed.is_same:
        return True
    return before.time is None or ts > before.time


def kept(table: TableRows, found: Sequence[Changed]) -> pa.Table:
    """What changes in a table, for the journal."""
    return kept_table(table.shape, [(each.key, each.after, *each.said) for each in found])
