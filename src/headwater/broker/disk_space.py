"""Room on the disk: watched every second, and at once when a write finds none.

Below `log.min.free.bytes` new records of clients and new topics are refused with KAFKA_STORAGE_ERROR and
a sentence; the room that is left is for what ends things and makes room: offset commits, ends of
transactions, compaction, deletions. With nothing left at all files can still go (`log.reserve`). Reading goes
on. Records are taken again when there is a tenth more than the limit, so that it does not flicker.

`decide` is pure; housekeeping calls `watch`, handlers ask `refusing`, `health` is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from kio.schema.errors import ErrorCode

from headwater.broker.settings import Settings, Source
from headwater.broker.supervisor import Supervisor
from headwater.broker.topic_admission import TopicError
from headwater.log import reserve
from headwater.log.files import FileSystem, Space

logger = logging.getLogger("headwater.broker")

SETTING = "log.min.free.bytes"
PART_OF_DISK = 20
"""The default is at most this part of the disk: a small one is of use, too."""
MARGIN = 10
_MEBIBYTE = 1024 * 1024


def decide(space: Space, wanted_bytes: int, refusing: bool, *, chosen: bool) -> tuple[int, bool]:
    """(the limit, whether records are to be refused). What somebody has chosen counts as it is."""
    limit = max(wanted_bytes, 0)
    if not chosen:
        limit = min(limit, space.total // PART_OF_DISK)
    return limit, space.free < (limit + limit // MARGIN if refusing else limit)


class DiskSpace:
    """What is free where the data folder is, and whether that is enough."""

    def __init__(
        self,
        files: FileSystem,
        root: Path,
        settings: Settings,
        supervisor: Supervisor,
        now_ms: Callable[[], int],
    ) -> None:
        self.free_bytes = self.total_bytes = self.limit_bytes = 0
        self.refusing = False
        self.refusing_since_ms: int | None = None
        self._files = files
        self._root = root
        self._settings = settings
        self._supervisor = supervisor
        self._now_ms = now_ms
        self._is_looking = False

    def look(self) -> None:
        """Now, in this thread: at start."""
        self._apply(self._files.space(self._root))

    async def watch(self, executor: Executor) -> None:
        loop = asyncio.get_running_loop()
        self._apply(await loop.run_in_executor(executor, self._measured))

    def _measured(self) -> Space:
        space = self._files.space(self._root)
        reserve.lay_by(self._files, self._root, space)
        return space

    def write_failed(self, error: BaseException, executor: Executor) -> None:
        """If it was for want of room, look at once."""
        if getattr(error, "errno", None) not in reserve.FULL or self._is_looking:
            return

        def looked(_: asyncio.Task[None]) -> None:
            self._is_looking = False

        self._is_looking = True
        self._supervisor.spawn("disk space", self.watch(executor), looked)

    def _apply(self, space: Space) -> None:
        self.free_bytes, self.total_bytes = space
        wanted = self._settings.get(SETTING)
        chosen = self._settings.source(SETTING) is not Source.DEFAULT
        self.limit_bytes, refusing = decide(space, wanted, self.refusing, chosen=chosen)
        if refusing and not self.refusing:
            self.refusing_since_ms = self._now_ms()
            self.refusing = True
            logger.error("%s", self.sentence())
        elif self.refusing and not refusing:
            self.refusing, self.refusing_since_ms = False, None
            logger.warning(
                "%s: %s are free again; records are taken", self._root, _size(self.free_bytes)
            )
        self._supervisor.health.disk_space(self.free_bytes, self.limit_bytes, self.refusing)

    def sentence(self) -> str:
        """Why records are refused, and what to do."""
        return (
            f"the disk of {self._root} has {_size(self.free_bytes)} left, less than "
            f"{_size(self.limit_bytes)} ({SETTING}): no new records are taken until there is room; "
            f"free some, delete topics or records, or shorten retention"
        )

    def check_topic(self) -> None:
        """Raises TopicError while there is no room for a new topic or partition."""
        if self.refusing:
            raise TopicError(ErrorCode.kafka_storage_error, self.sentence())


def _size(count: int) -> str:
    return f"{count / _MEBIBYTE:,.0f} MiB"
