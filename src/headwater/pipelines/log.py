"""The log as the runner sees it: topics, their ends, a group's offsets, a place for records.

Called by the runner and its queries, from one thread. Any broker of Kafka's protocol will do. All
waits are bounded; a broker that is away is an error here (`LogUnreachable`), which the runner survives.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from headwater.errors import HeadwaterError

Partition = tuple[str, int]
TIMEOUT_S = 10.0
_LOOK_S = 2.0
QUEUED_RECORDS_MAX = 10_000


class LogUnreachable(HeadwaterError):
    """The broker did not do what it was asked to, this time."""


class Log:
    """Clients of one cluster, made when first needed."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            # Else groups are asked in vain after a restart of the broker: docs/transactions.md.
            "metadata.recovery.strategy": "none",
            **(client or {}),
        }
        self._admin = AdminClient(self._settings)
        self._producer: Producer | None = None
        self._reader: Consumer | None = None

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""
        with _plain():
            found = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def ensure_topic(self, name: str, config: Mapping[str, str], partitions: int = -1) -> None:
        """Create the topic where it is missing; -1: as many partitions as the broker's default."""
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=-1)
        wanted.config = dict(config)
        with _plain():
            try:
                self._admin.create_topics([wanted], operation_timeout=TIMEOUT_S)[name].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def commit(self, group: str, position: Mapping[Partition, int]) -> None:
        """Say that the group has done everything below these offsets."""
        places = [TopicPartition(t, p, offset) for (t, p), offset in position.items()]
        with _plain():
            asked = [ConsumerGroupTopicPartitions(group, places)]
            done = self._admin.alter_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)
            for place in done[group].result().topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Where each partition ends now."""
        wanted = {TopicPartition(*place): OffsetSpec.latest() for place in partitions}
        deadline = time.monotonic() + TIMEOUT_S
        while wanted:
            try:
                return self._ends(wanted)
            except KafkaException as error:
                # A topic that was just made has no leader for a moment.
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise _plain_error(error) from None
                time.sleep(0.1)
        return {}

    def _ends(self, wanted: Mapping[TopicPartition, Any]) -> dict[Partition, int]:
        # As queries read: a transaction that is still open is not yet there for them.
        level = IsolationLevel.READ_COMMITTED
        found = self._admin.list_offsets(
            dict(wanted), isolation_level=level, request_timeout=TIMEOUT_S
        )
        return {(p.topic, p.partition): f.result().offset for p, f in found.items()}

    def oldest_unread_ms(self, position: Mapping[Partition, int]) -> int | None:
        """The timestamp of the oldest record at or after the position; None if none came in time."""
        waiting, stamps = {**position}, []
        with _plain():
            for record in self._read(position, 1):
                place: Any = (record.topic(), record.partition())
                if waiting.pop(place, None) is not None:
                    stamps.append(record.timestamp()[1])
                if not waiting:
                    break
        return min(stamps, default=None)

    def count(self, begin: Mapping[Partition, int]) -> tuple[int, dict[Partition, int]]:
        """Records at or after `begin`, and where to go on: offsets alone also count markers."""
        more = {place for place, end in self.ends(begin).items() if end > begin[place]}
        counted, reached = 0, dict(begin)
        with _plain():
            for record in self._read({place: begin[place] for place in more}, 1000):
                place: Any = (record.topic(), record.partition())
                counted += 1
                reached[place] = int(record.offset() or 0) + 1
        return counted, reached

    def _read(self, begin: Mapping[Partition, int], at_once: int) -> Iterator[Message]:
        """Committed records from there to the end, or for as long as a look may take."""
        if not begin:
            return
        if self._reader is None:
            own = {"group.id": "headwater-run", "enable.auto.commit": False}
            own["enable.partition.eof"] = True
            bounded = {"fetch.message.max.bytes": 64 * 1024, "queued.min.messages": 1}
            self._reader = Consumer({**self._settings, **own, **bounded})
        self._reader.assign([TopicPartition(t, p, o) for (t, p), o in begin.items()])
        deadline, unread = time.monotonic() + _LOOK_S, len(begin)
        try:
            while unread and time.monotonic() < deadline:
                for record in self._reader.consume(at_once, 0.2):
                    error = record.error()
                    if error is None:
                        yield record
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread -= 1
        finally:
            self._reader.unassign()

    def publish(self, topic: str, key: str, value: Mapping[str, object]) -> None:
        """Append a JSON record, without waiting for it; dropped only if thousands already wait."""
        if self._producer is None:
            bound = {"queue.buffering.max.messages": QUEUED_RECORDS_MAX, "linger.ms": 5}
            self._producer = Producer({**self._settings, **bound, "message.timeout.ms": 60_000})
        with contextlib.suppress(BufferError):
            self._producer.produce(topic, key=key, value=json.dumps(value).encode())
        self._producer.poll(0)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(TIMEOUT_S)
        if self._reader is not None:
            self._reader.close()


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise _plain_error(error) from None


def _plain_error(error: KafkaException) -> LogUnreachable:
    said = error.args[0]
    return LogUnreachable(f"{said.str().rstrip('.')} ({said.name()})")
