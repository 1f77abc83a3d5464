"""`spark.read.format("headwater")`: a range of offsets, read once.

Spark calls `partitions` in a planning process and `read` in the tasks; `pushFilters` before `partitions`,
if the session has `spark.sql.python.filterPushdown.enabled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from headwater.client.errors import BadOption
from headwater.spark.source import splits, where
from headwater.spark.source.options import SourceOptions
from headwater.spark.source.pushdown import Pushed, Pushing
from headwater.spark.source.splits import Range
from headwater.spark.source.task import Task, read

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headwater.client.cluster import Metadata
    from headwater.spark.source.plan import Planner

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


class BatchReader(DataSourceReader):
    """Picklable: options and schema only."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = SourceOptions.of(options)
        self.schema = schema
        self.starting = where.starting(self.options.given, streaming=False)
        self.ending = where.ending(self.options.given)
        self.pushed = Pushed()
        for name in STREAM_ONLY:
            if name in self.options.given:
                raise BadOption(f"{name} is for streams.", hint="Leave it out of spark.read.")

    @property
    def pushFilters(self) -> Pushing:  # noqa: N802
        return Pushing(self.pushed, self.options.push_filters)

    def partitions(self) -> list[Task]:
        from headwater.spark import worker
        from headwater.spark.source.plan import Planner, ids_of

        worker.settle()
        plan = Planner(self.options)
        metadata, places = plan.all_there()
        start = plan.resolve(self.starting, metadata, places, starting=True)
        end = plan.resolve(self.ending, metadata, places, starting=False)
        start = plan.check_range(self.starting, start, metadata, places)
        end = plan.check_range(self.ending, end, metadata, places)
        ranges = [
            Range(*place, start[place], end[place]) for place in places if self.pushed.takes(*place)
        ]
        ranges = [each for each in self._narrowed(plan, metadata, ranges) if each.records]
        counts = splits.pieces(ranges, self.options.min_partitions, self.options.records_per_task)
        tasks = plan.tasks(splits.divide(ranges, counts), metadata, ids_of(metadata))
        since, until = self.pushed.since, self.pushed.until
        return [replace(each, since=since, until=until) for each in tasks]

    def _narrowed(self, plan: Planner, metadata: Metadata, ranges: list[Range]) -> list[Range]:
        """What the filters leave of the ranges. The brokers know what is before a time."""
        pushed = self.pushed
        if pushed.since is not None:
            first_ms = -(-pushed.since // 1000)
            asked = {each[:2]: max(first_ms, 0) for each in ranges}
            found = plan.cluster.list_offsets(asked, metadata=metadata)
            later = {place: offset for place, offset in found.items() if offset >= 0}
            ranges = [
                each._replace(start=max(each.start, later.get(each[:2], each.end)))
                for each in ranges
            ]
        return [
            each._replace(
                start=max(each.start, pushed.first),
                end=each.end if pushed.end is None else min(each.end, pushed.end),
            )
            for each in ranges
        ]

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return _read(partition, self.options, self.schema)


def _read(partition: Task, options: SourceOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    if getattr(partition, "range", None) is None:
        return iter(())  # Spark's stand-in for "no partitions at all"
    return read(partition, options, to_arrow_schema(schema, timezone="UTC"))
