"""Into the log, exactly once: a batch and the position behind it, in one Kafka transaction.

Called by `runner`. The positions lie in the compacted topic `__headwater_capture`, one key per capture:

    key    the capture's name
    value  {"position": {…the source's own…}, "ts_ms": when it was written}

Invariants:
- A batch's records and its position must be committed together or not at all.
- The position must be read only after the elder producer is fenced (`init_transactions`), and only when
  everything before the end of the topic is decided; otherwise a commit still on its way would be missed
  and its changes written twice.
- A commit whose outcome is not known must not be guessed: the writer is thrown away, and the next one
  reads what the log says.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from headwater.capture.change import EVERY_PARTITION, Batch, Position, Record
from headwater.capture.errors import Fenced, Interrupted

POSITIONS = "__headwater_capture"
TIMEOUT_S = 30.0
TRANSACTION_TIMEOUT_MS = 60_000
_FIRST_LOOK = 1_000
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class Writer:
    """The one writer of a capture. After any error it must be closed and a new one opened."""

    def __init__(self, name: str, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            # librdkafka 2.16 stands still after a broker's restart otherwise: docs/transactions.md.
            "metadata.recovery.strategy": "none",
            **(client or {}),
        }
        self._admin = AdminClient(self._settings)
        self._partitions: dict[str, int] = {}
        self._failed: KafkaError | None = None
        self._producer: Producer | None = None

    def open(self) -> Position | None:
        """Fence an elder writer of this name, then say where it had come to; None: never written."""
        with _plain("the log cannot be written"):
            self.ensure_topics(
                [POSITIONS], {"cleanup.policy": "compact", "segment.ms": "600000"}, 1
            )
            self._producer = Producer(
                {
                    **self._settings,
                    "transactional.id": f"headwater-capture-{self._name}",
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    # A row's changes must meet in the partition that every other client expects.
                    "partitioner": "murmur2_random",
                    "linger.ms": 2,
                    "batch.size": 1 << 20,
                    "compression.type": "lz4",
                    "queue.buffering.max.messages": 500_000,
                    "queue.buffering.max.kbytes": 64 << 10,
                    # The commit fails if a record did; a call per record would cost more than sending it.
                    "delivery.report.only.error": True,
                    "on_delivery": self._delivered,
                }
            )
            self._producer.init_transactions(TIMEOUT_S)
            value = _last_value(self._settings, self._admin, self._name)
        return None if value is None else json.loads(value)["position"]

    def ensure_topics(
        self, topics: Iterable[str], config: Mapping[str, str], partitions: int = -1
    ) -> None:
        """Create those that are missing."""
        wanted = [
            NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config))
            for topic in topics
            if topic not in self._partitions
        ]
        if not wanted:
            return
        with _plain("topics cannot be created"):
            for topic, made in self._admin.create_topics(
                wanted, operation_timeout=TIMEOUT_S
            ).items():
                try:
                    made.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise
                self._partitions[topic] = 0

    def write(self, batch: Batch) -> None:
        """Make the batch and its position durable, together."""
        producer = self._producer
        assert producer is not None, "open() comes first"
        with _plain("the log did not take a batch"):
            self._failed = None
            producer.begin_transaction()
            self._produce(producer, batch.records)
            value = json.dumps({"position": batch.position, "ts_ms": int(time.time() * 1000)})
            _when_room(producer, POSITIONS, value.encode(), self._name.encode(), 0)
            producer.commit_transaction(TIMEOUT_S)
            if self._failed is not None:  # cannot be: the commit would have failed
                raise KafkaException(self._failed)

    def forget(self) -> None:
        """Make the next run begin with a snapshot again."""
        self.write(Batch({"again": True}))

    def erase(self) -> None:
        """Forget the capture altogether: the next run of this name is its first."""
        assert self._producer is not None
        with _plain("the position cannot be removed"):
            self._producer.begin_transaction()
            self._producer.produce(POSITIONS, None, self._name.encode())
            self._producer.commit_transaction(TIMEOUT_S)

    def delete_topics(self, topics: Iterable[str]) -> list[str]:
        """Those of them that there are; which ones."""
        with _plain("topics cannot be deleted"):
            there = self._admin.list_topics(timeout=TIMEOUT_S).topics
            found = sorted({topic for topic in topics if topic in there})
            if found:
                for made in self._admin.delete_topics(found, operation_timeout=TIMEOUT_S).values():
                    made.result()
        return found

    def close(self) -> None:
        """Let go; a transaction that is open is aborted by the next writer, or by its time-out."""
        if self._producer is not None:
            with contextlib.suppress(KafkaException):
                self._producer.purge()
                self._producer.poll(0)
        self._producer = None

    def _produce(self, producer: Producer, records: Iterable[Record]) -> None:
        produce = producer.produce
        for record in records:
            if len(record) == 3:
                try:
                    produce(record[0], record[2], record[1])
                except BufferError:
                    _when_room(producer, record[0], record[2], record[1])
                continue
            topic, key, value, headers, partition = record
            every = partition == EVERY_PARTITION
            for place in range(self._partition_count(topic)) if every else (partition,):
                _when_room(producer, topic, value, key, place, headers=headers)

    def _partition_count(self, topic: str) -> int:
        if not self._partitions.get(topic):
            found = self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
            self._partitions[topic] = len(found.partitions) or 1
        return self._partitions[topic]

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failed = error


def _when_room(producer: Producer, *words: Any, **more: Any) -> None:
    """Produce one message; while librdkafka's queue is full, by count or by bytes, wait for room.

    One message at a time: of several, those before the full queue would be produced twice.
    """
    while True:
        try:
            producer.produce(*words, **more)
            return
        except BufferError:
            producer.poll(0.05)


def read_positions(
    bootstrap: str, names: Iterable[str], client: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """The stored positions, with their times, for `status`; fences nobody."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
    admin = AdminClient(settings)
    found = {}
    with _plain("the positions cannot be read"):
        if POSITIONS not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return {}
        for name in names:
            value = _last_value(settings, admin, name)
            if value is not None:
                found[name] = json.loads(value)
    return found


def read_topic(
    bootstrap: str, topic: str, client: Mapping[str, str] | None = None
) -> list[tuple[bytes | None, bytes | None]]:
    """Every committed record of a topic with one partition, as key and value; [] if there is none."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})}
    admin = AdminClient(settings)
    with _plain(f"{topic} cannot be read"):
        if topic not in admin.list_topics(timeout=TIMEOUT_S).topics:
            return []
        return list(_read(settings, topic, *_decided(admin, topic)))


def _last_value(settings: Mapping[str, Any], admin: AdminClient, name: str) -> bytes | None:
    """The last committed record of that key. The tail is read first: the topic may be long."""
    first, end = _decided(admin, POSITIONS)
    look = _FIRST_LOOK
    while True:
        begin = max(first, end - look)
        values = [v for k, v in _read(settings, POSITIONS, begin, end) if k == name.encode()]
        if values or begin == first:
            return values[-1] if values else None
        look *= 10


def _decided(admin: AdminClient, topic: str) -> tuple[int, int]:
    """Where the topic begins and ends, once every transaction before that end is decided."""
    place = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec, level: IsolationLevel) -> int:
        asked = admin.list_offsets({place: spec}, isolation_level=level, request_timeout=TIMEOUT_S)
        return int(asked[place].result().offset)

    end = offset(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    deadline = time.monotonic() + 2 * TRANSACTION_TIMEOUT_MS / 1000
    while offset(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED) < end:
        if time.monotonic() > deadline:
            raise Interrupted(f"a transaction of another capture stays open in {topic}")
        time.sleep(0.02)
    return offset(OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED), end


def _read(
    settings: Mapping[str, Any], topic: str, begin: int, end: int
) -> Iterator[tuple[bytes | None, bytes | None]]:
    if begin >= end:
        return
    reader = Consumer(
        {
            **settings,
            "group.id": "headwater-capture",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,  # the end is what we wait for, not more
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, begin)])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for message in reader.consume(1000, 0.02):
                error = message.error()
                if error is None:
                    yield message.key(), message.value()
                    deadline = time.monotonic() + TIMEOUT_S
                elif error.code() == KafkaError._PARTITION_EOF:
                    return  # nothing before the end is undecided, so all of it has come
                else:
                    raise KafkaException(error)
            if time.monotonic() > deadline:
                raise Interrupted(f"{topic} could not be read to its end")
    finally:
        reader.close()


@contextlib.contextmanager
def _plain(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        said = error.args[0]
        if said.code() in _FENCED:
            raise Fenced(
                "another run of this capture has taken over",
                hint="let only one run per capture; stop this one",
            ) from None
        raise Interrupted(f"{what}: {said.str().rstrip('.')} ({said.name()})") from None
