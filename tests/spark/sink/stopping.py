"""A writer that stands still at a named point of a batch, until a test has killed somebody.

The product has no such points: here its own steps are overridden, in the test's driver and workers.

    point             where batch 1 stands still
    in-part           task 1 has sent some of its rows
    before-decision   every task has prepared its part
    after-decision    the driver has decided, and ended no transaction
    after-some        … and ended the transaction of one task
    after-all         … of all tasks; the checkpoint does not know it yet

The query of the last point has lost a worker before: in batch 0 that of task 1 kills itself in mid-part, at
its first attempt.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from headwater.client.cluster import Cluster
from headwater.spark.datasource import HeadwaterDataSource
from headwater.spark.sink import columns, second_phase, settings
from headwater.spark.sink.decisions import Decision
from headwater.spark.sink.part import Part
from headwater.spark.sink.stream import StreamWriter
from headwater.spark.sink.task import Task

POINTS = ("in-part", "before-decision", "after-decision", "after-some", "after-all")
BATCH = 1


class StoppingSource(HeadwaterDataSource):
    """Takes two more options: `point`, and the `folder` in which it says where it is."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        options = dict(self.options)
        point, folder = options.pop("point"), options.pop("folder")
        read = settings.read(options)
        return StoppingWriter(read, columns.check(schema, read.topic), point, Path(folder))


class StoppingWriter(StreamWriter):
    def __init__(self, read: Any, found: Any, point: str, folder: Path) -> None:
        super().__init__(read, found)
        self._point, self._folder = point, folder

    def _write_part(self, cluster: Cluster, task: Task, iterator: Iterator[Any]) -> Part:
        if task.batch <= BATCH and task.slot == 1 and task.attempt == 0:
            iterator = self._interrupted(iterator, task.batch)
        return super()._write_part(cluster, task, iterator)

    def _interrupted(self, iterator: Iterator[Any], batch: int) -> Iterator[Any]:
        for number, each in enumerate(iterator):
            if number == 1 and batch == BATCH:
                self._stop_at("in-part")
            elif number == 1 and self._point == "after-all":
                (self._folder / "worker-died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield each

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        if batchId == BATCH:
            self._stop_at("before-decision")
        super().commit(messages, batchId)
        if batchId == BATCH:
            self._stop_at("after-all")

    def _end(self, cluster: Cluster, decision: Decision) -> None:
        if decision.batch == BATCH:
            self._stop_at("after-decision")
            if self._point == "after-some":
                second_phase.finish(cluster, decision.parts[:1])
                self._stop_at("after-some")
        super()._end(cluster, decision)

    def _stop_at(self, point: str) -> None:
        if point != self._point:
            return
        (self._folder / point).touch()
        while not (self._folder / f"{point}-go").exists():
            if not self._folder.exists():  # the test is over
                os._exit(1)
            time.sleep(0.02)
