"""The loop from the server's events to batches; called by `source`.

A batch goes out when it is large enough, or when the server has nothing more at hand: alone a change is
in the log within milliseconds, and under load batches grow by themselves; after a large one, some more
time is given to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from headwater.capture.change import BUSY_ROWS, GATHER_S, Batch
from headwater.capture.mysql.assembly import Assembly
from headwater.capture.mysql.flavor import Reached
from headwater.capture.mysql.replication import BinlogStream
from headwater.capture.source import IDLE_S

HURRY_S = 0.001


def follow(
    binlog: BinlogStream, assembly: Assembly, hurried: Callable[[], bool] = lambda: False
) -> Iterator[Batch]:
    """All that comes, for ever. `hurried`: whether someone else waits for the next batch."""
    gathering = 0.0
    while True:
        left = gathering - time.monotonic() if assembly.waiting else 0.0
        frames = binlog.read(left if left > 0 else HURRY_S if hurried() else IDLE_S)
        at = 0
        while at < len(frames):
            at = assembly.feed(frames, at)
            if assembly.due:
                yield assembly.take()
        if assembly.waiting and (binlog.waiting() or time.monotonic() < gathering):
            continue
        batch = assembly.take()
        yield batch
        gathering = time.monotonic() + GATHER_S if batch.rows >= BUSY_ROWS else 0.0


def follow_until(binlog: BinlogStream, assembly: Assembly, end: Reached) -> Iterator[Batch]:
    """All transactions up to that position and none after it."""
    while not _reached(assembly, end):
        for frame in binlog.read(IDLE_S):
            assembly.feed([frame])
            if assembly.due:
                yield assembly.take()
            if _reached(assembly, end):
                break
        yield assembly.take()


def _reached(assembly: Assembly, end: Reached) -> bool:
    return not assembly.open and assembly.gtid.covers(end)
