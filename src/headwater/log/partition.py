"""The log of one partition: segments in a row, filled at the end, read anywhere, cut at the front.

The broker's `Partition` owns one of these and is the only one to change it; it knows no asyncio, so
that tests can run it on a faulty disk step by step. Appending has three steps:

    stage    gives a batch its offsets and its place      memory only, by the owner
    Commit   writes what was staged, then syncs           disk only, in any thread
    finish   moves the durable offset                     memory only, by the owner

One commit covers everything staged when it was taken (group commit). Readers must see nothing at or
above `durable_offset`: that is the high watermark. Offsets must never be given twice: whatever a
recovery had to cut away was never durable, and where durable data is missing, its offsets stay unused.

`read` and the searches by time may run in other threads: they take the list of segments once, and
every change of it makes a new list.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from headwater.log import checkpoints, partition_reader, segment_reader
from headwater.log.aborted_transactions import AbortedTransaction, TxnIndexes
from headwater.log.allowance import Allowance
from headwater.log.commit import Commit, Write, merged
from headwater.log.config import LogConfig
from headwater.log.confirmation import Displaced, StorageFailed, SyncFailed, sync_file, sync_folder
from headwater.log.files import File, FileSystem
from headwater.log.index import OFFSETS_MAX
from headwater.log.partition_reader import OffsetOutOfRange, ReadRequest
from headwater.log.producers import Producers, Stored
from headwater.log.segment import Segment
from headwater.log.segment_reader import Counted, Found, uncounted
from headwater.log.snapshots import Snapshots
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.batch import CRC_START, BatchHeader
from headwater.record.varint import Buffer

logger = logging.getLogger("headwater.log")

__all__ = ["Commit", "Found", "OffsetOutOfRange", "PartitionLog", "StorageFailed", "SyncFailed"]


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
        snapshots: Snapshots,
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
        self.snapshots = snapshots
        self.fenced = False
        """A write or a sync failed: what the disk holds beyond the durable offset is unknown, and
        nothing more may be appended."""
        self.synced_offset = next_offset
        """What lies before is on disk. With durability=os this is behind the durable offset; a
        recovery begins here."""
        self.cleaned_offset = 0
        """Compaction has been here; what follows is dirty."""
        self.compacted_offset = 0
        """Where the last compaction had to leave out damaged segments: how far it has come."""
        self.txn_indexes = TxnIndexes(files, directory)
        self.durable_end = (segments[-1], segments[-1].size)
        self._staged: list[Write] = []
        self._sealed: list[Segment] = []
        self._unsynced: dict[int, Segment] = {}
        self._syncing: dict[int, Segment] = {}
        """Those that a `sync` in another thread has begun with; never changed, only replaced."""
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

    def admit_producer(self, header: BatchHeader, now_ms: int) -> None:
        """Before it is staged: room for what is remembered of its producer. Raises TooManyProducers."""
        if header.producer_id >= 0:
            self.producers.admit(header.producer_id, now_ms)

    def stage(self, data: Buffer, header: BatchHeader, now_ms: int) -> int:
        """Give a batch its offsets; returns the first. It is stored once a commit of it is done.

        Raises OSError if a new segment cannot be made: then nothing has changed.
        """
        base_offset = self.next_offset
        if self._must_roll(header, now_ms):
            self.roll(now_ms)
        segment = self.active
        position = segment.stage(header, base_offset, self.config.index_interval_bytes)
        first = batches.restamp(data, base_offset=base_offset, leader_epoch=self.epoch)
        self._staged.append((segment, position, [first, memoryview(data)[CRC_START:]]))
        self.next_offset = segment.next_offset
        if header.producer_id >= 0:
            if header.is_control:
                self._end_transaction(data, header, base_offset, now_ms)
            else:
                self.producers.update(header, base_offset, now_ms)
        self.snapshots.note_staged(header.size)
        return base_offset

    def _end_transaction(self, data: Buffer, header: BatchHeader, offset: int, now_ms: int) -> None:
        marker = control.read_marker(data)
        self.producers.end(header, marker, offset, self.active.aborted, now_ms)

    def _must_roll(self, header: BatchHeader, now_ms: int) -> bool:
        segment, config = self.active, self.config
        last_offset = self.next_offset + header.last_offset_delta
        index = segment.index
        return (
            segment.size + header.size > config.segment_bytes
            or last_offset - segment.base_offset > OFFSETS_MAX
            or len(index.data) + index.entry_bytes > config.segment_index_bytes
            or self._age_ms(segment, header.max_timestamp, now_ms) > self._age_max_ms()
        )

    def _age_max_ms(self) -> int:
        """A compacted log also rolls in time for `max.compaction.lag.ms`, as Kafka does."""
        config = self.config
        age_ms = config.segment_ms
        if config.segment_jitter_ms > 0:
            # Different for every segment, but the same each time it is asked for.
            name = str(self.active.path(".log")).encode()
            age_ms -= crc32(name) % min(config.segment_jitter_ms, age_ms)
        return min(age_ms, config.max_compaction_lag_ms) if config.compact else age_ms

    def is_overdue(self, now_ms: int) -> bool:
        """Whether the active segment would be rolled, if only something were appended."""
        return bool(self.active.size) and now_ms - self.active.created_ms > self._age_max_ms()

    @staticmethod
    def _age_ms(segment: Segment, timestamp: int, now_ms: int) -> int:
        """By the records' own time where they have one, as Kafka counts it."""
        first = segment.first_timestamp
        if first is not None and first >= 0 and timestamp >= 0:
            return timestamp - first
        return now_ms - segment.created_ms

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless this one is empty. Raises OSError: then nothing has changed."""
        if not self.active.size:
            return
        segment = Segment.created(self.files, self.directory, self.next_offset, now_ms)
        self._sealed.append(self.active)
        self.segments = [*self.segments, segment]
        self.snapshots.is_due = True

    def take(self) -> Commit | None:
        """Everything staged until now, as one commit; None if there is nothing."""
        if not (self._staged or self._sealed or self.snapshots.is_due):
            return None
        commit = Commit(
            self.files,
            self.directory,
            self.next_offset,
            self.txn_indexes,
            merged(self._staged),
            self._sealed,
        )
        if self.snapshots.give(commit, self.producers):
            commit.aborting = [segment for segment in self.segments if segment.aborted]
        self._staged, self._sealed = [], []
        if self.config.durability == "disk":
            # Also what was written while durability was "os": durable-offset speaks for all of it.
            written = {segment.base_offset: segment for segment, _, _ in commit.writes}
            earlier = {base: s for base, s in self._syncing.items() if s in self.segments}
            commit.unsynced = list({**earlier, **self._unsynced, **written}.values())
            commit.open_durable_file = self._open_durable_file
            commit.syncs_durable_file = self.config.syncs_durable_offset
            commit.is_synced = True
            self._unsynced = {}
        return commit

    def _open_durable_file(self) -> File | None:
        if self._durable_file is None:
            path = self.directory / checkpoints.DURABLE_OFFSET
            try:
                self._durable_file = self.files.open(path, create=True)
            except OSError as error:  # without it a recovery reads more, and finds the same
                logger.error("%s cannot be opened: %s", path, error)
        return self._durable_file

    def finish(self, commit: Commit) -> None:
        """The commit is done: readers may see it."""
        if commit.is_synced:
            self.synced_offset = commit.end_offset
        else:
            for segment, _, _ in commit.writes:
                self._unsynced[segment.base_offset] = segment
        # Behind that: a sync in another thread confirms what it finds unsynced, up to this offset.
        self.durable_offset = commit.end_offset
        self.snapshots.settle(commit)
        self.producers.settle(commit.end_offset)
        if commit.writes:
            segment, position, buffers = commit.writes[-1]
            self.durable_end = (segment, position + sum(map(len, buffers)))

    def flush(self) -> None:
        """Stage to durable in one go, for callers without a thread to spare."""
        if (commit := self.take()) is not None:
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
        within: Allowance | None = None,
    ) -> Buffer | None:
        """Batches from the one that holds `offset` on, at most `size_max` bytes; the last may be cut.
        Where nothing is left of the first ones (compaction, excision), from the next one that has a
        record.

        A first batch that is larger comes whole with `at_least_one` (KIP-74), else not at all.
        Nothing at or above `upper` (default: the durable offset). None: the disk would have to be waited
        for, or there is more to look at than is `within` the allowance. Raises OffsetOutOfRange,
        CorruptSegment.
        """
        wanted = ReadRequest(offset, size_max, at_least_one, upper, within)
        return partition_reader.read(self, self.segments, wanted)

    def read_committed(
        self,
        offset: int,
        size_max: int,
        upper: int,
        *,
        at_least_one: bool = True,
        within: Allowance | None = None,
    ) -> tuple[Buffer | None, list[AbortedTransaction]]:
        """The same below the last stable offset (`upper`), with the aborted transactions that have
        records in it. Both are of the same segments, whatever becomes of these meanwhile."""
        wanted = ReadRequest(offset, size_max, at_least_one, upper, within)
        return partition_reader.read_committed(self, self.segments, wanted)

    def find_time(self, timestamp: int, counted: Counted = uncounted) -> Found | None:
        """The first record, in order of offsets, that is at or after `timestamp`."""
        return segment_reader.find_time(self.readable(), timestamp, self.start_offset, counted)

    def find_max_timestamp(self, counted: Counted = uncounted) -> Found | None:
        """The record with the latest timestamp; the first such."""
        readable, start = self.readable(), self.start_offset
        latest = [
            segment_reader.latest_timestamp(segment, end, start, counted)
            for segment, end in readable
        ]
        if not latest or max(latest) < 0:
            return None
        newest = readable[latest.index(max(latest)) :]
        return segment_reader.find_time(newest, max(latest), start, counted)

    def readable(self) -> list[tuple[Segment, int]]:
        """Segments that have something for readers, each with the file position of its end there."""
        segments, limit = self.segments, self.durable_offset
        ends = [(s, partition_reader.readable_end(self, s, limit)) for s in segments]
        return [(s, end) for s, end in ends if end and s.next_offset > self.start_offset]

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
        """Below this no transaction is open. Never before the start, even if one began there whose
        records were deleted: nobody can read from an offset that is not there."""
        durable = self.durable_offset  # once: it moves while another thread reads
        first = self.producers.first_open_offset(durable)
        return durable if first is None else max(min(first, durable), self.start_offset)

    def aborted_between(self, first: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with records among the offsets [first, end)."""
        return partition_reader.aborted(self.segments, first, end)

    def delete_before(self, offset: int) -> int:
        """Move the start; segments that lie wholly before it go with the next retention. Returns where
        it was before."""
        if offset > self.durable_offset or offset < 0:
            raise OffsetOutOfRange(f"offset {offset} is beyond {self.durable_offset}")
        before, self.start_offset = self.start_offset, max(self.start_offset, offset)
        return before

    def put_start_back(self, before: int, moved: int) -> None:
        """The move could not be written down; unless somebody has moved it on, or segments are gone."""
        if self.start_offset == moved:
            self.start_offset = max(before, self.segments[0].base_offset)

    def drop_front(self, count: int) -> list[Segment]:
        """Take the first `count` segments out; the caller removes their files."""
        if count >= len(self.segments):
            raise ValueError("the active segment stays")
        if count and not self.snapshots.reach(self.segments[count].base_offset):
            raise ValueError("their producers would be forgotten")
        dropped, self.segments = self.segments[:count], self.segments[count:]
        self._forget_unsynced(dropped)
        self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        return dropped

    def put_back(self, dropped: list[Segment]) -> None:
        """They could not go: they lie before the start, and go with the next retention."""
        self.segments = [*dropped, *self.segments]

    def exchange(self, segments: list[Segment], gone: Sequence[Segment]) -> None:
        """Have these segments from now on; `gone` are no longer among them."""
        self.segments = segments
        self._forget_unsynced(gone)

    def _forget_unsynced(self, gone: Sequence[Segment]) -> None:
        for segment in gone:
            self._unsynced.pop(segment.base_offset, None)

    # ---- the end -------------------------------------------------------------------------------

    def sync(self) -> None:
        """Bring to disk what was written without waiting for it (durability=os).

        Raises SyncFailed: the log is fenced then, and not to be synced again. OSError: it may be."""
        if self.fenced:
            raise SyncFailed(f"{self.directory} is fenced")
        reached, unsynced = self.durable_offset, self._unsynced
        self._syncing, self._unsynced = unsynced, {}  # what is written from here on comes next time
        try:
            for segment in unsynced.values():
                self._sync(segment)
            if unsynced:
                sync_folder(self.files, self.directory)
        except OSError as error:
            self.fenced = self.fenced or isinstance(error, SyncFailed)
            left = {base: segment for base, segment in unsynced.items() if segment in self.segments}
            self._unsynced = {**left, **self._unsynced}
            raise
        finally:
            self._syncing = {}
        for segment in unsynced.values():  # if there are none, a commit may be about to sync them
            segment.is_new = False
            self.synced_offset = max(self.synced_offset, reached)

    def _sync(self, segment: Segment) -> None:
        try:
            if segment in self.segments:
                sync_file(segment.file)
        except OSError as error:
            gone = segment.is_replaced and isinstance(error, Displaced)  # by one that is on disk
            if segment in self.segments and not gone:
                raise

    def release(self, segments: Sequence[Segment] | None = None) -> None:
        """Give back descriptors and indexes of (these) sealed segments, except where a commit or a sync is
        still to come: an error of writing back is told to those who have the file open."""
        for segment in self.segments if segments is None else segments:
            if segment is not self.active and segment.next_offset < self.durable_offset:
                base = segment.base_offset
                is_on_disk = base not in self._unsynced and base not in self._syncing
                if is_on_disk and not segment.is_replaced:
                    segment.release()

    def close(self) -> None:
        """Flush, and save what makes the next start quick."""
        self.snapshots.is_due = True
        self.flush()
        self.sync()
        self.active.save_indexes(final=True)
        if self.config.durability == "disk" and (file := self._open_durable_file()) is not None:
            file.write(0, [checkpoints.pack_durable_offset(self.durable_offset)])
        self.abandon()

    def forget_staged(self) -> None:
        """It was refused."""
        self._staged, self._sealed, self.snapshots.is_due = [], [], False

    def abandon(self) -> None:
        """Give back the descriptors, saving nothing; what is staged is forgotten."""
        self.forget_staged()
        for segment in self.segments:
            segment.close()
        if self._durable_file is not None:
            self._durable_file.close()
            self._durable_file = None
