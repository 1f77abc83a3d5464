"""Which events are on time: by arrays, pure, no I/O.

Called by a task for every batch of decoded records. An event is late where Spark would drop it: with
windows, for those of its windows that are over at the watermark; without, where its time is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.processing.clocks import corrected_micros
from headwater.processing.event_time.options import Timing

HEADER = "late."


@dataclass(frozen=True)
class Judged:
    """What becomes of the rows of a batch."""

    times: pa.Array
    """The event's time, corrected where asked; null where there is none."""
    kept: np.ndarray[Any, np.dtype[np.bool_]]
    """Goes on to Spark."""
    told: np.ndarray[Any, np.dtype[np.bool_]]
    """Goes to the late topic: what is not kept, and what only misses some of its windows."""


def judge(batch: pa.RecordBatch, timing: Timing, watermark: int) -> Judged:
    """`batch` has the source's columns; `watermark` is what is late, in microseconds."""
    times = times_of(batch, timing)
    there = times.is_valid().to_numpy(zero_copy_only=False)
    micros = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)
    kept = there.copy() if timing.late is not None else np.ones(len(there), np.bool_)
    if timing.ahead is not None:
        stamps = _micros(batch.column("timestamp")).to_numpy(zero_copy_only=False)
        kept &= micros - stamps <= timing.ahead
    told = ~kept
    if timing.checkpoint is not None:
        first, last = micros, micros
        if timing.window is not None:
            first, last = timing.window.first_end(micros), timing.window.last_end(micros)
        forgotten = watermark - timing.keep
        told |= there & (first <= forgotten)
        kept &= ~there | (last > forgotten)
    return Judged(times, kept, told)


def times_of(batch: pa.RecordBatch, timing: Timing) -> pa.Array:
    """Microseconds of the events."""
    values = batch.column("value")
    event = _micros(_field(values, timing.time))
    if timing.corrected is None:
        return event
    sent = _micros(_field(values, timing.corrected.sent))
    received = timing.corrected.received
    by = batch.column("timestamp") if received is None else _field(values, received)
    return corrected_micros(event, sent, _micros(by))


def reason(
    timing: Timing, time: int | None, stamp: int, watermark: int
) -> tuple[str, dict[str, str]]:
    """Why a record is in the late topic: a sentence, and the headers that say how late it was."""
    if time is None:
        return f"it has no time in {timing.time}", {}
    said = {HEADER + "time": text_of(time)}
    if timing.ahead is not None and time - stamp > timing.ahead:
        ahead = (time - stamp) // 1000
        return f"its time is {ahead} ms ahead of the record's", said | {
            HEADER + "ahead.ms": str(ahead)
        }
    behind = (watermark + timing.lateness - time) // 1000
    said |= {HEADER + "by.ms": str(behind), HEADER + "watermark": text_of(watermark)}
    if timing.window is not None:
        missed = timing.window.missed(time, watermark - timing.keep)
        said[HEADER + "windows"] = json.dumps([[text_of(a), text_of(b)] for a, b in missed])
    return f"it came {behind} ms after the newest event, later than is waited for", said


def text_of(micros: int) -> str:
    """In numpy's calendar: Python's has no year 0 and none after 9999, which Spark and Arrow have."""
    unit = "us" if micros % 1_000_000 else "s"
    seconds = np.datetime64(micros, "us").astype(f"datetime64[{unit}]")
    return f"{seconds}Z"


def _field(values: pa.StructArray, name: str) -> pa.Array:
    """A field with the struct's own nulls: a record without a value has no time either."""
    return pc.struct_field(values, name.split("."))


def _micros(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
