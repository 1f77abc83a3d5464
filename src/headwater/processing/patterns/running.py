"""What runs in Spark's workers: a bucket of keys for a stream, a sorted part of the rows for a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from headwater.processing.patterns.bucket import END_OF_TIME, Bucket
from headwater.processing.patterns.machine import Machine, Result
from headwater.processing.patterns.plan import Plan
from headwater.processing.patterns.types import rounded

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

ROWS_OUT = 50_000
"""The most rows that are handed to Spark at once."""
_machines: dict[str, Machine] = {}


@dataclass(frozen=True)
class Work:
    """A plan, and how its results are laid out; pickled into the query."""

    plan: Plan
    orders: int
    scales: tuple[int | None, ...]
    """For each measure that is a decimal, how many places it has."""

    def bucket(self) -> Bucket:
        machine = _machines.get(self.plan.fingerprint)
        if machine is None:
            machine = _machines[self.plan.fingerprint] = Machine(self.plan)
        return Bucket(machine, len(self.plan.columns), self.orders)

    def stream(
        self, key: Any, frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """One bucket in one micro-batch: with new rows, or because the watermark has passed something."""
        bucket, fingerprint = self.bucket(), self.plan.fingerprint
        if state.exists:
            bucket.load(state.get[0], fingerprint)
        new = [] if state.hasTimedOut else list(frames)
        watermark_ms = state.getCurrentWatermarkMs()
        yield from self._frames(bucket.advance(new, watermark_ms * 1000))
        blob = bucket.dump(fingerprint)
        if blob is None:
            if state.exists:
                state.remove()
            return
        state.update((blob,))
        due = bucket.due_us()
        assert due is not None
        # Spark calls when the watermark is *above* the time-out: a millisecond less, then, for a
        # watermark at what is due.
        state.setTimeoutTimestamp(max(-(-due // 1000) - 1, watermark_ms, 1))

    def batch(self, frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Rows of whole keys, in order: of each key, as if the watermark had passed all of it."""
        bucket = self.bucket()
        for frame in frames:
            if not len(frame):
                continue
            rows = {
                name: frame[name].to_numpy() for name in frame.columns if name not in ("at", "b")
            }
            last = rows["k"][-1]
            yield from self._frames([*bucket.walk(rows), *bucket.close(END_OF_TIME, but=last)])
        yield from self._frames(bucket.close(END_OF_TIME))

    def _frames(self, results: Iterable[Result]) -> Iterator[pd.DataFrame]:
        rows: list[Result] = []
        for result in results:
            rows.append(result)
            if len(rows) == ROWS_OUT:
                yield self._frame(rows)
                rows = []
        if rows:
            yield self._frame(rows)

    def _frame(self, rows: Sequence[Result]) -> pd.DataFrame:
        names = ["k", "s", "e", "o", *(f"m{n}" for n in range(len(self.scales)))]
        columns: dict[str, Any] = {
            name: pd.Series(list(values), dtype=object)
            for name, values in zip(names, zip(*rows, strict=True), strict=True)
        }
        for number, scale in enumerate(self.scales):
            if scale is not None:
                name = f"m{number}"
                columns[name] = columns[name].map(lambda value, scale=scale: rounded(value, scale))
        return pd.DataFrame(columns)
