"""`format("headwater-events")`: headwater's source, with event times, late events apart, and ticks.

Spark keeps one `TimedReader` in a Python process beside the driver for the life of the query. It asks the
log as its parent does. Where nothing has come for as long as `idle` says, it lets one row come that has a
time and nothing else, a tick: so the watermark goes on. Ticks are part of the position in the checkpoint

    {"orders": {"0": 1200}, "#": {"tick": 1767261600000000, …}}

so that a batch that comes again has the same one. A query that is behind never gets a tick: it is idle only
when it has read all there is. Therefore a replay sees no tick before its last record.

Also here: what Spark's watermark is for a batch, from the query's checkpoint: Spark notes it before the
batch runs.

Read on the driver, once per batch. `offsets/N` says how far batch N goes and which watermark it has:

    v1
    {"batchWatermarkMs":1767261600000,…}
    {"orders":{"0":17},"#":{…}}

Spark lets a batch's events be late by the watermark of the batch *before* (each stateful operator of a
query must see what the one in front of it still gave out), and closes windows by the batch's own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadLimit

from headwater.errors import HeadwaterError
from headwater.processing.event_time.options import Timing, of_the_log
from headwater.spark.source.position import NOTES
from headwater.spark.source.stream import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from headwater.processing.event_time.output import TimedTask


FORMAT = "headwater-events"
_NOTE = "tick"


class EventsDataSource(DataSource):
    """Registered in a session by `event_stream`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        from headwater.processing.event_time.output import COLUMNS
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
        from headwater.processing.event_time.output import TimedTask

        watermark = 0
        if self.timing.checkpoint is not None:
            watermark = late_micros(self.timing.checkpoint, end)
        tasks = [TimedTask(task, watermark) for task in super().partitions(start, end)]
        if _tick_of(end) > _tick_of(start):
            tasks.append(TimedTask(None, watermark, _tick_of(end)))
        return tasks

    def read(self, partition: TimedTask) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        from pyspark.sql.pandas.types import to_arrow_schema

        from headwater.processing.event_time.output import read

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


class NoWatermark(HeadwaterError):
    """A checkpoint that does not tell which watermark a batch has."""


def late_micros(checkpoint: str, end: Mapping[str, Any]) -> int:
    """What is late in the batch whose source ends there, in microseconds since 1970; 0 at first."""
    folder = Path(checkpoint) / "offsets"
    batch = _batch_ending_at(folder, end)
    return 0 if batch == 0 else _watermark_ms(folder / str(batch - 1)) * 1000


def _batch_ending_at(folder: Path, end: Mapping[str, Any]) -> int:
    """The newest batch, as a rule; an older one only if Spark plans it again."""
    try:
        batches = sorted((int(p.name) for p in folder.iterdir() if p.name.isdigit()), reverse=True)
    except OSError as error:
        raise NoWatermark(
            f"the checkpoint {folder.parent} cannot be read: {error}",
            hint="late events are found with the help of the checkpoint, which must be a folder that "
            "the driver sees; with late=None Spark drops them",
        ) from error
    for batch in batches:
        if any(json.loads(line) == end for line in _lines(folder / str(batch))[2:] if line != "-"):
            return batch
    raise NoWatermark(f"{folder} has no batch that ends at {json.dumps(end)}")


def _watermark_ms(path: Path) -> int:
    return int(json.loads(_lines(path)[1])["batchWatermarkMs"])


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) < 2 or lines[0] != "v1":
        raise NoWatermark(f"{path} is not of a version known here: {lines[:1]}")
    return lines
