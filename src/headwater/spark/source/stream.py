"""`spark.readStream.format("headwater")`: micro-batches, from position to position.

Spark keeps one `StreamReader` in a Python process beside the driver for the life of the query, and asks it
before each batch how far to go (`latestOffset`), then for the tasks. Tasks run in workers, on copies.

A batch's tasks must follow from its two positions alone (see `position`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headwater.client import data_loss
from headwater.client.errors import BadOption, DataLoss
from headwater.spark.source import splits, where
from headwater.spark.source.arrival import LOOK_EVERY_S, Arrival
from headwater.spark.source.batch import _read
from headwater.spark.source.options import SourceOptions
from headwater.spark.source.position import Position
from headwater.spark.source.sizes import RecordSizes
from headwater.spark.source.splits import Advance, Range, Way
from headwater.spark.source.task import Task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headwater.client.cluster import Metadata, TopicPartition
    from headwater.spark.source.plan import Planner

_AT_ONCE = threading.Event()
_AT_ONCE.set()
"""Where nobody can be asked to wait (several brokers lead), Spark's own pace is the one."""
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side has state (the last trigger, the target of availableNow); tasks use none."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = SourceOptions.of(options)
        self.schema = schema
        self.starting = where.starting(self.options.given, streaming=True)
        for name in BATCH_ONLY:
            if name in self.options.given:
                raise BadOption(f"{name} is for spark.read: a stream has no end.")
        if (self.options.min_offsets or 0) > (self.options.max_offsets or 1 << 62):
            raise BadOption("minOffsetsPerTrigger is more than maxOffsetsPerTrigger.")
        self._share_by = self.options.given.choice("shareBy", ("records", "time"), "records")
        self._until: dict[TopicPartition, int] | None = None
        self._triggered = time.monotonic()
        self._sizes = RecordSizes()
        self._advance = Advance()
        self._idle, self._looked = False, 0.0
        """Whether the last look has found nothing, and when it was."""
        self._arrival: Arrival | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy, as tasks get it: it waits for nothing."""
        return {**self.__dict__, "_arrival": None}

    # ---- on the driver --------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        from headwater.spark.source.plan import ids_of

        plan = self._plan()
        metadata, places = plan.all_there()
        found = plan.resolve(self.starting, metadata, places, starting=True)
        found = plan.check_range(self.starting, found, metadata, places)
        return Position(found, ids_of(metadata)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.max_bytes is not None:
            return ReadMaxRows(1 << 62)  # Spark knows no limit in bytes; `latestOffset` does
        if self.options.min_offsets is not None:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        plan = self._plan()
        metadata, places = plan.all_there()
        self._until = plan.latest(metadata, places)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        # Not before a first look: after a batch, Spark may have windows to close without any record.
        if self._idle and self.options.wait and self._until is None:
            if time.monotonic() - self._looked < LOOK_EVERY_S and not self._has_come(start):
                return start
        found = self._look(start, limit)
        self._idle, self._looked = found is start, time.monotonic()
        return found

    def _has_come(self, start: dict[str, Any]) -> bool:
        """Wait until something may have come after a position."""
        if self._arrival is None:
            self._arrival = Arrival(self.options.client, self.options.isolation)
        return self._arrival.wait(Position.from_json(start).offsets, _AT_ONCE)

    def _look(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes; `start` itself where there is none."""
        from headwater.spark.source.plan import ids_of

        begin = Position.from_json(start)
        plan = self._plan()
        metadata = plan.metadata()
        new, kept = self._compare(plan, begin, metadata)
        ends = plan.latest(metadata, [*kept, *new])
        short = self._short(plan, metadata, kept, ends)
        new |= plan.earliest(metadata, short)
        known = kept | new
        ends = self._until_now(ends)
        ends = {place: max(ends.get(place, known[place]), known[place]) for place in known}
        waiting = sum(ends[place] - known[place] for place in ends)
        if not isinstance(limit, ReadAllAvailable):
            if self._too_few(waiting):
                return start
            ends = self._limited(plan, metadata, known, ends)
        if not waiting and known == begin.offsets:
            return start
        self._triggered = time.monotonic()
        ranges = [Range(*place, known[place], ends[place]) for place in ends]
        pieces = splits.pieces(
            [each for each in ranges if each.records],
            self.options.min_partitions,
            self.options.records_per_task,
        )
        return Position(ends, ids_of(metadata), new, pieces).to_json()

    def _limited(
        self,
        plan: Planner,
        metadata: Metadata,
        known: dict[TopicPartition, int],
        ends: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """As much of what waits as a batch may have."""
        options = self.options
        sizes = {} if options.max_bytes is None else self._sizes.of(plan, metadata, ends)
        limits = splits.Limits(options.max_offsets, options.max_bytes, sizes)

        def by_count(ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            return limits.shared(known, ends)

        if self._share_by != "time" or limits.load(known, ends) <= 1:
            return by_count(ends)
        waiting = [place for place in ends if ends[place] > known[place]]

        def at(moment_ms: int) -> dict[TopicPartition, int]:
            asked = dict.fromkeys(waiting, moment_ms)
            found = plan.cluster.list_offsets(asked, options.isolation, metadata)
            return dict.fromkeys(ends, -1) | found

        way = Way(known, ends, lambda until: limits.load(known, until), at)
        return dict(self._advance.ends(way, time.time_ns() // 1_000_000, by_count))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        plan = self._plan()
        metadata = plan.metadata()
        return Position(plan.latest(metadata, plan.partitions(metadata))).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        begin, until = Position.from_json(start), Position.from_json(end)
        ranges = [
            Range(*place, until.new.get(place, begin.offsets.get(place, 0)), offset)
            for place, offset in until.offsets.items()
        ]
        ranges = [each for each in ranges if each.records]
        if not ranges:
            return []
        plan = self._plan()
        return plan.tasks(splits.divide(ranges, until.pieces), plan.metadata(), until.ids)

    def _plan(self) -> Planner:
        from headwater.spark.source.plan import Planner

        return Planner(self.options)

    def _until_now(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        if self._until is None:
            return ends
        return {place: min(end, self._until.get(place, -1)) for place, end in ends.items()}

    def _short(
        self,
        plan: Planner,
        metadata: Metadata,
        kept: dict[TopicPartition, int],
        ends: dict[TopicPartition, int],
    ) -> list[TopicPartition]:
        """Partitions that end before the position, where the query is to begin with them anew."""
        found = plan.short(metadata, kept, ends)
        for place, end in sorted(found.items()):
            loss = data_loss.ends_before(*place, end, kept[place])
            self._report(loss, "it starts over with what is there")
        return list(found)

    def _report(self, loss: DataLoss, going_on: str) -> None:
        data_loss.report(loss, self.options.fail_on_data_loss, going_on)

    def _too_few(self, waiting: int) -> bool:
        least = self.options.min_offsets
        if least is None or self._until is not None or waiting >= least:
            return False
        return time.monotonic() - self._triggered < self.options.max_trigger_delay_s

    def _compare(
        self, plan: Planner, begin: Position, metadata: Metadata
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Partitions that are new, with where they begin, and those that are still there."""
        from headwater.spark.source.plan import ids_of

        ids = ids_of(metadata)
        places = plan.partitions(metadata)
        remade = {
            topic for topic, known in begin.ids.items() if topic in ids and ids[topic] != known
        }
        gone = sorted(place for place in begin.offsets if place not in places)
        self._say(remade, gone)
        kept = {
            place: offset
            for place, offset in begin.offsets.items()
            if place in places and place[0] not in remade
        }
        fresh = [place for place in places if place not in kept]
        if self._until is not None:
            fresh = [place for place in fresh if place in self._until]
        return plan.earliest(metadata, fresh), kept

    def _say(self, remade: set[str], gone: list[TopicPartition]) -> None:
        for topic in sorted(remade):
            self._report(data_loss.made_again(topic), "the query starts over with it")
        for place in gone:
            self._report(data_loss.deleted(*place), "the query goes on without it")

    # ---- in the tasks ---------------------------------------------------------------------------

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return _read(partition, self.options, self.schema)
