"""What runs in Spark's workers: a bucket of keys for a stream, a sorted part of the rows for a batch.

Also here: many keys at once: rows that wait for the watermark, put in order, and given to the machine by key.

Spark's state for Python costs its time per key that is touched, not per byte. So keys share buckets (by
their hash), and a bucket's state is one value: the rows that wait, as arrays, and of each key what the
machine has open. A key without either takes no room.

Columns of the rows, as `frames` prepares them:

    k   the key as text         t   event time, µs         m   bits of the variables
    n   bits of what is null    v0, v1, …   values         o0, o1, …   what orders rows of one time
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headwater.processing.patterns.errors import OtherPattern
from headwater.processing.patterns.machine import FRESH, Machine, Result, State
from headwater.processing.patterns.memory import Values
from headwater.processing.patterns.numbers import NAN
from headwater.processing.patterns.plan import Plan

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
    texts: tuple[bool, ...]
    """For each measure, whether it is returned as the text of a number, or of several."""

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
        names = ["k", "s", "e", "o", *(f"m{n}" for n in range(len(self.texts)))]
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        for number, as_text in enumerate(self.texts):
            if as_text:
                columns[f"m{number}"] = tuple(map(_text, columns[f"m{number}"]))
        return pd.DataFrame(
            {name: pd.Series(list(values), dtype=object) for name, values in columns.items()}
        )


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return None if value is None else repr(value)


Columns = dict[str, Any]
"""Name → array."""
FORMAT = 1
END_OF_TIME = 2**62


class Bucket:
    def __init__(self, machine: Machine, values: int, orders: int) -> None:
        self._machine = machine
        self._values = [f"v{n}" for n in range(values)]
        self._orders = [f"o{n}" for n in range(orders)]
        self._waiting: Columns | None = None
        self._open: dict[str | None, State] = {}

    def load(self, blob: bytes, fingerprint: str) -> None:
        format, said, waiting, opened = pickle.loads(blob)
        if (format, said) != (FORMAT, fingerprint):
            raise OtherPattern(
                "the state in the checkpoint was left by another pattern, or by the same with other words",
                hint="undo the change, or let the query start over with a checkpoint of its own",
            )
        self._waiting, self._open = waiting, opened

    def dump(self, fingerprint: str) -> bytes | None:
        """Everything that is open; None where nothing is."""
        if self._waiting is None and not self._open:
            return None
        said = (FORMAT, fingerprint, self._waiting, self._open)
        return pickle.dumps(said, protocol=pickle.HIGHEST_PROTOCOL)

    def due_us(self) -> int | None:
        """When the watermark has something to do here, if no row comes before."""
        times = [self._machine.deadline_us(state) for state in self._open.values()]
        if self._waiting is not None:
            times.append(int(self._waiting["t"].min()))
        return min(times, default=None)

    def advance(self, frames: Sequence[pd.DataFrame], closed_us: int) -> Iterator[Result]:
        """Take rows in any order; tell what is decided when no row comes at or before `closed_us`."""
        rows = self._gathered(frames)
        if rows is not None:
            ready = rows["t"] <= closed_us
            self._waiting = _where(rows, ~ready) if not ready.all() else None
            if ready.any():
                yield from self.walk(self._sorted(_where(rows, ready)))
        yield from self.close(closed_us)

    def walk(self, rows: Columns) -> Iterator[Result]:
        """Take rows that are in order: those of a key together, by time."""
        keys, masks = rows["k"], rows["m"]
        begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        ends = np.append(begins[1:], len(keys))
        startable = np.zeros(len(keys), dtype=bool)
        for need, forbid in self._machine.starts:
            startable |= ((masks & need) == need) & ((masks & forbid) == 0)
        some = np.logical_or.reduceat(startable, begins)
        times, bits, starts = rows["t"].tolist(), masks.tolist(), startable.tolist()
        values = self._tuples(rows)
        for begin, end, begun in zip(begins.tolist(), ends.tolist(), some.tolist(), strict=True):
            key = keys[begin]
            state = self._open.pop(key, None)
            if state is None and not begun:
                continue
            out: list[Result] = []
            span = range(begin, end)
            state = self._machine.rows(state or FRESH, times, bits, values, starts, span, out)
            if state[3]:
                self._open[key] = state
            for result in out:
                yield (key, *result)

    def close(self, closed_us: int, but: object = ()) -> Iterator[Result]:
        """Settle what is open at `closed_us`, but for one key."""
        due = [
            key
            for key, state in self._open.items()
            if self._machine.deadline_us(state) <= closed_us and key != but
        ]
        for key in due:
            out: list[Result] = []
            state = self._machine.close(self._open.pop(key), closed_us, out)
            if state[3]:
                self._open[key] = state
            for result in out:
                yield (key, *result)

    def _gathered(self, frames: Sequence[pd.DataFrame]) -> Columns | None:
        names = ["k", "t", "m", "n", *self._values, *self._orders]
        parts = [{name: frame[name].to_numpy() for name in names} for frame in frames if len(frame)]
        if self._waiting is not None:
            parts.insert(0, self._waiting)
        if len(parts) < 2:
            return parts[0] if parts else None
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def _sorted(self, rows: Columns) -> Columns:
        """By key, time, and what orders rows of one time, nulls first."""
        codes, _ = pd.factorize(rows["k"], use_na_sentinel=False)
        significance: list[Any] = [codes, rows["t"]]
        for number, name in enumerate(self._orders):
            values = rows[name]
            if values.dtype == object:
                values, _ = pd.factorize(values, sort=True)
            significance += [~_is_null(rows, len(self._values) + number), values]
        order = np.lexsort(significance[::-1])
        return {name: column[order] for name, column in rows.items()}

    def _tuples(self, rows: Columns) -> list[Values] | None:
        if not self._values:
            return None
        lists = []
        for number, name in enumerate(self._values):
            values = rows[name].tolist()
            if rows[name].dtype.kind == "f":
                for place in np.flatnonzero(np.isnan(rows[name])).tolist():
                    values[place] = NAN
            for place in np.flatnonzero(_is_null(rows, number)).tolist():
                values[place] = None
            lists.append(values)
        return list(zip(*lists, strict=True))


def _where(rows: Columns, chosen: Any) -> Columns:
    return {name: column[chosen] for name, column in rows.items()}


def _is_null(rows: Columns, number: int) -> Any:
    return (rows["n"] >> number) & 1 == 1
