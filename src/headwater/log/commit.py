"""A group commit: what was staged together becomes durable together. Made by `PartitionLog.take`.

`run` is disk work only and may be called in any thread, once. The order matters: data is synced before
`durable-offset` says so, and the indexes of a segment that is now complete are synced before that too,
because nothing below the durable offset is looked through again after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log import checkpoints
from headwater.log.aborted_transactions import TxnIndexes
from headwater.log.confirmation import (
    Displaced,
    StorageFailed,
    SyncFailed,
    sync_file,
    sync_folder,
)
from headwater.log.files import File, FileSystem
from headwater.log.segment import Segment, file_name
from headwater.record.varint import Buffer

logger = logging.getLogger("headwater.log")

SAVE_INDEX_BYTES = 4 * 1024 * 1024
"""How far the saved indexes of the active segment may be behind."""
SNAPSHOTS_KEPT = 2

__all__ = ["Commit", "StorageFailed", "SyncFailed", "Write", "merged"]

Write = tuple[Segment, int, list[Buffer]]


@dataclass(slots=True)
class Commit:
    """Writes that become durable together."""

    files: FileSystem
    directory: Path
    end_offset: int
    txn_indexes: TxnIndexes
    writes: list[Write] = field(default_factory=list)
    sealed: list[Segment] = field(default_factory=list)
    snapshots: list[tuple[int, bytes]] = field(default_factory=list)
    older_snapshots: list[int] = field(default_factory=list)
    """Of what is on disk already, by their offsets; all but the newest go."""
    has_saved_snapshots: bool = False
    aborting: list[Segment] = field(default_factory=list)
    """Segments whose list of aborted transactions must be saved before the snapshots."""
    unsynced: list[Segment] = field(default_factory=list)
    """Segments to sync; none with durability=os."""
    open_durable_file: Callable[[], File | None] | None = None
    """The first commit of a partition makes it: disk work, like the rest."""
    syncs_durable_file: bool = False
    is_synced: bool = False
    """Once it has run, everything before its end is on disk."""

    def run(self) -> None:
        """Write and sync. After an exception nothing of it may be taken as stored.

        Raises OSError, and SyncFailed: then nobody knows what is on disk.
        """
        for segment, position, buffers in self.writes:
            segment.file.write(position, buffers)
        if self.unsynced:
            self._sync()
        self._save()

    def _sync(self) -> None:
        written = [segment for segment, _, _ in self.writes]
        for segment in self.unsynced:
            try:
                sync_file(segment.file)
            except Displaced:
                if segment in written:
                    raise  # else nobody waits for it, and retention or compaction may have had it
        if any(segment.is_new for segment in self.unsynced):
            sync_folder(self.files, self.directory)
        for segment in self.unsynced:
            segment.is_new = False

    def _save(self) -> None:
        """What can be found again from the records: if it fails, they are stored all the same."""
        try:
            for segment in self.sealed:
                segment.save_indexes(final=True)
            if self.writes:
                last = self.writes[-1][0]
                if last.size - last.saved_at >= SAVE_INDEX_BYTES:
                    last.save_indexes()
        except OSError as error:
            logger.error("%s: an index was not saved: %s", self.directory, error)
            self._forget_indexes()
        try:
            if self.snapshots:
                self.txn_indexes.save(self.aborting)
            for offset, data in self.snapshots:
                self.files.write_atomic(self.directory / file_name(offset, ".snapshot"), data)
            if self.snapshots:
                self.has_saved_snapshots = True
                for offset in self.older_snapshots[: 1 - SNAPSHOTS_KEPT]:
                    self.files.remove(self.directory / file_name(offset, ".snapshot"))
            if (
                self.open_durable_file is not None
                and (file := self.open_durable_file()) is not None
            ):
                file.write(0, [checkpoints.pack_durable_offset(self.end_offset)])
                if self.syncs_durable_file:
                    file.sync()
                    self.files.sync_dir(self.directory)
        except OSError as error:
            logger.error("%s: snapshot or position not saved: %s", self.directory, error)

    def _forget_indexes(self) -> None:
        try:
            for segment in self.sealed:
                segment.forget_saved_indexes()
            self.files.sync_dir(self.directory)
        except OSError as error:
            logger.error("%s: stale indexes could not be removed: %s", self.directory, error)

    @property
    def is_quick(self) -> bool:
        """Only a copy into the page cache, without a sync of anything."""
        if self.unsynced or self.sealed or self.snapshots:
            return False
        last = self.writes[-1][0] if self.writes else None
        return last is None or last.size - last.saved_at < SAVE_INDEX_BYTES

    def size(self) -> int:
        return sum(len(b) for _, _, buffers in self.writes for b in buffers)


def merged(staged: Iterable[Write]) -> list[Write]:
    """Batches that lie one after the other in a file become one write."""
    out: list[Write] = []
    for segment, position, buffers in staged:
        if out and out[-1][0] is segment:
            out[-1][2].extend(buffers)
        else:
            out.append((segment, position, buffers))
    return out
