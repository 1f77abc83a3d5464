"""Rows of a view that differ from the log, repaired while its query runs.

Called by `differences`. Corrections go through the target's own transaction and count only if the view still
is where its rows were read (`Target.correct`): what the query writes meanwhile is never undone. On a
stream that does not rest, the query is asked to pause before its next commit (`views.operate.pause`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.views.operate.differences import Difference, corrections, differences_of
from headwater.views.operate.pause import held
from headwater.views.targets.contract import Applied, Kind, Shape, Target

if TYPE_CHECKING:
    import pyarrow as pa

REPAIR_MOST = 100_000
TRIES = 5


class NotRepairable(HeadwaterError):
    """The view must be built anew instead."""


@dataclass(frozen=True)
class Repair:
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


def repair_rows(job: Repair) -> int:
    """Write the corrections, and nothing else; how many."""
    shape = job.target.shape
    must_be_repairable(shape)
    if len(job.differences) > REPAIR_MOST:
        raise NotRepairable(
            f"more than {REPAIR_MOST:,} rows of the view {shape.view!r} differ",
            hint=_rebuild(shape),
        )
    for _ in range(TRIES):
        with ExitStack() as pause:
            if job.checkpoint is not None and job.checkpoint.is_dir():
                pause.enter_context(held(job.checkpoint))
            done = _correct(job)
        if done is not None:
            return done
        job.say("the view has moved on meanwhile; once more")
    raise NotRepairable(
        f"the view {shape.view!r} moves on faster than it can be repaired",
        hint="stop headwater run for the moment of a repair, or rebuild the view: headwater rebuild",
    )


def must_be_repairable(shape: Shape) -> None:
    """NotRepairable for a view that has no row per key to be put right."""
    if shape.kind is not Kind.UPSERT:
        raise NotRepairable(
            f"the view {shape.view!r} is kept as {shape.kind.value}, where rows cannot be repaired one by "
            "one",
            hint=_rebuild(shape),
        )


def has_copies(shape: Shape) -> NotRepairable:
    """A correction is of a key: it would write all of its rows, or take all of them away."""
    return NotRepairable(
        f"the view {shape.view!r} has a key with several rows", hint=_rebuild(shape)
    )


def _rebuild(shape: Shape) -> str:
    return f"rebuild it: headwater rebuild {shape.view}"


def _correct(job: Repair) -> int | None:
    """The keys that differed, looked at as they are now; None if the view moved while we did."""
    import pyarrow as pa

    target, shape = job.target, job.target.shape
    keys = _keys(job)
    with target.reading(keys) as (applied, batches):
        tables = [pa.Table.from_batches([batch]).cast(shape.schema) for batch in batches]
    assert applied is not None, "it had begun before"
    found = [row for table in tables for row in table.to_pylist()]
    if applied.position == job.at.position:
        right = [dict(each.expected) for each in job.differences if each.expected is not None]
    else:
        right = job.expected(applied.position, keys)
    wrong = differences_of(right, found, shape)
    if not wrong:
        return 0
    part = target.stage(-1, 0, iter([corrections(wrong, shape)]))
    if part.refused:
        first = part.refused[0]
        raise NotRepairable(f"{target.address} refuses a correction: {first.reason}; {first.row}")
    return len(wrong) if target.correct(applied, [part]) else None


def _keys(job: Repair) -> pa.Table:
    import pyarrow as pa

    shape = job.target.shape
    fields = [shape.schema.field(name) for name in shape.key]
    arrays = [pa.array([each.key[f.name] for each in job.differences], f.type) for f in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
