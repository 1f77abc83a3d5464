"""The data folder: every partition's folder and the few files that speak for all of them.

The broker opens one at start. `meta.properties` says whose folder it is (Kafka's format), `.lock` keeps
a second broker out, `.kafka_cleanshutdown` is there only between a clean stop and the next start, and
tells that no recovery is needed. The checkpoint files are kept by `progress`.

    NAME-0                  a partition's folder; partition.metadata in it says of which topic (by id)
    NAME-0.HEX32-delete     of a topic that was deleted: renamed once the catalogue said so, soon gone
    NAME-0.HEX32-stray      set aside: nobody knows whose it is; never deleted by the broker

- A folder that is in use (its log is open, or it is the catalogue's) must never be renamed or removed.
- A folder under a known name is its topic's, unless its file names another id, and not one misread.
- A folder must only be removed if its topic is known to have been deleted; else it is set aside.
- Before a folder gets its topic's id, the checkpoints must have forgotten an earlier topic of that name.
"""

from __future__ import annotations

import errno
import logging
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.log import checkpoints, progress, replay
from headwater.log.checkpoints import SmallFiles, TopicPartition, is_about_the_file
from headwater.log.commit import StorageFailed
from headwater.log.config import LogConfig
from headwater.log.files import FileSystem
from headwater.log.meta import Meta
from headwater.log.partition import PartitionLog
from headwater.log.producers import Census
from headwater.log.progress import Progress
from headwater.log.recovery import Report, open_partition
from headwater.log.replay import Batch, Damage

logger = logging.getLogger("headwater.log")

CLEAN = ".kafka_cleanshutdown"
LOCK = ".lock"
DAMAGE_MAX = 1000
_NAME_MAX = 255
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""The disk as a whole is to be mended first."""
_DELETED = re.compile(r"(.*\.)?[0-9a-f]{32}-delete")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_SEGMENT = re.compile(r"[0-9]{20}\.log")


class FolderInUse(StorageFailed):
    """Something wanted to rename or remove a folder that is in use: refused."""


def _partition_named(name: str) -> TopicPartition | None:
    """The partition that a folder of this name would be of."""
    topic, _, number = name.rpartition("-")
    return (topic, int(number)) if topic and _NUMBER.fullmatch(number) else None


class LogStore:
    """All partition logs below one folder."""

    def __init__(self, files: FileSystem, root: Path, now_ms: Callable[[], int]) -> None:
        self.files = files
        self.root = root
        self.now_ms = now_ms
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.reports: dict[TopicPartition, Report] = {}
        self.offline: set[TopicPartition] = set()
        """Logs that could not be opened at start."""
        self.set_aside: list[Path] = []
        """Folders that this start has set aside, under their new names."""
        self.damage: list[Damage] = []
        """What could not be read when state was rebuilt from the logs."""
        self.on_damage: Callable[[str, str], None] = lambda where, sentence: None
        self.on_set_aside: Callable[[str, str], None] = lambda folder, why: None
        """Told at once, for whoever shows how the broker is."""
        self.deleted: Collection[uuid.UUID] = ()
        """Topics that are known to have been deleted: their folders may go."""
        self.census = Census()
        self.cluster_id = ""
        self.directory_id = ""
        self.clean = False
        self._release: Callable[[], None] | None = None
        self._progress = Progress(files, root, self.logs)

    def count_producers(self) -> None:
        """What logs that came and went have left of the count is put right."""
        self.census.count = sum(len(log.producers.by_id) for log in list(self.logs.values()))

    def open(self, node_id: int) -> None:
        """Take the folder: lock it, learn whose it is and how it was left."""
        self.files.make_dir(self.root)
        self._lock()
        self.meta = Meta(self.files, self.root, node_id)
        self.cluster_id, self.directory_id = self.meta.cluster_id, self.meta.directory_id
        small = SmallFiles(self.files)
        self._progress.read(small)
        self._tell_unreadable(small.unreadable)
        self.clean = CLEAN in self.files.list(self.root)

    def begin(self) -> None:
        """The catalogue is sound, and the start goes on: from here on the folder is as a crash would
        leave it. To be called before anything is written to a log."""
        if self.clean:
            self.files.remove(self.root / CLEAN)
            self.files.sync_dir(self.root)

    def _lock(self) -> None:
        try:
            self._release = self.files.lock(self.root / LOCK)
        except BlockingIOError:
            raise HeadwaterError(
                f"{self.root} is in use by another broker.",
                hint="Stop that one, or give this one another folder with --data.",
            ) from None

    # ---- folders -------------------------------------------------------------------------------

    def directory(self, topic: str, partition: int) -> Path:
        return self.root / f"{topic}-{partition}"

    def open_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        topic_id: uuid.UUID | None = None,
        *,
        is_new: bool = True,
    ) -> PartitionLog:
        """The log of one partition, recovered if need be, its folder made if it is not there.

        `is_new`: the topic is being made, so that a folder which does not say whose it is is not its own.
        """
        directory = self.directory(topic, partition)
        key = (topic, partition)
        self._refuse_in_use(directory)
        self._make_folder(directory, key, topic_id, is_new)
        log, report = open_partition(
            self.files,
            directory,
            config,
            self.now_ms(),
            recovery_point=self._progress.found(checkpoints.RECOVERY_POINTS, key),
            start_offset=self._progress.found(checkpoints.START_OFFSETS, key),
            clean=self.clean,
        )
        log.cleaned_offset = self._progress.cleaned_offset(key, log)
        self.census.count += len(log.producers.by_id)
        log.producers.census = self.census
        with self._progress.changing:
            self.logs[key] = log
        self.reports[key] = report
        self._tell_unreadable(report.unreadable)
        if report.missing:
            self.on_damage(directory.name, report.sentence(directory))
        return log

    def open_found(
        self, topic: str, partition: int, config: LogConfig, topic_id: uuid.UUID, whole: bool
    ) -> str | None:
        """At start: open the log, or say why it stays offline. Nothing of it is changed then, and what
        the checkpoints say of it stays; it is tried again at the next start.

        `whole`: to half of what it says nobody may listen, so all of it must be readable."""
        try:
            log = self.open_log(topic, partition, config, topic_id, is_new=False)
            if whole:
                replay.read_through(log)
            return None
        except OSError as error:
            if not is_about_the_file(error) or error.errno in _NO_ROOM:
                raise
            name = f"{topic}-{partition}"
            what = error.filename or self.directory(topic, partition)
            why = (
                f"{name} is offline, its records are neither read nor written: {what} could not be read "
                f"({error.strerror or error}). Repair the disk or the file and start again; "
                f"`headwater check {self.root}` says what is wrong."
            )
        self.offline.add((topic, partition))
        if found := self.logs.pop((topic, partition), None):
            found.abandon()
        logger.error("%s", why)
        self.on_damage(name, why)
        return why

    def _tell_unreadable(self, found: Mapping[Path, str]) -> None:
        for path, why in found.items():
            says = f"{path} could not be read ({why}); the broker does without, and recreates it"
            self.on_damage(str(path.relative_to(self.root)), says)

    def recovery_point(self, topic: str, partition: int) -> int:
        """How far a log that is not open yet is known to have been on disk."""
        return self._progress.found(checkpoints.RECOVERY_POINTS, (topic, partition))

    @property
    def was_used(self) -> bool:
        """Whether logs were kept here before this start, as far as this folder tells."""
        return bool(self.partitions() or self._progress.known())

    def _make_folder(
        self, directory: Path, key: TopicPartition, topic_id: uuid.UUID | None, is_new: bool
    ) -> None:
        """A folder for this topic; what another one left under the same name goes first."""
        found = self._topic_id(directory, topic_id)
        if topic_id is None or found == topic_id:
            if not self.files.list(directory):
                self.files.make_dir(directory)
            return
        has_records = self._has_records(directory)
        if found is None and has_records and not is_new:
            logger.error("%s did not say which topic it is of; it does now", directory)
            checkpoints.write_topic_id(self.files, directory, topic_id)
            return
        if found is not None or has_records:
            self._clear(directory, found)
        if not self.files.list(directory):
            self.files.make_dir(directory)
        if is_new:  # else they are of this very topic, and its offsets must not be given out again
            self._progress.forget(key)
        checkpoints.write_topic_id(self.files, directory, topic_id)

    def _topic_id(self, directory: Path, wanted: uuid.UUID | None) -> uuid.UUID | None:
        """Whose a folder says it is; None if it does not say, or if its file is damaged."""
        small = SmallFiles(self.files)
        found = checkpoints.read_topic_id(small, directory)
        self._tell_unreadable(small.unreadable)
        if found is None or wanted is None or found == wanted or found in self.deleted:
            return found
        return None if checkpoints.is_misread(found, wanted) else found

    def _clear(self, directory: Path, found: uuid.UUID | None) -> None:
        """Get a folder out of the way: removed if its topic was deleted, else set aside."""
        if found is not None and found in self.deleted:
            self._remove_folder(directory)
        else:
            self._set_aside(directory)

    def _refuse_in_use(self, directory: Path) -> None:
        if _partition_named(directory.name) in self.logs:
            raise FolderInUse(f"{directory} is in use and stays as it is")

    def _has_records(self, directory: Path) -> bool:
        return any(
            name.endswith(".log") and self.files.size(directory / name)
            for name in self.files.list(directory)
        )

    def _remove_folder(self, directory: Path) -> None:
        """Out of the way at once, and durably; then its files."""
        self.files.remove_tree(self._rename(directory, "delete"))

    def _set_aside(self, directory: Path) -> None:
        stray = self._rename(directory, "stray")
        self.set_aside.append(stray)
        why = (
            f"{directory} is of a topic that the catalogue does not know; it is kept as {stray.name}, "
            f"and not served. `headwater check {self.root}` says what is in it."
        )
        logger.error("%s", why)
        self.on_set_aside(stray.name, why)

    def _rename(self, directory: Path, why: str) -> Path:
        """Kafka's way of naming a folder that is no partition any more."""
        self._refuse_in_use(directory)
        suffix = f".{uuid.uuid4().hex}-{why}"
        new = directory.with_name(directory.name[: _NAME_MAX - len(suffix)] + suffix)
        self.files.rename(directory, new)
        self.files.sync_dir(self.root)
        return new

    def reopen_log(self, topic: str, partition: int) -> PartitionLog:
        """Go back to what is durable, as the disk has it: what was refused must not come back.

        Raises OSError, and leaves the log as it was: it can be read, and must not be written to. What
        is behind the last sync (durability=os) is checked, written again and synced.
        """
        old = self.logs[topic, partition]
        self.checkpoint_starts([(topic, partition)])  # opening removes what lies before the start
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
        log.producers.census = self.census
        self.logs[topic, partition] = log
        return log

    def remove_log(self, topic: str, partition: int) -> None:
        """Delete a partition's folder. May be repeated after a crash.

        The catalogue must have said, durably, that the topic is gone.
        """
        with self._progress.changing:
            log = self.logs.pop((topic, partition), None)
            self._progress.drop((topic, partition))
            self.offline.discard((topic, partition))
        if log is not None:
            log.abandon()
        directory = self.directory(topic, partition)
        if self.files.list(directory):
            self._remove_folder(directory)

    def tidy(self, known: Mapping[TopicPartition, uuid.UUID]) -> None:
        """At start, before any topic is opened: what is of a deleted topic goes; what the catalogue
        does not know is set aside and listed in `set_aside`. What is no partition is left alone."""
        for name in self.files.list(self.root):
            try:
                self._tidy_one(name, known)
            except OSError as error:
                if not is_about_the_file(error):
                    raise
                logger.error("%s stays as it is: %s", self.root / name, error)
        for key in self._progress.known():
            if key not in known and key not in self.logs:
                self._progress.drop(key)

    def _tidy_one(self, name: str, known: Mapping[TopicPartition, uuid.UUID]) -> None:
        if _DELETED.fullmatch(name):
            self.files.remove_tree(self.root / name)
            return
        key = self._partition_of(name)
        if key is not None and key not in self.logs:
            found = self._topic_id(self.root / name, known.get(key))
            if found is None or known.get(key) != found:
                self._tidy(self.root / name, found, key in known)

    def _tidy(self, directory: Path, found: uuid.UUID | None, is_wanted: bool) -> None:
        if found is None and (is_wanted or not self._has_records(directory)):
            return  # half made, or nobody's: `open_log` finishes the one, the other is no harm
        if not self._has_records(directory):
            self._remove_folder(directory)  # made for a change that the catalogue never got
        else:
            self._clear(directory, found)

    def _partition_of(self, name: str) -> TopicPartition | None:
        """The partition whose folder this is, if it looks like one."""
        key = _partition_named(name)
        try:
            inside = self.files.list(self.root / name) if key else []
        except NotADirectoryError:
            return None
        except OSError:
            return key  # nobody can look into it
        if checkpoints.PARTITION_METADATA in inside or any(map(_SEGMENT.fullmatch, inside)):
            return key
        return None

    def has_records(self, topic: str, partition: int) -> bool:
        return self._has_records(self.directory(topic, partition))

    def partitions(self) -> list[TopicPartition]:
        """Those whose folders are here, whoever may know them."""
        found = (self._partition_of(name) for name in self.files.list(self.root))
        return [key for key in found if key is not None]

    # ---- reading through -----------------------------------------------------------------------

    def replay(self, log: PartitionLog, offset: int, meaning: str) -> Iterator[Batch]:
        """Every durable batch of a log from this offset on. What cannot be read is copied to a file
        beside the segments, logged with what it means, and listed in `damage`; the rest comes."""
        return replay.read(log, offset, lambda found: self._keep_damage(found, meaning))

    def _keep_damage(self, found: Damage, meaning: str) -> None:
        if found in self.damage or len(self.damage) >= DAMAGE_MAX:
            return
        self.damage.append(found)
        copy = replay.copied(self.files, found)
        sentence = f"{found}; {meaning}"
        logger.error(
            "%s. The file stays as it is; these bytes are also in %s.", sentence, copy.name
        )
        self.on_damage(f"{found.path.parent.name}/{found.first_offset}", sentence)

    # ---- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self, of: Collection[TopicPartition] | None = None) -> None:
        """Write down how far every log is; only what has changed. `of`: see `Progress.write`."""
        self._progress.write(*progress.FILES, of=of)

    def checkpoint_starts(self, of: Collection[TopicPartition] | None = None) -> None:
        """DeleteRecords and retention are promises too: they must survive a crash."""
        self._progress.write(checkpoints.START_OFFSETS, of=of)

    def sync_lazy(self) -> None:
        """Flush the logs that do not sync by themselves (durability=os), so that recovery is short."""
        self._progress.sync_lazy()

    def close(self, each: Callable[..., Iterator[bool]] = map) -> bool:
        """A clean stop, by `each`, the `map` of some threads: the next start need not look. False if not."""
        closed = list(each(self._close_log, list(self.logs)))
        whole = all(closed) and not self.offline  # nobody knows how those were left
        try:
            self.checkpoint()
            if whole:
                self.files.write_atomic(self.root / CLEAN, b'{"version":0,"brokerEpoch":-1}')
        except OSError as error:
            logger.error("%s: not closed cleanly, the next start looks: %s", self.root, error)
            return False
        finally:
            self.unlock()
        return whole

    def _close_log(self, key: TopicPartition) -> bool:
        if (log := self.logs.get(key)) is None:
            return True  # its topic was deleted meanwhile
        try:
            (self.reopen_log(*key) if log.fenced else log).close()
        except OSError as error:
            logger.error("%s: not closed cleanly: %s", log.directory, error)
            return False
        return True

    def unlock(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None
