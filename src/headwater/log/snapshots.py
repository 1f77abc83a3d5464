"""Snapshots of what a log knows of its producers: which are on disk, and when the next is due.

`partition` owns one of these, `commit` writes what it gives, `recovery` reads the files again.

- A segment must only be dropped if a snapshot on disk lies at or behind its end: else a start would not know
  the producers that wrote in it, and would store again what they repeat.
- One that could not be saved is due again with the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headwater.log.checkpoints import SmallFiles
from headwater.log.commit import SNAPSHOTS_KEPT, Commit
from headwater.log.confirmation import sync_folder
from headwater.log.files import FileSystem
from headwater.log.producers import Producers
from headwater.log.segment import offset_named

SNAPSHOT_BYTES = 64 * 1024 * 1024

Snapshot = tuple[int, Producers]
"""What was known of the producers at an offset."""


class Snapshots:
    """Those of one log."""

    def __init__(self, on_disk: Iterable[int] = ()) -> None:
        self.on_disk = sorted(on_disk)
        """The offsets at which they were taken."""
        self.is_due = False
        self._since = 0

    def reach(self, offset: int) -> bool:
        """Whether what lies before this offset may go."""
        return any(taken_at >= offset for taken_at in self.on_disk)

    def note_staged(self, size: int) -> None:
        self._since += size
        if self._since >= SNAPSHOT_BYTES:
            self.is_due = True

    def give(self, commit: Commit, producers: Producers) -> bool:
        """To be written with this commit, if one is due: one, however often it rolls, and of its end, since
        what is removed in front leaves it."""
        if not self.is_due:
            return False
        self.is_due, self._since = False, 0
        commit.snapshots = [(commit.end_offset, producers.to_bytes())]
        commit.older_snapshots = [each for each in self.on_disk if each < commit.end_offset]
        return True

    def settle(self, commit: Commit) -> None:
        """The commit is done."""
        if commit.has_saved_snapshots:
            self.on_disk = [*commit.older_snapshots[1 - SNAPSHOTS_KEPT :], commit.end_offset]
        elif commit.snapshots:
            self._since = SNAPSHOT_BYTES


def find(files: FileSystem, small: SmallFiles, directory: Path, end: int) -> list[Snapshot]:
    """Newest first. Those that are damaged or beyond the end are removed."""
    fitting: list[Snapshot] = []
    for name in reversed([n for n in files.list(directory) if n.endswith(".snapshot")]):
        taken_at = offset_named(name, ".snapshot")
        found = Producers.from_bytes(small.read_bytes(directory / name) or b"")
        if found is None or taken_at is None or taken_at > end:
            files.remove(directory / name)
            sync_folder(files, directory)  # it must not come back once the log is longer than that
        else:
            fitting.append((taken_at, found))
    return fitting
