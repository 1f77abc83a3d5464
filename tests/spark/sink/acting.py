"""Spark's part in a stream write, played step by step: tasks and commits in whatever order a test wants."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from headwater.client import cluster as connect
from headwater.spark.sink import columns, settings
from headwater.spark.sink.decisions import Decision
from headwater.spark.sink.stream import Prepared, StreamWriter

COLUMNS = columns.Columns(value=0, key=-1, headers=-1, topic=-1, partition=-1)


class Died(Exception):
    """The driver was killed here."""


class DyingWriter(StreamWriter):
    """Its driver dies right after it has decided."""

    def _end(self, cluster: connect.Cluster, decision: Decision) -> None:
        raise Died


@dataclass
class Run:
    """One run of a query: a driver and its tasks."""

    bootstrap: str
    topic: str
    query: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    dies_deciding: bool = False
    options: dict[str, str] = field(default_factory=dict)

    @property
    def writer(self) -> StreamWriter:
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic, **self.options}
        kind = DyingWriter if self.dies_deciding else StreamWriter
        return kind(settings.read(given), COLUMNS)

    @property
    def cluster(self) -> connect.Cluster:
        return connect.cluster(settings.read({"kafka.bootstrap.servers": self.bootstrap}).client)

    def task(self, batch: int, slot: int, values: list[str], attempt: int = 0) -> Prepared:
        """A task writes its part."""
        return self.write(batch, slot, iter(_arrow(values)), attempt)

    def write(self, batch: int, slot: int, arrow: Iterator[Any], attempt: int = 0) -> Prepared:
        context = TaskContext._getOrCreate()
        context._partitionId, context._attemptNumber = slot, attempt
        context._localProperties = {
            "sql.streaming.queryId": self.query,
            "streaming.sql.batchId": str(batch),
            "spark.jobGroup.id": self.id,
        }
        try:
            return self.writer.write(arrow)
        finally:
            TaskContext._setTaskContext(None)

    def tasks(self, batch: int, *parts: list[str]) -> list[Any]:
        return [self.task(batch, slot, values) for slot, values in enumerate(parts)]

    def commit(self, batch: int, messages: list[Any]) -> None:
        self.writer.commit(messages, batch)

    def abort(self, batch: int, messages: list[Any]) -> None:
        self.writer.abort(messages, batch)

    def do(self, batch: int, *parts: list[str]) -> None:
        """A whole batch; `Died` is where the run ends."""
        messages = self.tasks(batch, *parts)
        try:
            self.commit(batch, messages)
        except Died:
            assert self.dies_deciding


def _arrow(values: list[str]) -> list[Any]:
    """Two Arrow batches, so that a part is more than one."""
    half = len(values) // 2
    return [
        pa.record_batch([pa.array(each, pa.string())], names=["value"])
        for each in (values[:half], values[half:])
    ]
