"""How far every log is, kept in the three checkpoint files of the data folder (`checkpoints`).

`store` owns one and shares its dictionary of open logs with it. The files are kept by name, as Kafka's
tools read them, and names come back: so before a new topic's folder gets its id, `forget` must have
removed, durably, what an earlier topic of that name left here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from headwater.log import checkpoints, reserve
from headwater.log.checkpoints import (
    CLEANED_OFFSETS,
    RECOVERY_POINTS,
    START_OFFSETS,
    SmallFiles,
    TopicPartition,
)
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog

logger = logging.getLogger("headwater.log")

FILES = (RECOVERY_POINTS, START_OFFSETS, CLEANED_OFFSETS)
BESIDE = {
    START_OFFSETS: (checkpoints.read_start_offset, checkpoints.write_start_offset),
    CLEANED_OFFSETS: (checkpoints.read_cleaned_offset, checkpoints.write_cleaned_offset),
}
"""What each log also has in a file of its own, with a checksum: how to read and to write it."""
ZEROS_AT_ONCE = 100
"""After so many files that were written beside logs, those of logs that begin at 0 wait for the next time."""


class Progress:
    """Called from several threads."""

    def __init__(
        self, files: FileSystem, root: Path, logs: Mapping[TopicPartition, PartitionLog]
    ) -> None:
        self._files = files
        self._root = root
        self._logs = logs
        self.changing = threading.RLock()
        """Held from looking at the logs until the file is written, and by whoever opens or removes one."""
        self._found: dict[str, dict[TopicPartition, int]] = {name: {} for name in FILES}
        """The files as they were found, less what they no longer speak for."""
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        """The files as they are on disk, where that is known."""

        self._kept: dict[tuple[str, TopicPartition], int | None] = {}
        """What the logs' own files say, as far as that is known; None: there is no such file."""

    def read(self, small: checkpoints.Reads) -> None:
        """At start: what the last one left."""
        reserve.at_start(self._files, self._root)
        for name in FILES:
            found = checkpoints.read_offsets(small, self._root / name)
            self._found[name] = dict(found)
            if found:  # else it may be missing, or damaged
                self._written[name] = found

    def found(self, name: str, key: TopicPartition) -> int:
        """What a file said at start of a log that is about to be opened."""
        return self._found[name].get(key, 0)

    def cleaned_offset(self, key: TopicPartition, log: PartitionLog) -> int:
        """How far a log that was just opened was compacted; 1: it was, and all of it is dirty; 0: never."""
        kept = checkpoints.read_cleaned_offset(SmallFiles(self._files), log.directory)
        if kept is not None:
            return 1 if kept > log.next_offset else kept
        is_there = checkpoints.CLEANED_OFFSET in self._files.list(log.directory)
        return int(is_there or self.found(CLEANED_OFFSETS, key) > 0)

    def known(self) -> set[TopicPartition]:
        """The logs that the files spoke of at start."""
        return {key for found in self._found.values() for key in found}

    def write(self, *names: str, of: Collection[TopicPartition] | None = None) -> None:
        """Bring these files up to date, where they are not; before them what is kept beside the logs. What
        could not be written beside its log is in none of them; OSError is raised for it if the log is one
        of these (None: any). Where logs begin is written with the disk's last bytes: so files may go."""
        if names == (START_OFFSETS,):
            reserve.spend(self._files, self._root, lambda: self._write(names, of))
        else:
            self._write(names, of)

    def _write(self, names: Iterable[str], of: Collection[TopicPartition] | None) -> None:
        failed: dict[TopicPartition, OSError] = {}
        with self.changing:
            for name in names:
                refused = self._keep_all(name) if name in BESIDE else {}
                failed |= refused
                offsets = self._offsets(name)
                self._leave_as_they_were(name, offsets, refused)
                if self._written.get(name) != offsets:
                    self._written.pop(name, None)  # should it fail, nobody knows what the disk has
                    checkpoints.write_offsets(self._files, self._root / name, offsets)
                    self._written[name] = offsets
        for key, error in failed.items():
            if of is None or key in of:
                raise error

    def _keep_all(self, name: str) -> dict[TopicPartition, OSError]:
        """Of every log; one that cannot be written keeps none of the others from it."""
        failed: dict[TopicPartition, OSError] = {}
        made = 0
        for key, log in tuple(self._logs.items()):
            try:
                made += self._keep(name, key, log, may_be_zero=made < ZEROS_AT_ONCE)
            except OSError as error:
                failed[key] = error
        return failed

    def _leave_as_they_were(
        self, name: str, offsets: dict[TopicPartition, int], keys: Collection[TopicPartition]
    ) -> None:
        """With these logs as the file had them, which counts where a log has no file of its own."""
        before = self._found[name] | dict(self._written.get(name, {}))
        for key in keys:
            offsets.pop(key, None)
            if key in before:
                offsets[key] = before[key]

    def _keep(
        self, name: str, key: TopicPartition, log: PartitionLog, *, may_be_zero: bool
    ) -> bool:
        """Beside the log, unless it is known to be there; whether it was written. Raises OSError.

        Also the start of a log with records that begins at 0, if there is time for it: without a file of its
        own it would be begun where a damaged line of the other, meant for another log, says."""
        offset, read, write = self._offset(name, log), *BESIDE[name]
        if (name, key) in self._kept:
            kept = self._kept.pop(
                (name, key)
            )  # should writing fail, nobody knows what the disk has
        else:
            kept = read(SmallFiles(self._files), log.directory)
        is_wanted = name == START_OFFSETS and may_be_zero and log.durable_offset > 0
        is_due = offset != (kept or 0) or (kept is None and is_wanted)
        if is_due:
            write(self._files, log.directory, offset)
            kept = offset
        self._kept[name, key] = kept
        return is_due

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        # Logs that are not open yet keep what was found.
        offsets = {key: each for key, each in self._found[name].items() if key not in self._logs}
        for key, log in tuple(self._logs.items()):
            offset = self._offset(name, log)
            if offset or name == RECOVERY_POINTS:
                offsets[key] = offset
        return offsets

    def _offset(self, name: str, log: PartitionLog) -> int:
        """What one of the files has to say of a log."""
        if name == START_OFFSETS:
            return log.start_offset
        if name == CLEANED_OFFSETS:
            return log.cleaned_offset
        return log.synced_offset

    def sync_lazy(self) -> None:
        """Flush what was written without a sync (durability=os), so that recovery is short; also of logs
        that have changed to durability=disk since, and may never be written to again.

        Where the disk does not confirm it, the log is fenced; the others are synced all the same, and
        then the first error is raised.
        """
        failed: OSError | None = None
        for key, log in tuple(self._logs.items()):
            if log.synced_offset < log.durable_offset and not log.fenced:
                try:
                    log.sync()
                except OSError as error:
                    if self._logs.get(key) is not log:
                        continue  # deleted meanwhile
                    logger.error("%s: not synced: %s", log.directory, error)
                    failed = failed or error
        if failed is not None:
            raise failed

    def drop(self, key: TopicPartition) -> None:
        """What was known of a log speaks for nobody any more."""
        with self.changing:
            for name in BESIDE:
                self._kept.pop((name, key), None)
            for found in self._found.values():
                found.pop(key, None)

    def forget(self, key: TopicPartition) -> None:
        """The same, durably: the next log of this name begins with no checkpoint."""
        with self.changing:
            self.drop(key)
            names = (name for name in FILES if key in self._written.get(name, (key,)))
            self.write(*names, of=())
