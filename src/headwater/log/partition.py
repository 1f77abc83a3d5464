"""The log of one partition: segments in a row, filled at the end, read anywhere, cut at the front.

The broker's `Partition` owns one of these and is the only one to change it; it knows no asyncio, so
that tests can run it on a faulty disk step by step. Appending has three steps:

    stage    gives a batch its offsets and its place      memory only, by the owner
    Commit   writes what was staged, then syncs           disk only, in any thread
    finish   moves the durable offset                     memory only, by the owner

One commit covers everything staged when it was taken (group commit). Readers must see nothing at or
above `durable_offset`: that is the high watermark. Offsets must never be given twice: whatever a
recovery had to cut away was never durable, and where durable data is missing, its offsets stay unused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from typing_extensions import Buffer

from headwater.log import checkpoints
from headwater.log.config import LogConfig
from headwater.log.files import File, FileSystem
from headwater.log.producers import Producers, Stored
from headwater.log.segment import Segment, file_name
from headwater.record import batch as batches
from headwater.record import records
from headwater.record.batch import CRC_START, BatchHeader

SAVE_INDEX_BYTES = 4 * 1024 * 1024
SNAPSHOT_BYTES = 64 * 1024 * 1024
_OFFSETS_PER_SEGMENT_MAX = 2**31 - 1


class OffsetOutOfRange(Exception):
    """Before the log's start, or beyond its end."""


class StorageFailed(Exception):
    """The disk refused a write; nothing of it counts as stored."""


class SyncFailed(StorageFailed):
    """The disk did not confirm a write; what it holds now is unknown until it is read again."""


class Found(NamedTuple):
    """A record found by time."""

    timestamp: int
    offset: int


@dataclass(slots=True)
class Commit:
    """Writes that become durable together. `run` may be called in any thread, once."""

    files: FileSystem
    directory: Path
    end_offset: int
    sync: bool
    writes: list[tuple[Segment, int, list[Buffer]]] = field(default_factory=list)
    sealed: list[Segment] = field(default_factory=list)
    snapshots: list[tuple[int, bytes]] = field(default_factory=list)
    durable_file: File | None = None

    def run(self) -> None:
        """Write and sync. After an exception nothing of it may be taken as stored."""
        for segment, position, buffers in self.writes:
            segment.file.write(position, buffers)
        if self.sync:
            self._sync()
        for segment, _, _ in self.writes:
            segment.is_new = False
        if self.durable_file is not None:
            self.durable_file.write(0, [checkpoints.pack_durable_offset(self.end_offset)])
        self._save()

    def _sync(self) -> None:
        try:
            for segment in {id(write[0]): write[0] for write in self.writes}.values():
                segment.file.sync()
            if any(segment.is_new for segment, _, _ in self.writes):
                self.files.sync_dir(self.directory)
        except OSError as error:
            raise SyncFailed(str(error)) from error

    def _save(self) -> None:
        """What only makes the next start quicker."""
        for segment in self.sealed:
            segment.save_indexes(final=True)
        if self.writes:
            last = self.writes[-1][0]
            if last.size - last.saved_at >= SAVE_INDEX_BYTES:
                last.save_indexes()
        for offset, data in self.snapshots:
            self.files.write_atomic(self.directory / file_name(offset, ".snapshot"), data)
        if self.snapshots:
            drop_old_snapshots(self.files, self.directory)


def drop_old_snapshots(files: FileSystem, directory: Path, keep: int = 2) -> None:
    found = [name for name in files.list(directory) if name.endswith(".snapshot")]
    for name in found[:-keep]:
        files.remove(directory / name)


class PartitionLog:
    """Append at the end, read from anywhere, forget from the front."""

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        config: LogConfig,
        segments: list[Segment],
        *,
        start_offset: int,
        next_offset: int,
        epochs: list[tuple[int, int]],
        producers: Producers,
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.segments = segments
        self.start_offset = start_offset
        self.next_offset = next_offset
        """Offset of the next record (log end offset); may be ahead of what is durable."""
        self.durable_offset = next_offset
        """High watermark: what readers may see ends before this offset."""
        self.epochs = epochs
        self.producers = producers
        self.staged_bytes = 0
        self.cleaned_offset = 0
        """Compaction has been here; what follows is dirty."""
        self._durable_segment = segments[-1]
        self._durable_position = segments[-1].size
        self._staged: list[tuple[Segment, int, list[Buffer]]] = []
        self._sealed: list[Segment] = []
        self._snapshots: list[tuple[int, bytes]] = []
        self._since_snapshot = 0
        self._durable_file: File | None = None

    # ---- appending -----------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def epoch(self) -> int:
        return self.epochs[-1][0]

    def check_producer(self, header: BatchHeader) -> Stored | None:
        """The earlier copy if the batch is a retry. Raises ProducerError."""
        return self.producers.check(header) if header.producer_id >= 0 else None

    def stage(self, data: Buffer, header: BatchHeader, now_ms: int) -> int:
        """Give a batch its offsets; returns the first. It is stored once a commit of it is done."""
        base_offset = self.next_offset
        if self._must_roll(header, now_ms):
            self.roll(now_ms)
        segment = self.active
        position = segment.stage(header, base_offset, self.config.index_interval_bytes)
        first = batches.restamp(data, base_offset=base_offset, leader_epoch=self.epoch)
        self._staged.append((segment, position, [first, memoryview(data)[CRC_START:]]))
        self.staged_bytes += header.size
        self.next_offset = segment.next_offset
        if header.producer_id >= 0 and not header.is_control:
            self.producers.update(header, base_offset, now_ms)
        self._since_snapshot += header.size
        if self._since_snapshot >= SNAPSHOT_BYTES:
            self._take_snapshot()
        return base_offset

    def _must_roll(self, header: BatchHeader, now_ms: int) -> bool:
        segment, config = self.active, self.config
        if not segment.size:
            return False
        if segment.size + header.size > config.segment_bytes:
            return True
        if (
            self.next_offset + header.last_offset_delta - segment.base_offset
            > _OFFSETS_PER_SEGMENT_MAX
        ):
            return True
        if len(segment.index.data) + segment.index.entry_bytes > config.segment_index_bytes:
            return True
        return self._age_ms(segment, header.max_timestamp, now_ms) > config.segment_ms

    @staticmethod
    def _age_ms(segment: Segment, timestamp: int, now_ms: int) -> int:
        """By the records' own time where they have one, as Kafka counts it."""
        first = segment.first_timestamp
        if first is not None and first >= 0 and timestamp >= 0:
            return timestamp - first
        return now_ms - segment.created_ms

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the next offset."""
        self._sealed.append(self.active)
        segment = Segment(self.files, self.directory, self.next_offset, now_ms)
        _ = segment.file  # created here, so that no other thread has to
        self.segments.append(segment)
        self._take_snapshot()

    def _take_snapshot(self) -> None:
        self._snapshots.append((self.next_offset, self.producers.to_bytes()))
        self._since_snapshot = 0

    def take(self) -> Commit | None:
        """Everything staged until now, as one commit; None if there is nothing."""
        if not (self._staged or self._sealed or self._snapshots):
            return None
        sync = self.config.durability == "disk"
        commit = Commit(
            self.files,
            self.directory,
            self.next_offset,
            sync,
            _merged(self._staged),
            self._sealed,
            self._snapshots,
            self._open_durable_file() if sync else None,
        )
        self._staged, self._sealed, self._snapshots = [], [], []
        self.staged_bytes = 0
        return commit

    def _open_durable_file(self) -> File:
        if self._durable_file is None:
            path = self.directory / checkpoints.DURABLE_OFFSET
            self._durable_file = self.files.open(path, create=True)
        return self._durable_file

    def finish(self, commit: Commit) -> None:
        """The commit is done: readers may see it."""
        self.durable_offset = commit.end_offset
        if commit.writes:
            segment, position, buffers = commit.writes[-1]
            self._durable_segment = segment
            self._durable_position = position + sum(map(len, buffers))  # type: ignore[arg-type]

    def flush(self) -> None:
        """Stage to durable in one go, for callers without a thread to spare."""
        commit = self.take()
        if commit is not None:
            commit.run()
            self.finish(commit)

    # ---- reading -------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        size_max: int,
        *,
        at_least_one: bool = True,
        upper: int | None = None,
        cached_only: bool = False,
    ) -> Buffer | None:
        """Batches from the one that holds `offset` on, at most `size_max` bytes; the last may be cut.

        A first batch that is larger comes whole with `at_least_one` (KIP-74), else not at all.
        Nothing at or above `upper` (default: the durable offset). None: with `cached_only`, the disk
        would have to be waited for. Raises OffsetOutOfRange, CorruptSegment.
        """
        limit = self.durable_offset if upper is None else min(upper, self.durable_offset)
        if offset < self.start_offset or offset > self.next_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not within {self.start_offset}–{self.durable_offset}"
            )
        number = self._segment_number(offset)
        while offset < limit and number < len(self.segments):
            segment = self.segments[number]
            if segment.base_offset >= limit:
                break
            end = self._readable_end(segment, limit)
            data = _read_segment(segment, offset, end, size_max, at_least_one, cached_only)
            if data is None or len(data):  # type: ignore[arg-type]
                return data
            if not at_least_one:
                return b""  # the batch is too large for now, or the next segment has it
            number += 1
        return b""

    def _segment_number(self, offset: int) -> int:
        """The last segment that begins at or before `offset`."""
        found = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset)
        return max(found - 1, 0)

    def _readable_end(self, segment: Segment, limit: int) -> int:
        """The file position at which a reader must stop."""
        if segment is self._durable_segment:
            end = self._durable_position
        elif segment.base_offset >= self.durable_offset:
            return 0
        else:
            end = segment.size
        if limit < self.durable_offset and segment.next_offset > limit:
            found = segment.position_of(limit, end)
            return found[0] if found else end
        return end

    def find_time(self, timestamp: int) -> Found | None:
        """The first record, in order of offsets, that is at or after `timestamp`."""
        for segment in self.segments:
            if segment.largest_timestamp() < timestamp:
                continue
            end = self._readable_end(segment, self.durable_offset)
            _, position = segment.index.floor(segment.times.floor(timestamp))
            for at, header in segment.headers(position, end, checked=False):
                if header.max_timestamp < timestamp or header.last_offset < self.start_offset:
                    continue
                found = records.first_at_or_after(segment.file.read(at, header.size), timestamp)
                if found is not None and found.offset >= self.start_offset:
                    return Found(found.timestamp, found.offset)
        return None

    def find_max_timestamp(self) -> Found | None:
        """The record with the latest timestamp; the first such."""
        best: tuple[int, Segment] | None = None
        for segment in self.segments:
            latest = segment.largest_timestamp()
            if latest >= 0 and (best is None or latest > best[0]):
                best = (latest, segment)
        return None if best is None else self.find_time(best[0])

    # ---- epochs --------------------------------------------------------------------------------

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or below the asked one, its end offset); (-1, -1) if unknown."""
        if epoch == self.epoch:
            return epoch, self.durable_offset
        if epoch > self.epoch:
            return -1, -1
        known = -1
        for number, start in self.epochs:
            if number > epoch:
                return (known, start) if known >= 0 else (epoch, start)
            known = number
        return -1, -1

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which a record was written."""
        return next((epoch for epoch, start in reversed(self.epochs) if start <= offset), 0)

    # ---- the front -----------------------------------------------------------------------------

    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def last_stable_offset(self) -> int:
        """Below this no transaction is open."""
        first = self.producers.first_open_offset()
        return self.durable_offset if first is None else min(first, self.durable_offset)

    def delete_before(self, offset: int) -> None:
        """Move the start; segments that lie wholly before it go with the next retention."""
        if not self.start_offset <= offset <= self.durable_offset:
            if offset < self.start_offset:
                return
            raise OffsetOutOfRange(f"offset {offset} is beyond {self.durable_offset}")
        self.start_offset = offset

    def drop_front(self, count: int) -> list[Segment]:
        """Take the first `count` segments out; the caller removes their files."""
        assert count < len(self.segments), "the active segment stays"
        dropped, self.segments = self.segments[:count], self.segments[count:]
        self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        return dropped

    def replace(self, old: list[Segment], new: list[Segment]) -> None:
        """Put compacted segments in the place of those they were made from."""
        first = self.segments.index(old[0])
        assert self.segments[first : first + len(old)] == old
        self.segments[first : first + len(old)] = new

    def close(self) -> None:
        """Flush, and save what makes the next start quick."""
        self._take_snapshot()
        self.flush()
        self.active.save_indexes(final=True)
        self.sync()
        self.abandon()

    def sync(self) -> None:
        """Bring to disk what was written without waiting for it: indexes, and with
        durability=os the records as well."""
        for segment in self.segments:
            if segment.size > segment.trusted_from or segment is self.active:
                if self.config.durability != "disk":
                    segment.file.sync()
                for suffix in (".index", ".timeindex"):
                    file = self.files.open(segment.path(suffix), create=True)
                    file.sync()
                    file.close()

    def abandon(self) -> None:
        """Give back the descriptors, saving nothing."""
        for segment in self.segments:
            segment.close()
        if self._durable_file is not None:
            self._durable_file.close()
            self._durable_file = None


def _merged(
    staged: list[tuple[Segment, int, list[Buffer]]],
) -> list[tuple[Segment, int, list[Buffer]]]:
    """Batches that lie one after the other in a file become one write."""
    merged: list[tuple[Segment, int, list[Buffer]]] = []
    for segment, position, buffers in staged:
        if merged and merged[-1][0] is segment:
            merged[-1][2].extend(buffers)
        else:
            merged.append((segment, position, buffers))
    return merged


def _read_segment(
    segment: Segment, offset: int, end: int, size_max: int, at_least_one: bool, cached_only: bool
) -> Buffer | None:
    """What `PartitionLog.read` promises, within one segment; empty if `offset` is not in it."""
    _, start = segment.index.floor(offset)
    read = segment.file.read_cached if cached_only else segment.file.read
    skip = 0
    data: bytes | None = b""
    while start + skip < end:
        start, skip = start + skip, 0
        wanted = min(max(size_max, 0) + 8192, end - start)
        data = read(start, wanted)
        if data is None:
            return None
        for position, header in _walk(segment, data, start, end):
            if header.last_offset < offset:
                skip = position + header.size
                continue
            if header.size > size_max:
                if not at_least_one:
                    return b""
                size_max = header.size
                if position + header.size > len(data):
                    data, start, position = read(start + position, header.size), start + position, 0
                    if data is None:
                        return None
            found: Buffer = memoryview(data)[position : position + size_max]
            if start + position < segment.trusted_from:
                return segment.checked_prefix(bytes(found), start + position)
            return found
        if not skip:
            raise segment.corrupt(start, f"{end - start} bytes are left, which is no batch")
    return b""


def _walk(segment: Segment, data: bytes, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Headers in `data`, which was read at `start`; the last batch may reach beyond it."""
    position = 0
    while position + batches.HEADER_BYTES <= len(data):
        try:
            header = batches.read_header(data, position)
            if start + position + header.size > end:
                raise batches.CorruptBatch("it reaches beyond the end")
        except batches.RecordError as error:
            raise segment.corrupt(start + position, str(error)) from error
        yield position, header
        position += header.size
