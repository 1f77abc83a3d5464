"""What Spark's queries tell the log about themselves: the progress topic, followed by one thread.

The last records of each query are kept in memory, no more than `KEPT`; everything else is in the log.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.client.errors import NotThere
from headwater.client.librdkafka import Consumer, KafkaException, TopicPartition
from headwater.client.log import Log
from headwater.errors import HeadwaterError
from headwater.pipelines.progress import TOPIC
from headwater.pipelines.reporter import HEARTBEAT_S

KEPT = 600
BACK = 5000
"""Records of the topic that are read at the start."""
SILENT_S = 4 * HEARTBEAT_S
AGAIN_S = 2.0
log = logging.getLogger(__name__)
Said = Mapping[str, Any]


@dataclass(frozen=True)
class QueryNow:
    """One query. `state`: running, silent, failed, refused, finished, stopped."""

    name: str
    to: str
    state: str
    since_ms: int
    last: Said | None
    """Its last progress record."""
    error: str | None
    """What it failed with last, while it has not made progress since."""
    history: tuple[Said, ...]
    """Its progress records, the oldest first."""

    @property
    def group(self) -> str:
        return f"headwater-{self.name}"


def now_of(name: str, said: list[Said], now_ms: int) -> QueryNow:
    """What records of one query, the oldest first, mean."""
    progress = tuple(each for each in said if each["event"] == "progress")
    last_event = next((each for each in reversed(said) if each["event"] != "progress"), None)
    last = said[-1]
    state, since_ms = "running", int(last_event["at_ms"] if last_event else last["at_ms"])
    error = None
    if last["event"] not in ("progress", "started"):
        state = str(last["event"])
        error = last.get("reason")
    elif now_ms - int(last["at_ms"]) > SILENT_S * 1000:
        state, since_ms = "silent", int(last["at_ms"])
    return QueryNow(
        name=name,
        to=str(last.get("to", "")),
        state=state,
        since_ms=since_ms,
        last=progress[-1] if progress else None,
        error=error,
        history=progress,
    )


class Queries:
    """All that have told of themselves lately."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._said: dict[str, deque[Said]] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console queries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def now(self) -> list[QueryNow]:
        """Every query, by name."""
        with self._lock:
            said = {name: list(each) for name, each in self._said.items()}
        now_ms = time.time_ns() // 1_000_000
        return [now_of(name, said[name], now_ms) for name in sorted(said)]

    def following(self) -> frozenset[str]:
        """Groups that have no members, and are the positions of queries that run."""
        return frozenset(each.group for each in self.now() if each.state == "running")

    def of(self, name: str) -> QueryNow | None:
        """The one of this name."""
        with self._lock:
            said = list(self._said.get(name, ()))
        return now_of(name, said, time.time_ns() // 1_000_000) if said else None

    def take(self, value: bytes | None) -> None:
        """One record of the topic; what is not in its form is nobody's."""
        try:
            said = json.loads(value or b"")
            name = str(said["query"])
            said["event"], said["at_ms"]
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            self._said.setdefault(name, deque(maxlen=KEPT)).append(said)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                ranges = self._log.ranges(TOPIC)
                with self._log.reader() as consumer:
                    self._follow(consumer, ranges)
            except NotThere:
                pass  # nobody has run a query yet
            except (HeadwaterError, KafkaException):
                pass  # the broker is away; the pages say so themselves
            except Exception:
                log.warning("following the queries failed", exc_info=True)
            self._stopping.wait(AGAIN_S)

    def _follow(self, consumer: Consumer, ranges: Mapping[int, tuple[int, int]]) -> None:
        with self._lock:
            self._said.clear()  # another look from the beginning
        consumer.assign(
            [TopicPartition(TOPIC, p, max(first, end - BACK)) for p, (first, end) in ranges.items()]
        )
        while not self._stopping.is_set():
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    self.take(message.value())
