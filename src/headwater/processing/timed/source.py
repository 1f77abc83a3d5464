"""`format("headwater-events")`: headwater's source, with event times, late events apart, and ticks.

Spark keeps one `TimedReader` in a Python process beside the driver for the life of the query. It asks the
log as its parent does. Where nothing has come for as long as `idle` says, it lets one row come that has a
time and nothing else, a tick: so the watermark goes on. Ticks are part of the position in the checkpoint

    {"orders": {"0": 1200}, "#": {"tick": 1767261600000000, …}}

so that a batch that comes again has the same one. A query that is behind never gets a tick: it is idle only
when it has read all there is. Therefore a replay sees no tick before its last record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadLimit

from headwater.processing.timed.options import Timing, of_the_log
from headwater.processing.timed.watermarks import late_micros
from headwater.spark.source.position import NOTES
from headwater.spark.source.stream import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from headwater.processing.timed.output import TimedTask

FORMAT = "headwater-events"
_NOTE = "tick"


class EventsDataSource(DataSource):
    """Registered in a session by `events`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        from headwater.processing.timed.output import COLUMNS
        from headwater.spark import worker
        from headwater.spark.source.options import SourceOptions

        worker.settle()
        return f"{SourceOptions.of(of_the_log(self.options)).ddl()}, {COLUMNS}"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return TimedReader(self.options, schema)


class TimedReader(StreamReader):
    """The parent's positions, and ticks."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(of_the_log(options), schema)
        self.timing = Timing.of(options)
        self._quiet_since: int | None = None
        self._once = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        super().prepareForTriggerAvailableNow()
        self._once = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        found = super().latestOffset(start, limit)
        if self.timing.idle is None:
            return found
        last = _tick_of(start)
        now = self._now()
        if found != start or self._quiet_since is None:
            self._quiet_since = now
            return _with_tick(found, last)
        quiet = now - self._quiet_since
        tick = now - self.timing.idle
        # Not for every look at the clock: each tick is a batch.
        if self._once or quiet < self.timing.idle or tick < last + self.timing.idle // 4:
            return start
        return _with_tick(start, tick)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TimedTask]:  # type: ignore[override]
        from headwater.processing.timed.output import TimedTask

        watermark = 0
        if self.timing.checkpoint is not None:
            watermark = late_micros(self.timing.checkpoint, end)
        tasks = [TimedTask(task, watermark) for task in super().partitions(start, end)]
        if _tick_of(end) > _tick_of(start):
            tasks.append(TimedTask(None, watermark, _tick_of(end)))
        return tasks

    def read(self, partition: TimedTask) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        from pyspark.sql.pandas.types import to_arrow_schema

        from headwater.processing.timed.output import read

        if getattr(partition, "watermark", None) is None:
            return iter(())  # Spark's stand-in for "no partitions at all"
        schema = to_arrow_schema(self.schema, timezone="UTC")
        return read(partition, self.options, self.timing, schema)

    def _now(self) -> int:
        """Microseconds since 1970, by the clock that a test may turn."""
        if self.timing.clock is None:
            return time.time_ns() // 1000
        return int(Path(self.timing.clock).read_text(encoding="utf-8")) * 1000


def _tick_of(position: Mapping[str, Any]) -> int:
    return int(position.get(NOTES, {}).get(_NOTE, 0))


def _with_tick(position: dict[str, Any], tick: int) -> dict[str, Any]:
    if not tick:
        return position
    return {**position, NOTES: {**position.get(NOTES, {}), _NOTE: tick}}
