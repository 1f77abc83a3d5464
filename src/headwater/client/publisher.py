"""Records into a topic: one, acknowledged before the call returns, or many through a `Sender`.

A key goes where Java's clients and Spark put it (murmur2), unless a partition is named. A topic that does not
exist is an error and is not created: it would mostly be a misspelling.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer

from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused, told, translated
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.topics import is_compacted

HeaderList = Sequence[tuple[str, bytes | None]]
WAIT_S = 1.0
"""Nothing acknowledged for so long is worth a word."""
RECORD_OVERHEAD_BYTES = 36
"""Of a record without headers, each of its integers as long as it can be."""
_FULL_S = 0.05


class Stored(NamedTuple):
    """Where the record is now."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Draft:
    """A record to be. `value` None: a tombstone. `timestamp_ms` None: now."""

    key: bytes | None
    value: bytes | None
    headers: HeaderList = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def batch_bytes(self) -> int:
        """What it takes in a record batch at most, as long as that is not compressed."""
        own = len(self.key or b"") + len(self.value or b"") + RECORD_OVERHEAD_BYTES
        return own + sum(len(name) * 4 + len(value or b"") + 10 for name, value in self.headers)


def publish(log: Log, topic: str, draft: Draft) -> Stored:
    """One record; it is on disk (as `acks=all` promises) when this returns."""
    _check(log, topic, draft.partition)
    done = threading.Event()
    said: list[tuple[Any, Any]] = []

    def on_delivery(error: Any, message: Any) -> None:
        said.append((error, message))
        done.set()

    producer = log.producer
    what = f"publishing to {topic}"
    with told(what, log.bootstrap):
        producer.produce(topic, on_delivery=on_delivery, **words_of(draft))
    deadline = time.monotonic() + TIMEOUT_S + 1
    while not done.is_set() and time.monotonic() < deadline:
        producer.poll(_FULL_S)
    if not said:
        raise BrokerUnreachable(
            f"{what}: no answer from {log.bootstrap}", hint="it may be stored or not"
        )
    error, message = said[0]
    if error is not None:
        raise translated(error, what, log.bootstrap)
    return Stored(message.partition(), message.offset())


class Publisher:
    """Records into any topics, on disk when `put` returns. `settings` are librdkafka's; for one thread."""

    def __init__(self, settings: Mapping[str, Any], timeout_s: float = 30.0) -> None:
        self._bootstrap = str(settings.get("bootstrap.servers", ""))
        self._timeout_s = timeout_s
        own = {"enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({**own, **settings})

    def put(self, topic: str, *drafts: Draft) -> None:
        """Raises RequestRefused, BrokerUnreachable; some of several may be stored then."""
        self.put_all([(topic, draft) for draft in drafts])

    def put_all(self, drafts: Iterable[tuple[str, Draft]]) -> dict[tuple[str, int], int]:
        """The same of many; the last offset in each partition."""
        failed: list[Any] = []
        offsets: dict[tuple[str, int], int] = {}
        what = "writing to the log"

        def heard(error: Any, stored: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                offsets[stored.topic(), stored.partition()] = stored.offset()

        for topic, draft in drafts:
            what = f"writing to {topic}"
            with told(what, self._bootstrap):
                self._producer.produce(topic, on_delivery=heard, **words_of(draft))
        left = self._producer.flush(self._timeout_s)
        if failed:
            raise translated(failed[0], what, self._bootstrap)
        if left:
            raise BrokerUnreachable(
                f"{what}: no answer from {self._bootstrap}", hint="it may be stored or not"
            )
        return offsets


class Sender:
    """Many records into one topic; use it as a context manager, at whose end all are stored.

    `on_failure` is told the tag of a record that the broker did not take, and why; `on_wait` how many
    are under way, when none of them has been acknowledged for a second: clients try again what a disk
    refuses, without a word.
    """

    def __init__(
        self,
        log: Log,
        topic: str,
        on_failure: Callable[[Any, str], None],
        on_wait: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._log, self._topic, self._on_failure, self._on_wait = log, topic, on_failure, on_wait
        self.partitions = log.partitions(topic)
        self._producer: Producer = log.new_producer(
            linger_ms=20, compression_type="lz4", message_timeout_ms=int(TIMEOUT_S * 3000)
        )
        self._needs_keys = is_compacted(log, topic)
        self.stored = self.sent = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = self.flush()
        if left and kind is None:
            raise BrokerUnreachable(
                f"{left:,} records were not acknowledged, and may or may not be in {self._topic}",
                hint="`headwater status` says what troubles the broker",
            )

    def send(self, draft: Draft, tag: Any) -> None:
        """Waits where too many are under way. Raises NotThere or RequestRefused for what cannot be stored.

        A broker refuses whole batches, so what can be known before is looked at before."""
        if draft.key is None and self._needs_keys:
            raise RequestRefused(
                "it has no key, and the topic is compacted", hint="give every record a key"
            )
        if draft.partition is not None and draft.partition not in self.partitions:
            raise _no_partition(self._topic, draft.partition, self.partitions)
        heard = partial(self._heard, tag)
        full_since, stored = 0.0, self.stored
        while True:
            try:
                self._producer.produce(self._topic, on_delivery=heard, **words_of(draft))
                self.sent += 1
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(_FULL_S)
                if self.stored != stored or not full_since:
                    full_since, stored = time.monotonic(), self.stored
                elif time.monotonic() - full_since >= WAIT_S:
                    full_since = 0.0
                    self._on_wait(len(self._producer))
            except KafkaException as failure:  # what librdkafka itself refuses: too large
                self._on_failure(tag, failure.args[0].str())
                return

    def flush(self) -> int:
        """Wait for what is under way; how many were not acknowledged in time."""
        until = time.monotonic() + TIMEOUT_S * 3
        while True:
            before = self.stored
            left = self._producer.flush(WAIT_S)
            if not left or time.monotonic() >= until:
                return int(left)
            if self.stored == before:
                self._on_wait(left)

    def _heard(self, tag: Any, error: Any, message: Any) -> None:
        if error is None:
            self.stored += 1
        else:
            self._on_failure(tag, error.str())


def _check(log: Log, topic: str, partition: int | None) -> None:
    numbers = log.partitions(topic)
    if partition is not None and partition not in numbers:
        raise _no_partition(topic, partition, numbers)


def _no_partition(topic: str, partition: int, numbers: list[int]) -> NotThere:
    return NotThere(f"{topic} has no partition {partition}", hint=f"it has 0 to {numbers[-1]}")


def words_of(draft: Draft) -> dict[str, Any]:
    """For confluent-kafka, which takes no None for what is left out."""
    words: dict[str, Any] = {"key": draft.key, "value": draft.value}
    if draft.headers:
        words["headers"] = list(draft.headers)
    if draft.partition is not None:
        words["partition"] = draft.partition
    if draft.timestamp_ms is not None:
        words["timestamp"] = draft.timestamp_ms
    return words
