"""The log of a query's batches in its checkpoint, as Spark writes it: what was planned, what is done.

Used by `driver_query`, which keeps views over tables current without a query of Spark's. The files are those
of Spark, so whoever reads a checkpoint (positions, a batch that is planned anew, an older version of this
program) finds what it knows:

    metadata        {"id": …}           which query it is
    start           where its first batch begins: "latest" is another place after a restart
    offsets/BATCH   v1, settings, where the batch ends      durable before the batch begins
    commits/BATCH   v1, settings                            after its target and its state have it

Commits that a crash of the machine loses let their batches come again, each to the end that was planned for
it, where there is state that may lack them, and else the last; so those files are not synced.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater import atomic_file
from headwater.views.offset_log import last_batch

KEPT = 100
"""Batches, as Spark keeps them."""


class BatchLog:
    """One query's."""

    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint
        self._offsets, self._commits = checkpoint / "offsets", checkpoint / "commits"
        for folder in (self._offsets, self._commits):
            atomic_file.make_folder(folder)
        self.query_id = self._identity()
        self._planned = last_batch(self._offsets)

    def last_planned(self) -> int | None:
        """As it was found at the start, or planned since: a checkpoint has one query at a time."""
        return self._planned

    def last_done(self) -> int | None:
        return last_batch(self._commits)

    def first_to_do(self, *, also_before_last: bool) -> int:
        """The first batch that is not known to be done. One is planned when those before it are in the
        target, so only state can lack more than the last."""
        planned, done = self.last_planned(), self.last_done()
        undone = 0 if done is None else done + 1
        return undone if also_before_last or planned is None else max(undone, planned)

    def end_of(self, batch: int) -> dict[str, Any]:
        """Where a batch ends, as the source says it."""
        lines = (self._offsets / str(batch)).read_text(encoding="utf-8").splitlines()
        found: dict[str, Any] = json.loads(lines[2])
        return found

    def begin(self, initial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Where the first batch begins, as it was when that was first asked."""
        path = self._folder / "start"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            found = initial()
            atomic_file.write(path, json.dumps(found))
        return found

    def plan(self, batch: int, end: dict[str, Any]) -> None:
        """Durable when this returns."""
        now_ms = time.time_ns() // 1_000_000
        settings: dict[str, Any] = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": {}}
        said = "\n".join(["v1", json.dumps(settings), json.dumps(end)])
        atomic_file.write(self._offsets / str(batch), said)
        self._planned = batch

    def done(self, batch: int) -> None:
        temporary = self._commits / f".{batch}{atomic_file.SUFFIX}"
        temporary.write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")
        temporary.replace(self._commits / str(batch))
        for folder in (self._offsets, self._commits):
            (folder / str(batch - KEPT)).unlink(missing_ok=True)
            (folder / f".{batch - KEPT}.crc").unlink(missing_ok=True)

    def _identity(self) -> str:
        path = self._folder / "metadata"
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["id"])
        except FileNotFoundError:
            made = str(uuid.uuid4())
            atomic_file.write(path, json.dumps({"id": made}))
            return made
