"""Log compaction: of each key only the newest record stays (`cleanup.policy=compact`).

Three steps, taken by the broker's housekeeping for one partition at a time:

    plan      is the log worth it, and which segments?       by the log's owner, in `compaction_plan`
    compact   write new segments beside the old ones         in a process of its own, in `compactor`
    apply     put them in place of the old ones              by the log's owner, here
              (begin, run, finish: the disk's part of it may run in another thread)

`compact` is all the work, and it is work in Python: in the broker's process it would hold up every
client. So the broker starts `command()`, hands the plan as JSON to its standard input and reads the
result from its standard output; if the exit status is not 0, the last line of its standard error says
why. What the log has gone through in the meantime (retention), `apply` finds out and drops the result.

Nothing at or above the last stable offset and nothing in the active segment may be touched. So the
fate of every transaction among the sources is known, and the plan says which were aborted: their
markers may lie behind the sources, in the active segment, whose list is not on disk yet. The
records that stay must keep their offsets, and every segment made must end where the ones that it
replaces ended. A crash at any point must leave the old or the new segments, whole: see `swap`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log import segment as segments
from headwater.log import swap, worker
from headwater.log.cleaned_segment import CannotCompact
from headwater.log.compaction_plan import Made, Plan, Result, plan, prepare
from headwater.log.compactor import compact
from headwater.log.confirmation import sync_file
from headwater.log.files import Files
from headwater.log.index import OffsetIndex, TimeIndex
from headwater.log.partition import PartitionLog
from headwater.log.segment import Segment

logger = logging.getLogger("headwater.log")

__all__ = [
    "CannotCompact",
    "Exchange",
    "Plan",
    "Result",
    "apply",
    "begin",
    "command",
    "compact",
    "finish",
    "main",
    "plan",
    "prepare",
]


@dataclass(frozen=True, slots=True)
class Exchange:
    """New segments on their way into a log, and the old ones on their way out."""

    log: PartitionLog
    result: Result
    old: list[list[Segment]]
    """For each new segment those that it replaces."""
    new: list[Segment] = field(default_factory=list)

    def run(self) -> None:
        """Disk only, in any thread. After an OSError or SyncFailed the log must be opened anew: only
        the disk knows what was decided; after SyncFailed nothing more may be appended to it."""
        files, directory = self.log.files, self.log.directory
        if self.log.synced_offset < self.log.durable_offset:
            # What is dropped was on disk; what it was dropped for must be there, too.
            for segment in self.log.segments[:-1]:
                sync_file(segment.file)
        indexes = self.log.txn_indexes
        indexes.forget(segment.base_offset for group in self.old for segment in group)
        swap.decide(files, directory, [made.base_offset for made in self.result.made])
        swap.finish(
            files, directory, {made.base_offset: made.next_offset for made in self.result.made}
        )
        for group, made in zip(self.old, self.result.made, strict=True):
            self.new.append(_opened(self.log, made, group[-1].created_ms))
        try:
            indexes.note(self.new)
        except OSError as error:  # they are believed without
            logger.error("%s: checksums were not saved: %s", directory, error)


def begin(log: PartitionLog, plan: Plan, result: Result) -> Exchange | None:
    """Make ready to put in place what was made; None if the log is no longer what was planned for.

    From here on to `finish` nothing else may remove or release these segments. Reading goes on. Disk work, in
    any thread: there may be tens of thousands of them.
    """
    old = _still_there(log, plan, result)
    if old is None:
        swap.forget(log.files, log.directory)
        return None
    leaving = [segment for group in old for segment in group]
    for segment in leaving:
        _detach(segment)
    for segment in leaving:  # all or none: it may be that one cannot be opened
        segment.is_replaced = True
    return Exchange(log, result, old)


def finish(exchange: Exchange, *, keeps_dirty: bool = False) -> list[Segment]:
    """The exchange has run: readers get the new segments. Returns the old ones. `keeps_dirty`: nothing
    was compacted.

    Their files are gone, but whoever still reads them can go on: close them when nobody does.
    """
    log, result = exchange.log, exchange.result
    old = [segment for group in exchange.old for segment in group]
    log.exchange(_exchanged(log.segments, exchange), old)
    if not keeps_dirty:
        log.cleaned_offset = result.cleaned_offset
        log.compacted_offset = result.reached_offset if result.damaged else 0
    return old


def _exchanged(segments: list[Segment], exchange: Exchange) -> list[Segment]:
    """In one go: there may be tens of thousands."""
    pairs = zip(exchange.old, exchange.new, strict=True)
    new_at = {id(group[0]): (group, new) for group, new in pairs}
    found: list[Segment] = []
    position = 0
    while position < len(segments):
        segment = segments[position]
        group, new = new_at.pop(id(segment), ([segment], segment))
        if segments[position : position + len(group)] != group:
            raise ValueError("these segments are no neighbours any more")
        found.append(new)
        position += len(group)
    if new_at:
        raise ValueError("these segments are not there any more")
    return found


def apply(log: PartitionLog, plan: Plan, result: Result) -> list[Segment] | None:
    """All three in one go, for callers without a thread to spare; None if the log has changed."""
    exchange = begin(log, plan, result)
    if exchange is None:
        return None
    exchange.run()
    return finish(exchange)


def _still_there(log: PartitionLog, plan: Plan, result: Result) -> list[list[Segment]] | None:
    """The segments to be replaced, by what replaces them; None unless all are as they were."""
    names = set(log.files.list(log.directory))
    present = {id(segment) for segment in log.segments}
    by_base = {segment.base_offset: segment for segment in plan.segments}
    groups: list[list[Segment]] = []
    for made in result.made:
        path = swap.cleaned_path(log.directory, made.base_offset, ".log")
        if path.name not in names or log.files.size(path) != made.size:
            return None
        group = [by_base[base] for base in made.replaces]
        if any(id(segment) not in present for segment in group):
            return None
        groups.append(group)
    return groups


def _detach(segment: Segment) -> None:
    """Let those who read it in other threads go on, though its names will soon mean other files."""
    with segments._LOADING:
        _ = segment.file
        if segment._index is None or segment._times is None:
            # Without entries the search begins at the segment's start: slower, and just as right.
            segment._index = OffsetIndex(segment.base_offset)
            segment._times = TimeIndex(segment.base_offset)


def _opened(log: PartitionLog, made: Made, created_ms: int) -> Segment:
    segment = Segment.found(log.files, log.directory, made.base_offset, created_ms)
    segment.next_offset = made.next_offset
    segment.max_timestamp = made.max_timestamp
    segment.max_timestamp_offset = made.max_timestamp_offset
    segment.saved_at = segment.size
    segment.load_aborted()
    return segment


# ---- the process -------------------------------------------------------------------------------


def command(directory: Path) -> list[str]:
    """What to run, with the plan on standard input (`worker`)."""
    return worker.command("headwater.log.compaction", directory)


def main(arguments: list[str] | None = None) -> int:
    """`python -m headwater.log.compaction`: 0 and the result as JSON, or 1 and why not."""
    return worker.run("headwater.log.compaction", arguments, _compact)


def _compact(directory: Path, told: str, check: worker.Check) -> str:
    work = Plan.from_json(told)
    pace = paced(work.bytes_per_second)

    def between(size: int) -> None:
        pace(size)
        check()

    return compact(Files(), directory, work, between=between).to_json()


def paced(
    bytes_per_second: float | None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Callable[[int], None]:
    """Takes the size of each piece of work, and waits so that the whole keeps to that speed."""
    began, done = now(), 0

    def pace(size: int) -> None:
        nonlocal done
        done += size
        ahead = done / bytes_per_second - (now() - began) if bytes_per_second else 0.0
        if ahead > 0:
            sleep(ahead)

    return pace


if __name__ == "__main__":
    sys.exit(main())
