"""Rows of a view that differ from the log, mended while its query runs.

Called by `verifying`. Corrections go through the target's own transaction and count only if the view still
is where its rows were read (`Target.correct`): what the query writes meanwhile is never undone. On a
stream that does not rest, the query is asked to pause before its next commit (`views.holding`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError
from headwater.views.holding import held
from headwater.views.position import Position
from headwater.views.target import Applied, Kind, Shape, Target
from headwater.views.verifying import Difference, corrections, differences_of

if TYPE_CHECKING:
    import pyarrow as pa

REPAIR_MOST = 100_000
TRIES = 5


class NotMendable(HeadwaterError):
    """The view must be built anew instead."""


@dataclass(frozen=True)
class Mending:
    """What is known of a view whose rows differ."""

    target: Target
    at: Applied
    """Where they were found to."""
    differences: Sequence[Difference]
    expected: Callable[[Position, pa.Table], list[dict[str, Any]]]
    """What the rows of some keys must be at another position."""
    checkpoint: Path | None
    """The folder of the running query's checkpoint, where it is on this machine."""
    say: Callable[[str], None]


def mend(mending: Mending) -> int:
    """Write the corrections, and nothing else; how many."""
    shape = mending.target.shape
    must_be_mendable(shape)
    if len(mending.differences) > REPAIR_MOST:
        raise NotMendable(
            f"more than {REPAIR_MOST:,} rows of the view {shape.view!r} differ", hint=_anew(shape)
        )
    for _ in range(TRIES):
        with ExitStack() as pause:
            if mending.checkpoint is not None and mending.checkpoint.is_dir():
                pause.enter_context(held(mending.checkpoint))
            done = _correct(mending)
        if done is not None:
            return done
        mending.say("the view has moved on meanwhile; once more")
    raise NotMendable(
        f"the view {shape.view!r} moves on faster than it can be mended",
        hint="stop headwater run for the moment of a repair, or build the view anew with rebuild",
    )


def must_be_mendable(shape: Shape) -> None:
    """NotMendable for a view that has no row per key to be put right."""
    if shape.kind is not Kind.UPSERT:
        raise NotMendable(
            f"the view {shape.view!r} is kept as {shape.kind.value}, where rows cannot be mended one by "
            "one",
            hint=_anew(shape),
        )


def _anew(shape: Shape) -> str:
    return f"build it anew: headwater rebuild {shape.view}"


def _correct(mending: Mending) -> int | None:
    """The keys that differed, looked at as they are now; None if the view moved while we did."""
    import pyarrow as pa

    target, shape = mending.target, mending.target.shape
    keys = _keys(mending)
    with target.reading(keys) as (applied, batches):
        tables = [pa.Table.from_batches([batch]).cast(shape.schema) for batch in batches]
    assert applied is not None, "it had begun before"
    found = [row for table in tables for row in table.to_pylist()]
    if applied.position == mending.at.position:
        right = [dict(each.expected) for each in mending.differences if each.expected is not None]
    else:
        right = mending.expected(applied.position, keys)
    wrong = differences_of(right, found, shape)
    if not wrong:
        return 0
    part = target.stage(-1, 0, iter([corrections(wrong, shape)]))
    if part.refused:
        first = part.refused[0]
        raise NotMendable(f"{target.address} refuses a correction: {first.reason}; {first.row}")
    return len(wrong) if target.correct(applied, [part]) else None


def _keys(mending: Mending) -> pa.Table:
    import pyarrow as pa

    shape = mending.target.shape
    fields = [shape.schema.field(name) for name in shape.key]
    arrays = [pa.array([each.key[f.name] for each in mending.differences], f.type) for f in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
