"""The data folder: every partition's folder and the few files that speak for all of them.

The broker opens one at start. `meta.properties` says whose folder it is (Kafka's format), `.lock` keeps
a second broker out, `.kafka_cleanshutdown` is there only between a clean stop and the next start, and
tells that no recovery is needed. The checkpoint files are described in `checkpoints`.
"""

from __future__ import annotations

import base64
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.log import checkpoints
from headwater.log.checkpoints import TopicPartition
from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.log.partition import PartitionLog
from headwater.log.recovery import Report, open_partition

logger = logging.getLogger("headwater.log")

CLEAN = ".kafka_cleanshutdown"
META = "meta.properties"
LOCK = ".lock"


def new_id() -> str:
    """An id in Kafka's form: a UUID as 22 characters of URL-safe base64, not starting with '-'."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _all(logs: dict[TopicPartition, PartitionLog]) -> list[tuple[TopicPartition, PartitionLog]]:
    """A copy: topics come and go in other threads."""
    return list(logs.items())


class LogStore:
    """All partition logs below one folder."""

    def __init__(self, files: FileSystem, root: Path, now_ms: Callable[[], int]) -> None:
        self.files = files
        self.root = root
        self.now_ms = now_ms
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.reports: dict[TopicPartition, Report] = {}
        self.cluster_id = ""
        self.directory_id = ""
        self.clean = False
        self._release: Callable[[], None] | None = None
        self._recovery_points: dict[TopicPartition, int] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._cleaned_offsets: dict[TopicPartition, int] = {}
        self._writing = threading.RLock()
        """Held from looking at the logs until the file is written: several threads come here."""
        self._written: dict[str, Mapping[TopicPartition, int]] = {}

    def open(self, node_id: int) -> None:
        """Take the folder: lock it, learn whose it is and how it was left."""
        self.files.make_dir(self.root)
        self._lock()
        self._read_meta(node_id)
        self._recovery_points = self._read(checkpoints.RECOVERY_POINTS)
        self._start_offsets = self._read(checkpoints.START_OFFSETS)
        self._cleaned_offsets = self._read(checkpoints.CLEANED_OFFSETS)
        self.clean = CLEAN in self.files.list(self.root)
        if self.clean:
            self.files.remove(self.root / CLEAN)
            self.files.sync_dir(self.root)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return checkpoints.read_offsets(self.files, self.root / name)

    def _lock(self) -> None:
        try:
            self._release = self.files.lock(self.root / LOCK)
        except BlockingIOError:
            raise HeadwaterError(
                f"{self.root} is in use by another broker.",
                hint="Stop that one, or give this one another folder with --data.",
            ) from None

    def _read_meta(self, node_id: int) -> None:
        text = (self.files.read_bytes(self.root / META) or b"").decode("utf-8", "replace")
        found = dict(
            line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#"
        )
        if found.get("node.id", str(node_id)) != str(node_id):
            raise HeadwaterError(
                f"{self.root} belongs to node {found['node.id']}, not to node {node_id}.",
                hint=f"Start with --set node.id={found['node.id']}, or use another folder.",
            )
        self.cluster_id = found.get("cluster.id") or new_id()
        self.directory_id = found.get("directory.id") or new_id()
        if not found:
            lines = (
                f"cluster.id={self.cluster_id}",
                f"directory.id={self.directory_id}",
                f"node.id={node_id}",
                "version=1",
                "",
            )
            self.files.write_atomic(self.root / META, "\n".join(lines).encode())

    def directory(self, topic: str, partition: int) -> Path:
        return self.root / f"{topic}-{partition}"

    def open_log(
        self, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID | None = None
    ) -> PartitionLog:
        """The log of one partition, recovered if need be, its folder made if it is not there."""
        directory = self.directory(topic, partition)
        key = (topic, partition)
        self._make_folder(directory, topic_id)
        log, report = open_partition(
            self.files,
            directory,
            config,
            self.now_ms(),
            recovery_point=self._recovery_points.get(key, 0),
            start_offset=self._start_offsets.get(key, 0),
            clean=self.clean,
        )
        log.cleaned_offset = self._cleaned_offsets.get(key, 0)
        self.logs[key] = log
        self.reports[key] = report
        return log

    def _make_folder(self, directory: Path, topic_id: uuid.UUID | None) -> None:
        """A folder for this topic; what another one left under the same name goes first."""
        found = checkpoints.read_topic_id(self.files, directory)
        if topic_id is not None and found not in (None, topic_id):
            self._remove_folder(directory)
            found = None
        if topic_id is not None and found is None and self._has_records(directory):
            stray = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}-stray")
            logger.error("%s does not say which topic it is of; moved to %s", directory, stray)
            self.files.rename(directory, stray)
            self.files.sync_dir(self.root)
        if not self.files.list(directory):
            self.files.make_dir(directory)
        if topic_id is not None and found is None:
            checkpoints.write_topic_id(self.files, directory, topic_id)

    def _has_records(self, directory: Path) -> bool:
        return any(
            name.endswith(".log") and self.files.size(directory / name)
            for name in self.files.list(directory)
        )

    def _remove_folder(self, directory: Path) -> None:
        """Out of the way at once, and durably; then its files."""
        doomed = self.root / f"{uuid.uuid4().hex}-delete"
        self.files.rename(directory, doomed)
        self.files.sync_dir(self.root)
        self.files.remove_tree(doomed)

    def reopen_log(self, topic: str, partition: int) -> PartitionLog:
        """Go back to what is durable, as the disk has it: what was refused must not come back.

        Raises OSError, and leaves the log as it was: it can be read, and must not be written to. What
        is behind the last sync (durability=os) is checked, written again and synced.
        """
        old = self.logs[topic, partition]
        self.checkpoint_starts()  # opening removes what lies before the start
        log, _ = open_partition(
            self.files,
            old.directory,
            old.config,
            self.now_ms(),
            recovery_point=old.synced_offset,
            start_offset=old.start_offset,
            cut_at=old.durable_offset,
        )
        log.cleaned_offset = old.cleaned_offset
        self.logs[topic, partition] = log
        return log

    def remove_log(self, topic: str, partition: int) -> None:
        """Delete a partition's folder. May be repeated after a crash."""
        log = self.logs.pop((topic, partition), None)
        if log is not None:
            log.abandon()
        directory = self.directory(topic, partition)
        if self.files.list(directory):
            self._remove_folder(directory)
        for offsets in (self._recovery_points, self._start_offsets, self._cleaned_offsets):
            offsets.pop((topic, partition), None)

    def tidy(self, known: Mapping[TopicPartition, uuid.UUID]) -> list[str]:
        """Remove folders that the catalogue does not know; returns their names."""
        removed = []
        for name in self.files.list(self.root):
            topic, dash, number = name.rpartition("-")
            if name.endswith("-delete"):
                self.files.remove_tree(self.root / name)
                continue
            if not dash or not number.isdigit() or not self.files.list(self.root / name):
                continue
            found = checkpoints.read_topic_id(self.files, self.root / name)
            if found is not None and known.get((topic, int(number))) != found:
                self.files.remove_tree(self.root / name)
                removed.append(name)
        return removed

    # ---- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write down how far every log is; only what has changed."""
        with self._writing:
            self._checkpoint(checkpoints.RECOVERY_POINTS, self._recovery_points_now())
            self.checkpoint_starts()
            self._checkpoint(
                checkpoints.CLEANED_OFFSETS,
                {key: log.cleaned_offset for key, log in _all(self.logs) if log.cleaned_offset},
            )

    def _recovery_points_now(self) -> dict[TopicPartition, int]:
        return {key: log.synced_offset for key, log in _all(self.logs)}

    def checkpoint_starts(self) -> None:
        """DeleteRecords and retention are promises too: they must survive a crash."""
        with self._writing:
            self._checkpoint(
                checkpoints.START_OFFSETS,
                {key: log.start_offset for key, log in _all(self.logs) if log.start_offset},
            )

    def sync_lazy(self) -> None:
        """Flush the logs that do not sync by themselves (durability=os), so that recovery is short.

        Where the disk does not confirm it, the log is fenced; the others are synced all the same, and
        then the first error is raised.
        """
        failed: OSError | None = None
        for _, log in _all(self.logs):
            if log.config.durability != "disk" and not log.fenced:
                try:
                    log.sync()
                except OSError as error:
                    logger.error("%s: not synced: %s", log.directory, error)
                    failed = failed or error
        if failed is not None:
            raise failed

    def _checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self._written.get(name) != offsets:
            checkpoints.write_offsets(self.files, self.root / name, offsets)
            self._written[name] = offsets

    def close(self) -> None:
        """A clean stop: everything flushed, so that the next start need not look."""
        whole = True
        for key, log in list(self.logs.items()):
            try:
                (self.reopen_log(*key) if log.fenced else log).close()
            except OSError as error:
                logger.error("%s: not closed cleanly: %s", log.directory, error)
                whole = False
        with self._writing:
            self._checkpoint(
                checkpoints.RECOVERY_POINTS,
                self._recovery_points_now(),
            )
            self.checkpoint_starts()
        if whole:
            self.files.write_atomic(self.root / CLEAN, b'{"version":0,"brokerEpoch":-1}')
        self.unlock()

    def unlock(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None
