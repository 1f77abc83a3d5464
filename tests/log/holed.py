"""A log with transactions of which a segment gets lost: short ways to fill it, start it, and read it.

Each transaction has an epoch of its own, and its marker the next one (KIP-890), unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.log import compaction
from headwater.log.compaction_plan import Plan, Source
from headwater.log.config import LogConfig
from headwater.log.excision import Selection, Work, excise
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog
from headwater.log.recovery import open_partition
from headwater.log.segment import Segment
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.records import Record

SUFFIXES = {"the records": (".log",), "all of it": (".log", ".index", ".timeindex", ".txnindex")}
NOW_MS = 1_700_000_000_000
SALT = "00ff" * 8
CONFIG = LogConfig(compact=True, delete=False, min_cleanable_dirty_ratio=0.0)


@dataclass(slots=True)
class HoledLog:
    """One partition's folder, on any disk."""

    files: FileSystem
    folder: Path
    log: PartitionLog

    @classmethod
    def opened(
        cls, files: FileSystem, folder: Path, *, clean: bool = True, end: int = 0
    ) -> HoledLog:
        files.make_dir(folder)
        log, _ = open_partition(files, folder, CONFIG, NOW_MS, recovery_point=end, clean=clean)
        return cls(files, folder, log)

    # ---- filling -------------------------------------------------------------------------------

    def write(self, producer: int, value: bytes, epoch: int = 0, sequence: int = 0) -> None:
        """With the value for a key, so that no compaction takes it for an old one."""
        data = records.build(
            [Record(0, NOW_MS, value, value)],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=producer >= 0,
        )
        self._store(data)

    def plain(self, value: bytes) -> None:
        self.write(-1, value, -1, -1)

    def commit(self, producer: int, epoch: int = 1) -> None:
        self._store(control.marker(control.COMMIT, producer, epoch, 0, NOW_MS, 0))

    def abort(self, producer: int, epoch: int = 1) -> None:
        self._store(control.marker(control.ABORT, producer, epoch, 0, NOW_MS, 0))

    def _store(self, data: bytes) -> None:
        self.log.stage(data, batches.read_header(data), NOW_MS)
        self.log.flush()

    def roll(self) -> None:
        self.log.roll(NOW_MS)
        self.log.flush()

    # ---- what becomes of it --------------------------------------------------------------------

    def lose(self, number: int, what: str) -> None:
        """Of a log that is stopped; of the segments that have something in them."""
        base = [segment.base_offset for segment in self.log.segments][number]
        for suffix in SUFFIXES[what]:
            self.files.remove(self.folder / f"{base:020d}{suffix}")

    def stop(self, *, clean: bool = True) -> None:
        self.log.close() if clean else self.log.abandon()

    def start(self, *, clean: bool = True) -> None:
        """It has been stopped, or killed."""
        end = self.log.next_offset
        self.log = HoledLog.opened(self.files, self.folder, clean=clean, end=end).log

    def restart(self, *, clean: bool = True) -> None:
        self.stop(clean=clean)
        self.start(clean=clean)

    def compact(self) -> None:
        self.log.cleaned_offset = 0
        plan = compaction.plan(self.log, NOW_MS)
        if plan is not None:
            result = compaction.compact(self.files, self.folder, plan)
            _close(compaction.apply(self.log, plan, result))

    def excise(self, key: bytes) -> None:
        """As `broker.excisions` does it."""
        if self.log.active.size:
            self.roll()
        segments = [each for each in self.log.segments[:-1] if each.size]
        sources = tuple(Source(s.base_offset, s.next_offset, s.size) for s in segments)
        aborted = tuple(entry for segment in segments for entry in segment.aborted)
        work = Work(sources, Selection.of_key(key, SALT), 4096, aborted=aborted)
        result = excise(self.files, self.folder, work)
        groups = tuple((source,) for source in sources)
        plan = Plan(groups, 0, 0, 0, 4096, {}, segments=tuple(segments))
        if result.made:
            _close(compaction.apply(self.log, plan, result))

    # ---- reading -------------------------------------------------------------------------------

    @property
    def aborted(self) -> list[tuple[int, int]]:
        found = self.log.aborted_between(0, self.log.next_offset)
        return [(each.producer_id, each.first_offset) for each in found]

    def committed(self) -> set[bytes]:
        """What a reader of committed records gets, who begins at the start and goes on and on."""
        found, offset = set[bytes](), self.log.start_offset
        upper = self.log.last_stable_offset()
        while offset < upper:
            data, aborted = self.log.read_committed(offset, 1 << 20, upper)
            if not data:
                break
            told = sorted((each.first_offset, each.producer_id) for each in aborted)
            hidden = set[int]()
            for position, header in batches.scan(bytes(data)):
                while told and told[0][0] <= header.last_offset:
                    hidden.add(told.pop(0)[1])
                batch = bytes(data)[position : position + header.size]
                if header.is_control and header.record_count:
                    # As Kafka's clients: only an abort ends what is left out.
                    if control.read_marker(batch).kind == control.ABORT:
                        hidden.discard(header.producer_id)
                elif not header.is_control and header.producer_id not in hidden:
                    found |= {record.value or b"" for record in records.decode(batch)}
                offset = header.next_offset
        return found


def _close(segments: Iterable[Segment] | None) -> None:
    assert segments is not None
    for segment in segments:
        segment.close()
