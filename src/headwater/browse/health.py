"""How the broker is, as it says itself in `__headwater_health`: for `status`, the console and /metrics.

`HealthReader` follows the topic: the first look reads it, those after it only what is new. Apache Kafka
has no such topic; then there is nothing to tell, and that is no trouble.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.client.errors import NotThere, RequestRefused
from headwater.client.librdkafka import KafkaError
from headwater.client.log import TIMEOUT_S, Log, read_from

TOPIC = "__headwater_health"
WHOLE_S = 60.0
"""As often it is read from its beginning: somebody may have deleted it, and it was made anew."""
Subject = Mapping[str, Any]


@dataclass(frozen=True)
class BrokerHealth:
    """What was told last; see `headwater.broker.health` for the subjects and their fields."""

    subjects: Mapping[str, Subject] = field(default_factory=dict)

    def named(self, kind: str) -> dict[str, Subject]:
        """`task`, `damage`, `set-aside`: name → what is told."""
        start = f"{kind}/"
        return {k.removeprefix(start): v for k, v in self.subjects.items() if k.startswith(start)}

    @property
    def tasks(self) -> dict[str, Subject]:
        return self.named("task")

    @property
    def loop(self) -> Subject:
        return self.subjects.get("loop", {})

    @property
    def disk(self) -> Subject | None:
        return self.subjects.get("disk")

    @property
    def troubles(self) -> list[str]:
        """What is wrong now, in plain words; empty: nothing."""
        return list(_troubles(self))

    @property
    def notes(self) -> list[str]:
        """What is worth knowing, and no trouble now."""
        return list(_notes(self))


def _troubles(health: BrokerHealth) -> Iterator[str]:
    disk = health.disk
    if disk is not None and disk.get("refusing"):
        yield (
            f"the disk has {_bytes(disk['free_bytes'])} free, and {_bytes(disk['limit_bytes'])} are "
            "to stay free: new records are refused until there is room"
        )
    for name, task in sorted(health.tasks.items()):
        if task.get("failures_in_a_row"):
            yield (
                f"{name} fails ({_times(task['failures_in_a_row'])}, last at "
                f"{_at(task['failed_ms'])}): {task['last_failure']}; it is tried again"
            )
    lost = health.subjects.get("audit", {}).get("lost")
    if lost:
        yield (
            f"{lost:,} change{'' if lost == 1 else 's'} could not be written to __headwater_changes since "
            "the start; the broker's log says why"
        )
    for where, told in sorted(health.named("damage").items()):
        yield f"{where} is damaged: {told.get('says')}"
    for where, told in sorted(health.named("set-aside").items()):
        yield f"{where} was set aside at start: {told.get('says')}"


def _notes(health: BrokerHealth) -> Iterator[str]:
    loop = health.loop
    if loop.get("slow_turns"):
        yield (
            f"{_times(loop['slow_turns'])} nobody was served for more than {loop['limit_ms']} ms, at "
            f"most for {loop['longest_turn_ms']} ms; the broker's log says where"
        )
    for name, task in sorted(health.tasks.items()):
        if task.get("failures") and not task.get("failures_in_a_row"):
            yield (
                f"{name} has failed {_times(task['failures'])} since the start, last at "
                f"{_at(task['failed_ms'])}, and works again"
            )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _at(milliseconds: int | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime((milliseconds or 0) / 1000))


def _bytes(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"


class HealthReader:
    """Follows the topic of one cluster; for several threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = 0
        self._whole_at = time.monotonic()
        self._subjects: dict[str, Subject] = {}
        self._lock = threading.Lock()

    def look(self) -> BrokerHealth | None:
        """What is told now; None where nobody tells anything. Raises Unreachable."""
        with self._lock:
            try:
                return self._look()
            except (NotThere, RequestRefused):
                return None  # no such topic, one that is just being made, or not ours to read

    def _look(self) -> BrokerHealth:
        first, end = self._log.ranges(TOPIC, [0])[0]
        now = time.monotonic()
        if end < self._next or now >= self._whole_at + WHOLE_S:
            self._next, self._subjects, self._whole_at = 0, {}, now
        if end > self._next:
            self._read(max(first, self._next), end)
        return BrokerHealth(dict(self._subjects))

    def _read(self, first: int, end: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        with self._log.reader() as consumer:
            read_from(consumer, TOPIC, {0: first})
            while self._next < end and time.monotonic() < deadline:
                for message in consumer.consume(500, 0.2):
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise RequestRefused(f"{TOPIC} cannot be read: {error.str()}")
                    if error is not None:
                        self._next = max(self._next, message.offset() or 0)  # the end, behind gaps
                        continue
                    self._hear(message.key(), message.value())
                    self._next = (message.offset() or 0) + 1

    def _hear(self, key: bytes | None, value: bytes | None) -> None:
        subject = (key or b"").decode("utf-8", "replace")
        self._subjects.pop(subject, None)
        try:
            told = json.loads(value) if value else None
        except ValueError:
            told = None
        if isinstance(told, dict):
            self._subjects[subject] = told
