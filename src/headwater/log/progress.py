"""How far every log is, kept in the three checkpoint files of the data folder (`checkpoints`).

`store` owns one and shares its dictionary of open logs with it. The files are kept by name, as Kafka's
tools read them, and names come back: so before a new topic's folder gets its id, `forget` must have
removed, durably, what an earlier topic of that name left here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from headwater.log import checkpoints
from headwater.log.checkpoints import (
    CLEANED_OFFSETS,
    RECOVERY_POINTS,
    START_OFFSETS,
    TopicPartition,
)
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog

logger = logging.getLogger("headwater.log")

FILES = (RECOVERY_POINTS, START_OFFSETS, CLEANED_OFFSETS)


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

    def read(self, small: checkpoints.Reads) -> None:
        """At start: what the last one left."""
        for name in FILES:
            found = checkpoints.read_offsets(small, self._root / name)
            self._found[name] = dict(found)
            if found:  # else it may be missing, or damaged
                self._written[name] = found

    def found(self, name: str, key: TopicPartition) -> int:
        """What a file said at start of a log that is about to be opened."""
        return self._found[name].get(key, 0)

    def known(self) -> set[TopicPartition]:
        """The logs that the files spoke of at start."""
        return {key for found in self._found.values() for key in found}

    def write(self, *names: str) -> None:
        """Bring these files up to date; only those that are not."""
        with self.changing:
            for name in names:
                offsets = self._offsets(name)
                if self._written.get(name) != offsets:
                    self._written.pop(name, None)  # should it fail, nobody knows what the disk has
                    checkpoints.write_offsets(self._files, self._root / name, offsets)
                    self._written[name] = offsets

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        # Logs that are not open yet keep what was found.
        offsets = {key: each for key, each in self._found[name].items() if key not in self._logs}
        for key, log in tuple(self._logs.items()):
            offset = self._offset(name, key, log)
            if offset or name == RECOVERY_POINTS:
                offsets[key] = offset
        return offsets

    def _offset(self, name: str, key: TopicPartition, log: PartitionLog) -> int:
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
        for log in tuple(self._logs.values()):
            if log.synced_offset < log.durable_offset and not log.fenced:
                try:
                    log.sync()
                except OSError as error:
                    logger.error("%s: not synced: %s", log.directory, error)
                    failed = failed or error
        if failed is not None:
            raise failed

    def drop(self, key: TopicPartition) -> None:
        """What was known of a log speaks for nobody any more."""
        with self.changing:
            for found in self._found.values():
                found.pop(key, None)

    def forget(self, key: TopicPartition) -> None:
        """The same, durably: the next log of this name begins with no checkpoint."""
        with self.changing:
            self.drop(key)
            self.write(*(name for name in FILES if key in self._written.get(name, (key,))))
