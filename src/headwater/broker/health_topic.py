"""`__headwater_health`: how the broker is, for everybody else; compacted, one record per subject.

A supervised task writes what has changed, at most once a second, and one record at each start. So
`headwater status`, the console and the edges' /metrics read it like any client, from anywhere. Key: the
subject (`task/cleaner`, `loop`, `disk`), value: JSON, null when there is nothing to tell any more.
It must never harm the broker: where the disk refuses, it is left out. (A disk on which new records are
refused still has room for this: that is when it matters.)
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from headwater.broker import internal_topics
from headwater.broker.clock import Clock
from headwater.broker.internal_topic import Entry, InternalTopic
from headwater.broker.supervisor import Supervisor
from headwater.broker.topics import Topics
from headwater.log.partition import StorageFailed

logger = logging.getLogger("headwater.broker")

NAME = internal_topics.HEALTH
EVERY_S = 1.0
SILENT_S = 10.0
"""After a write that was refused."""
DISK_EVERY_MS = 30_000
"""Free bytes change all the time; whether records are refused, and below what, is told at once."""
_AT_ONCE = ("refusing", "limit_bytes")
BATCH_BYTES_MAX = 512 * 1024

Subjects = dict[str, dict[str, Any]]


class HealthTopic:
    """Follows the supervisor's `health`."""

    def __init__(self, topics: Topics, clock: Clock, supervisor: Supervisor) -> None:
        self._topic = InternalTopic(NAME, topics, clock.now_ms)
        self._clock = clock
        self._supervisor = supervisor
        self._told: Subjects = {}
        self._disk_ms = -DISK_EVERY_MS
        self._read = False
        self._silent_until = 0.0

    def start(self) -> None:
        # At once where it is there: what an earlier start has told would be taken for ours.
        at_once = self._topic.is_there
        self._task = self._supervisor.every(
            "health", lambda: EVERY_S, lambda: self.tell(), at_once=at_once
        )

    async def stop(self) -> None:
        await self._supervisor.end(self._task)

    async def tell(self) -> None:
        """Write down what is not there yet."""
        if asyncio.get_running_loop().time() < self._silent_until:
            return
        try:
            await self._tell()
        except (StorageFailed, OSError) as error:
            self._refused(error)

    def _refused(self, error: Exception | None) -> None:
        """The disk has no room, or worse: leave it alone for a while, then tell everything anew."""
        if error is not None:
            logger.debug("health is not written: %s", error)
            self._told, self._read = {}, False
            self._silent_until = asyncio.get_running_loop().time() + SILENT_S

    async def _tell(self) -> None:
        if not self._topic.is_there:
            await self._topic.ensure()
            self._told.clear()
        if not self._read:
            self._told = self._found()
            self._read = True
        subjects = self._supervisor.health.subjects()
        changed: dict[str, dict[str, Any] | None] = {
            key: value for key, value in subjects.items() if self._is_news(key, value)
        }
        changed |= {key: None for key in self._told if key not in subjects}
        if changed:
            self._told = {
                key: value if key in changed else self._told[key] for key, value in subjects.items()
            }
            self._append(changed)

    def _is_news(self, key: str, value: dict[str, Any]) -> bool:
        before = self._told.get(key)
        if key != "disk" or before is None or any(before.get(n) != value[n] for n in _AT_ONCE):
            return before != value
        now_ms = int(self._clock.monotonic() * 1000)
        if before == value or now_ms - self._disk_ms < DISK_EVERY_MS:
            return False
        self._disk_ms = now_ms
        return True

    def _append(self, changed: dict[str, dict[str, Any] | None]) -> None:
        batch: list[Entry] = []
        size = 0
        for key, value in changed.items():
            text = None if value is None else json.dumps(value, sort_keys=True).encode()
            batch.append((key.encode(), text))
            size += len(key) + len(text or b"")
            if size > BATCH_BYTES_MAX:
                self._write(batch)
                batch, size = [], 0
        if batch:
            self._write(batch)

    def _write(self, batch: list[Entry]) -> None:
        partition, next_offset = self._topic.stage(self._topic.partition(), batch)
        partition.when_durable(next_offset, self._refused)

    def _found(self) -> Subjects:
        """What an earlier start has told, so that what is past is taken back."""
        found: Subjects = {}
        for batch in self._topic.replay_from():
            for record in batch.records:
                key = (record.key or b"").decode("utf-8", "replace")
                found.pop(key, None)
                if record.value is not None:
                    found[key] = {"stale": True}  # whatever it says was of another start
        return found
