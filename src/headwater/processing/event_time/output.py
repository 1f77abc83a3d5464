"""What a task of the source hands to Spark: records with their event's time, and without the late ones.

A late record is in the late topic, on disk, before the rows that follow it are handed out; once, however
often the batch is read. It is written as a dead letter is (same headers), and says besides how late it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headwater.processing.event_time import lateness
from headwater.processing.event_time.options import Timing
from headwater.spark import worker
from headwater.spark.source.output import Output
from headwater.spark.source.task import Task, read_into

if TYPE_CHECKING:
    from headwater.client.dead_letter_writer import BadRecord, DeadLetterWriter
    from headwater.client.piece import Piece
    from headwater.processing.event_time.lateness import Judged
    from headwater.spark.source.options import SourceOptions

MOMENT = pa.timestamp("us", "UTC")
TIME, TICK, WATERMARK = "event_time", "tick", "watermark"
COLUMNS = f"`{TIME}` TIMESTAMP, `{TICK}` TIMESTAMP, `{WATERMARK}` TIMESTAMP"
"""After those of the log: when the event was, whether it is only the clock, what was late in its batch."""
LETTERS_AT_ONCE = 5000
"""In one transaction: a client's queue is bounded."""
_EXTRA = (TIME, TICK, WATERMARK)


@dataclass
class TimedTask(InputPartition):
    """A range to read, or a tick: the one row that says how late it is while nothing comes."""

    task: Task | None
    watermark: int
    tick: int | None = None


def read(
    timed: TimedTask, options: SourceOptions, timing: Timing, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a task."""
    if timed.task is None:
        assert timed.tick is not None
        yield _tick(schema, timed.tick, timed.watermark)
        return
    from headwater.client.decode.columns import Bounds

    worker.settle()
    task = timed.task
    bounds = Bounds(task.range.start, task.range.end)
    log = pa.schema([field for field in schema if field.name not in _EXTRA])
    output = TimedOutput(task, bounds, options, log, timing, timed.watermark)
    yield from read_into(output, task, options)


class TimedOutput(Output):
    """Decodes, then judges."""

    def __init__(
        self,
        task: Task,
        bounds: object,
        options: SourceOptions,
        schema: pa.Schema,
        timing: Timing,
        watermark: int,
    ) -> None:
        super().__init__(task.range, bounds, options, schema)  # type: ignore[arg-type]
        self._timing, self._watermark = timing, watermark
        self._late: DeadLetterWriter | None = None

    def _convert(self, batch: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
        decoded = super()._convert(batch, piece)
        judged = lateness.judge(decoded, self._timing, self._watermark)
        if judged.told.any() and self._timing.late is not None:
            self._tell(decoded, judged, piece, self._timing.late)
        rows = decoded.num_rows
        extra = [judged.times.cast(MOMENT), pa.nulls(rows, MOMENT), _same(self._watermark, rows)]
        fields = [*decoded.schema, *(pa.field(name, MOMENT) for name in _EXTRA)]
        full = pa.RecordBatch.from_arrays([*decoded.columns, *extra], schema=pa.schema(fields))
        return full if judged.kept.all() else full.filter(pa.array(judged.kept))

    def _tell(self, batch: pa.RecordBatch, judged: Judged, piece: Piece, topic: str) -> None:
        from headwater.client.dead_letter_writer import DeadLetterWriter

        if self._late is None:
            where = self._where
            self._late = DeadLetterWriter(self._options.client, where.topic, where.partition, topic)
        rows = np.flatnonzero(judged.told)
        offsets = batch.column("offset").to_numpy()[rows].tolist()
        times = dict(zip(offsets, judged.times.take(pa.array(rows)).to_pylist(), strict=True))
        plain = dict.fromkeys(offsets, "")
        letters = [self._explained(each, times) for each in self._whole(piece, plain)]
        for begin in range(0, len(letters), LETTERS_AT_ONCE):
            self._late.put(letters[begin : begin + LETTERS_AT_ONCE])

    def _explained(self, letter: BadRecord, times: dict[int, int | None]) -> BadRecord:
        stamp = letter.timestamp_ms * 1000
        sentence, said = lateness.reason(self._timing, times[letter.offset], stamp, self._watermark)
        headers = [each for each in letter.headers if not each[0].startswith(lateness.HEADER)]
        headers += [(name, value.encode()) for name, value in said.items()]
        return letter._replace(reason=sentence, headers=headers)


def _tick(schema: pa.Schema, tick: int, watermark: int) -> pa.RecordBatch:
    said = {TIME: tick, TICK: tick, WATERMARK: watermark}
    arrays = [
        _same(said[field.name], 1) if field.name in said else pa.nulls(1, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _same(micros: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, micros, np.int64)).cast(MOMENT)
