"""The batches of a partition, whole and in order, with those named that belong to aborted transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from headwater.project.promote.steps import Stored
from headwater.record import batch as batches
from headwater.record import control
from headwater.record.errors import InvalidBatch
from headwater.spark import connect
from headwater.spark import connection as api
from headwater.spark.connect import (
    LATEST,
    READ_COMMITTED,
    Cluster,
    Metadata,
    TopicPartition,
    TryAgain,
)
from headwater.spark.connection import Disconnected

Result = TypeVar("Result")

_FETCH_VERSION = 12
_BYTES_MAX = 8 << 20
_WAIT_MS = 500


def read(cluster: Cluster, place: TopicPartition, start: int, end: int) -> Iterator[Stored]:
    """Batches that hold offsets from `start` up to, not including, `end`; markers among them."""
    position, aborted, leader = start, _Aborted(), Leader(cluster, place)
    while position < end:
        data, named = _fetch(leader, position)
        aborted.learn(named)
        before = position
        for at, header in batches.scan(data):
            if header.base_offset >= end:
                return
            if header.next_offset <= position:
                continue
            batches.check_crc(data, at, header)
            stored = bytes(data[at : at + header.size])
            yield Stored(header, stored, aborted.meets(header, stored))
            position = header.next_offset
        if position == before:
            return  # nothing more: the rest is a hole


class _Aborted:
    """Which producers' transactions are in an aborted stretch, as a consumer keeps track of them."""

    def __init__(self) -> None:
        self._coming: dict[tuple[int, int], None] = {}
        self._now: set[int] = set()
        self._over: set[tuple[int, int]] = set()

    def learn(self, named: tuple[Any, ...]) -> None:
        for each in named:
            known = (each.first_offset, each.producer_id)
            if known not in self._over:
                self._coming[known] = None

    def meets(self, header: batches.BatchHeader, data: bytes) -> bool:
        for first, producer in sorted(self._coming):
            if first <= header.last_offset:
                del self._coming[first, producer]
                self._over.add((first, producer))
                self._now.add(producer)
        if header.is_control:
            if _ends(data):
                self._now.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._now


def _ends(marker: bytes) -> bool:
    try:
        return control.read_marker(marker).kind == control.ABORT
    except InvalidBatch:
        return False


def _fetch(leader: Leader, offset: int) -> tuple[memoryview, tuple[Any, ...]]:
    topic, partition = leader.place
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _BYTES_MAX,
    }
    body = {
        "replica_id": -1,
        "max_wait": _WAIT_MS,
        "min_bytes": 1,
        "max_bytes": _BYTES_MAX,
        "isolation_level": READ_COMMITTED,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [asked]}],
        "forgotten_topics_data": [],
    }

    def attempt(connection: api.Connection) -> tuple[memoryview, tuple[Any, ...]]:
        answer = connection.ask(api.FETCH, body, _FETCH_VERSION)
        connect.check(answer.error_code, f"reading {topic}")
        (found,) = answer.responses[0].partitions
        connect.check(found.error_code, f"reading {topic}-{partition} at {offset}")
        return memoryview(bytes(found.records or b"")), tuple(found.aborted_transactions or ())

    return leader.ask(attempt)


class Leader:
    """Who leads one partition, asked for once, and again after a failure."""

    def __init__(self, cluster: Cluster, place: TopicPartition) -> None:
        self.cluster, self.place = cluster, place
        self._known: Metadata | None = None

    def ask(self, attempt: Callable[[api.Connection], Result]) -> Result:
        """`attempt` with the leader's connection, again and again while brokers are away."""

        def once() -> Result:
            try:
                return attempt(self.connection())
            except (Disconnected, TryAgain):
                self._known = None
                raise

        return self.cluster.retrying(once)

    def end(self) -> int:
        """The offset that the next record will get."""
        if self._known is None:
            self._known = self.cluster.metadata([self.place[0]])
        return self.cluster.list_offsets({self.place: LATEST}, metadata=self._known)[self.place]

    def forget(self) -> None:
        """Connect anew, and ask anew who leads."""
        self._known = None
        self.cluster.forget()

    def connection(self, use: str = "") -> api.Connection:
        """To the leader; Disconnected or TryAgain where there is none just now."""
        topic, partition = self.place
        if self._known is None:
            self._known = self.cluster.metadata([topic])
        found = self._known.topics.get(topic)
        number = -1 if found is None else found.leaders.get(partition, -1)
        if number < 0:
            raise TryAgain(f"{topic}-{partition} has no leader")
        return self.cluster.node(number, use)
