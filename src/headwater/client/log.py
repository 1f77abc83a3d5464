"""The clients of one cluster, kept ready: the first question connects, those after it need not.

    with Log("127.0.0.1:9092") as log:
        topics.listed(log)

For several threads at once. Consumers wait in a pool (a new one costs about 20 ms, one from the pool none);
they are assigned partitions and never join a group. All waits are bounded by `TIMEOUT_S`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from headwater.client import creation, lookup, offsets
from headwater.client.cluster import EARLIEST, LATEST, Cluster
from headwater.client.errors import NotThere, told, weakly
from headwater.client.offsets import Place
from headwater.client.options import cluster_settings, enduring
from headwater.client.records import Range

TIMEOUT_S = 10.0
_KNOWN_S = 1.0
_LEADER_S = 0.1
POSTED_MAX = 10_000
"""Records that wait to be appended without anybody waiting for them."""
IDLE_CONSUMERS_MAX = 4
PAGE_BYTES = 128 * 1024
"""What one fetch for a page asks of each partition: some hundred records, and not a megabyte."""
SCAN_BYTES = 1024 * 1024
WAIT_MS = 2
"""How long a fetch waits at a partition's end: the next question waits for the one left behind."""

_QUIET = logging.getLogger("headwater.client.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False

_READER: dict[str, Any] = {
    "group.id": "headwater-browse",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",  # what retention took meanwhile is a hole like any other
    "isolation.level": "read_committed",
    "enable.partition.eof": True,  # the last record may be a marker, which is never handed out
    "topic.metadata.refresh.fast.interval.ms": 20,
    "allow.auto.create.topics": False,
    "queued.max.messages.kbytes": 32 * 1024,
    "queued.min.messages": 2000,  # what is fetched ahead is mostly thrown away
    "fetch.queue.backoff.ms": 2,  # a second by default, and the next question would wait for it
}


def read_from(consumer: Consumer, topic: str, offsets: Mapping[int, int]) -> None:
    """Let a consumer of the pool read these partitions, at once.

    One that read another topic before would ask for this one at its next turn, up to a second later.
    """
    try:
        consumer.list_topics(topic, timeout=_KNOWN_S)
    except KafkaException:
        pass  # the reading itself will say it, or wait
    consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])


class Log:
    """Where the topics are. `client`: further settings of librdkafka, to reach a secured broker."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self.bootstrap = bootstrap
        self.settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": "headwater",
            "socket.connection.setup.timeout.ms": 3000,
            "log_level": 0,  # the sentences of our errors say it
            **enduring(client),
            "error_cb": weakly(self._heard),
        }
        self._login_refused: str | None = None
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._poster: Producer | None = None
        self._idle: dict[tuple[int, int], list[Consumer]] = {}
        self._closed = False

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [each for pool in self._idle.values() for each in pool]
            self._idle.clear()
        for consumer in idle:
            consumer.close()
        for producer in (self._producer, self._poster):
            if producer is not None:
                producer.flush(TIMEOUT_S)

    def login_refused(self) -> str | None:
        """What the broker said to our name and password, where it did not like them."""
        self.admin.poll(0)
        return self._login_refused

    def _heard(self, error: KafkaError) -> None:
        # Nobody raises it: librdkafka tries again, in case the password is changed meanwhile.
        if error.code() == KafkaError._AUTHENTICATION:
            self._login_refused = error.str()

    # ---- clients --------------------------------------------------------------------------------

    @property
    def admin(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                self._admin = AdminClient(self.settings, logger=_QUIET)
            return self._admin

    @property
    def producer(self) -> Producer:
        """Idempotent, and a key goes where Java's clients and Spark put it."""
        with self._lock:
            if self._producer is None:
                self._producer = self.new_producer()
            return self._producer

    def post(self, topic: str, key: str, value: bytes) -> None:
        """Append without waiting for it; dropped only if thousands wait already, or for a minute."""
        with self._lock:
            if self._poster is None:
                bound = {"queue_buffering_max_messages": POSTED_MAX, "message_timeout_ms": 60_000}
                self._poster = self.new_producer(enable_idempotence=False, **bound)
        with contextlib.suppress(BufferError):
            self._poster.produce(topic, key=key, value=value)
        self._poster.poll(0)

    def new_producer(self, **settings: Any) -> Producer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        own = {
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "message.timeout.ms": int(TIMEOUT_S * 1000),
        }
        return Producer({**self.settings, **own, **named}, logger=_QUIET)

    @contextmanager
    def reader(self, fetch_bytes: int = PAGE_BYTES, wait_ms: int = WAIT_MS) -> Iterator[Consumer]:
        """A consumer with nothing assigned, for the caller alone until it is given back."""
        with self._lock:
            pool = self._idle.setdefault((fetch_bytes, wait_ms), [])
            consumer = pool.pop() if pool else None
        if consumer is None:
            own = {"max.partition.fetch.bytes": fetch_bytes, "fetch.wait.max.ms": wait_ms}
            consumer = Consumer({**self.settings, **_READER, **own}, logger=_QUIET)
        try:
            yield consumer
            consumer.unassign()
        except BaseException:
            consumer.close()  # in whatever state it is
            raise
        with self._lock:
            keep = not self._closed and len(pool) < IDLE_CONSUMERS_MAX
            if keep:
                pool.append(consumer)
        if not keep:
            consumer.close()

    @contextmanager
    def cluster(self, timeout_s: float = TIMEOUT_S) -> Iterator[Cluster]:
        """The client that speaks the protocol itself: for one thread, and for one question."""
        found = Cluster(cluster_settings(self.settings, timeout_s))
        try:
            yield found
        finally:
            found.close()

    # ---- what everybody asks --------------------------------------------------------------------

    def partitions(self, topic: str) -> list[int]:
        """Of a topic that is there; asking for it does not make it."""
        return sorted(lookup.replicas(self.admin, topic, self.bootstrap, TIMEOUT_S))

    def ranges(self, topic: str, partitions: list[int] | None = None) -> dict[int, Range]:
        """Partition → first offset, and the one after the last that a reader sees."""
        numbers = self.partitions(topic)
        for each in partitions or ():
            if each not in numbers:
                raise NotThere(
                    f"{topic} has no partition {each}", hint=f"it has 0 to {numbers[-1]}"
                )
        wanted = [(topic, number) for number in partitions or numbers]
        first = self.offsets(wanted, EARLIEST)
        ends = self.offsets(wanted, LATEST)
        return {place[1]: (first[place], max(first[place], ends[place])) for place in wanted}

    def offsets(self, places: Iterable[Place], at: int) -> dict[Place, int]:
        """Where each partition begins (EARLIEST), ends (LATEST) or is at a time; -1: no record so late."""
        with told("asking for offsets", self.bootstrap):
            return offsets.listed(self.admin, places, at, TIMEOUT_S)

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where each partition ends for a reader; a topic that was just made is waited for."""
        wanted = list(places)
        deadline = time.monotonic() + TIMEOUT_S
        with told("asking for offsets", self.bootstrap):
            while True:
                try:
                    return offsets.listed(self.admin, wanted, LATEST, TIMEOUT_S)
                except KafkaException as failure:
                    # It has no leader for a moment.
                    if not failure.args[0].retriable() or time.monotonic() > deadline:
                        raise
                time.sleep(_LEADER_S)

    def newest_ms(self, topic: str) -> int:
        """The latest timestamp that a record has; -1 where there is none."""
        places = [(topic, p) for p in self.partitions(topic)]
        with told(f"looking at {topic}", self.bootstrap):
            return offsets.newest_ms(self.admin, places, TIMEOUT_S)

    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""
        with told("listing topics", self.bootstrap):
            found = self.admin.list_topics(timeout=TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def ensure_topic(self, name: str, config: Mapping[str, str], partitions: int = -1) -> None:
        """Create the topic where it is missing; -1: as many partitions as the broker's default."""
        with self.cluster() as cluster:
            creation.ensure_one(cluster, name, partitions, config)
