"""Keys for whose rows a view's function fails: found one by one, and set aside, so that the others go on.

Called by `upkeep` where the function has failed for the keys of a batch, and by `derivation` for what joins
and groups compare. A key is set aside if the function fails for the rows that decide over it alone: so it
depends on the tables as they are, and neither on what else was in the batch nor on what the view held. It has
no row in the view until a change touches it for which the function does not fail. `Difference.aside` says
which they are and why; it is on disk, with the batch, before its dead letters are written (`pending_batch`).

Whether rows are to blame, and not the machine, says `Blame`: nobody is set aside because a disk is full.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from headwater.views.tables import lookup, plain_values
from headwater.views.tables.memory import Memory
from headwater.views.tables.plain_values import Values
from headwater.views.tables.plan import Plan
from headwater.views.tables.program import TOUCHED, Program
from headwater.views.tables.store import Store

Key = TypeVar("Key")
Found = TypeVar("Found")
Compute = Callable[[Mapping[int, pa.Table]], pa.Table]
"""The view's query on given rows of its tables."""
REASON = "_reason"
"""The last column of what is set aside, behind those of the key."""


@dataclass(frozen=True)
class Blame:
    """Which errors are looked at, and why one of them is the rows' fault; None where it is not."""

    errors: tuple[type[Exception], ...]
    reason: Callable[[Exception], str | None]

    def tried(self, compute: Callable[[], Found]) -> tuple[Found | None, str]:
        """What can be computed; None, and why, where rows do not let it."""
        try:
            return compute(), ""
        except self.errors as error:
            why = self.reason(error)
            if why is None:
                raise
            return None, why


NOBODY = Blame((), lambda _: None)
"""The first error ends the batch."""


def by_halves(
    keys: Sequence[Key], compute: Callable[[Sequence[Key]], Found], blame: Blame
) -> tuple[list[Found], list[tuple[Key, str]]]:
    """What can be computed of keys, of all of which it cannot be; and those that fail alone, and why."""
    found: list[Found] = []
    aside: list[tuple[Key, str]] = []
    left = [keys] if keys else []
    while left:
        some = left.pop()
        part, why = blame.tried(partial(compute, some))
        if part is not None:
            found.append(part)
        elif len(some) == 1:
            aside.append((some[0], why))
        else:
            middle = len(some) // 2
            left += [some[middle:], some[:middle]]
    return found, aside


def _named(keys: pa.Table, reasons: Sequence[str]) -> pa.Table:
    return keys.append_column(REASON, pa.array(reasons, pa.string()))


def _united(plan: Plan, found: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([plan.result.empty_table(), *found])


Result = tuple[pa.Table, pa.Table | None]
"""The rows that a function gives, and the keys that are set aside."""


# ---- a state in memory --------------------------------------------------------------------------------


def in_memory(
    plan: Plan, memory: Memory, keys: Collection[Values], compute: Compute, blame: Blame
) -> Result:
    """The rows of these keys."""
    program = plan.program
    assert program is not None

    def of(some: Collection[Values]) -> pa.Table:
        return compute(lookup.deciding(memory.tables, program, some))

    def alone(some: Sequence[Values]) -> pa.Table:
        chosen = set(some)
        rows = of(chosen)
        values = plain_values.rows_of(rows.select(plan.followed_key.names))
        return rows.filter(pa.array([each in chosen for each in values], pa.bool_()))

    result, _ = blame.tried(lambda: of(keys))
    if result is not None:
        return result, None
    found, aside = by_halves(list(keys), alone, blame)
    named = plain_values.table_of([key for key, _ in aside], plan.followed_key)
    return _united(plan, found), _named(named, [why for _, why in aside])


# ---- in the state's file ------------------------------------------------------------------------------


def in_store(
    plan: Plan, store: Store, program: Program | None, compute: Compute, blame: Blame
) -> Result:
    """The rows of the touched keys; without a program, those of all keys."""

    def on(rows: Mapping[int, pa.Table]) -> pa.Table:
        given = {n: rows.get(n, store.nothing_of(n)) for n in range(len(store.tables))}
        return compute(given)

    def of() -> pa.Table:
        return on(store.whole() if program is None else store.deciding(program))

    by_key = plan.program
    if by_key is None:
        return of(), None
    result, _ = blame.tried(of)
    if result is not None:
        return result, None
    found = []
    if program is None:
        tables = [n for n in range(len(store.tables)) if by_key.looks_at(n)]
        store.touch(by_key, {n: f"SELECT * FROM t{n}" for n in tables})
        found.append(_among_touched(plan, store, on({}), others=True))
    keys = store.arrow(f"SELECT * FROM {TOUCHED}")

    def alone(some: Sequence[int]) -> pa.Table:
        _touch(store, keys.take(pa.array(some, pa.int64())))
        return _among_touched(plan, store, on(store.deciding(by_key)))

    parts, aside = by_halves(range(keys.num_rows), alone, blame)
    _touch(store, keys)
    names = plan.followed_key
    failed = keys.take(pa.array([n for n, _ in aside], pa.int64()))
    named = _named(failed.rename_columns(names.names).cast(names), [why for _, why in aside])
    return _united(plan, [*found, *parts]), named


def _touch(store: Store, keys: pa.Table) -> None:
    """Note these keys, and no others, as touched."""
    with store.lent(chosen=keys):
        store.run(f"CREATE OR REPLACE TEMP TABLE {TOUCHED} AS SELECT * FROM chosen")


def _among_touched(plan: Plan, store: Store, result: pa.Table, *, others: bool = False) -> pa.Table:
    """The rows of a result that have one of the touched keys; `others`: that have none of them."""
    same = " AND ".join(f"r.k{k} IS NOT DISTINCT FROM t.w{w}" for w, k in plan.followed.items())
    keys = result.select(list(plan.key)).rename_columns(list(store.view.keys))
    keys = keys.append_column("n", pa.array(range(result.num_rows), pa.int64()))
    kind = "ANTI" if others else "SEMI"
    with store.lent(keys=keys):
        found = store.arrow(f"SELECT n FROM keys r {kind} JOIN {TOUCHED} t ON {same} ORDER BY n")
    return result.take(found["n"])
