"""A small synchronous Kafka client for Spark's drivers and tasks: who leads what, and where it ends.

    cluster = connect.cluster(options.client_settings())
    cluster.metadata(["orders"])
    cluster.list_offsets({("orders", 0): LATEST})

Source and sink share it. A broker that restarts is waited for until `default.api.timeout.ms` (a minute)
has passed; wrong credentials are not waited for. `cluster` keeps one client per process and settings,
so that the tasks of a reused worker do not connect again.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import atexit
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headwater.client import connection as api
from headwater.client import security
from headwater.client.connection import Connection, Disconnected
from headwater.client.constants import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TopicPartition,
)
from headwater.client.error_codes import TryAgain, check, is_there
from headwater.client.errors import BrokerUnreachable
from headwater.client.options import addresses
from headwater.client.tcp_socket import seconds

__all__ = [
    "EARLIEST",
    "LATEST",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Cluster",
    "Metadata",
    "Topic",
    "TopicPartition",
    "TryAgain",
    "check",
    "cluster",
]

Result = TypeVar("Result")

_BACKOFF_S, _BACKOFF_MAX_S = 0.05, 0.25


@dataclass(frozen=True)
class Topic:
    """`leaders`: partition → node id, -1 while there is none."""

    name: str
    id: uuid.UUID
    leaders: Mapping[int, int]
    is_internal: bool = False


@dataclass(frozen=True)
class Metadata:
    cluster_id: str
    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, Topic] = field(default_factory=dict)


class Cluster:
    """Connections to the brokers of one cluster, made when first needed; `stopping` ends every wait."""

    def __init__(self, settings: Mapping[str, str], stopping: threading.Event | None = None):
        self.settings = settings
        self._stopping = stopping or threading.Event()
        self._context = security.tls_context(settings)
        self._bootstrap = addresses(settings["bootstrap.servers"])
        self._connections: dict[tuple[int, str], Connection] = {}
        self._any: Connection | None = None
        self._opening = threading.Lock()  # of two that want one connection, one makes it
        self._brokers: dict[int, tuple[str, int]] = {}
        self._silent: set[tuple[str, int]] = set()  # when last tried: asked after all others
        self._timeout_s = seconds(settings, "request.timeout.ms", 30_000)
        self.deadline_s = seconds(settings, "default.api.timeout.ms", 60_000)

    def close(self) -> None:
        for each in filter(None, [*self._connections.values(), self._any]):
            each.close()
        self._connections.clear()
        self._any = None

    # ---- connections ----------------------------------------------------------------------------

    def anyone(self) -> Connection:
        """A connection to some broker. Raises Disconnected if none is there just now."""
        with self._opening:
            if self._any is None:
                self._any = self._open_one()
            return self._any

    def _open_one(self) -> Connection:
        reasons: list[str] = []
        known = dict.fromkeys([*self._bootstrap, *self._brokers.values()])
        for address in sorted(known, key=self._silent.__contains__):
            try:
                return self.open(address)
            except Disconnected as error:
                reasons.append(str(error))
        raise Disconnected("; ".join(reasons))

    def node(self, node_id: int, use: str = "") -> Connection:
        """The connection to that broker. Who sends ahead of answers needs one for that use."""
        if (node_id, use) not in self._connections:
            if node_id not in self._brokers:
                self.metadata([])
            if node_id not in self._brokers:
                raise TryAgain(f"nobody knows broker {node_id}")
            with self._opening:
                if (node_id, use) not in self._connections:
                    self._connections[node_id, use] = self.open(self._brokers[node_id])
        return self._connections[node_id, use]

    def open(self, address: tuple[str, int]) -> Connection:
        """A connection that belongs to the caller."""
        self._silent.add(address)
        opened = Connection(address, self.settings, self._context, self._timeout_s)
        self._silent.discard(address)
        return opened

    def locate(self, node_id: int, address: tuple[str, int]) -> None:
        """Somebody has just said where that broker is: it may have moved."""
        self._brokers[node_id] = address

    def forget(self) -> None:
        """After a failure: connect anew, and ask anew who leads."""
        self.close()

    def retrying(self, attempt: Callable[[], Result], deadline_s: float | None = None) -> Result:
        """`attempt`, again and again while it is Disconnected or says TryAgain."""
        began, wait = time.monotonic(), _BACKOFF_S
        limit = self.deadline_s if deadline_s is None else deadline_s
        while True:
            try:
                return attempt()
            except (Disconnected, TryAgain) as error:
                if isinstance(error, Disconnected):
                    self.forget()
                if self._stopping.is_set() or time.monotonic() - began + wait > limit:
                    raise BrokerUnreachable(
                        f"{self.settings['bootstrap.servers']} did not answer as it should "
                        f"within {limit:.0f} s: {error}.",
                        hint="Is the broker running, and is the address right?",
                    ) from error
            self._stopping.wait(wait * random.uniform(0.5, 1.0))  # many must not come back at once
            wait = min(wait * 2, _BACKOFF_MAX_S)

    # ---- questions that everybody has -----------------------------------------------------------

    def metadata(self, topics: Iterable[str] | None) -> Metadata:
        """These topics (None: all that there are). A topic that does not exist is left out."""
        wanted = None if topics is None else [{"name": name} for name in topics]
        body = {"topics": wanted, "allow_auto_topic_creation": False}

        def attempt() -> Metadata:
            answer = self.anyone().ask(api.METADATA, body)
            self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
            found = {each.name: _topic(each) for each in answer.topics if is_there(each)}
            return Metadata(answer.cluster_id or "", dict(self._brokers), found)

        return self.retrying(attempt)

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        isolation: int = READ_UNCOMMITTED,
        metadata: Metadata | None = None,
    ) -> dict[TopicPartition, int]:
        """The offset at EARLIEST, LATEST or a timestamp of each partition; -1 where none is so late."""
        if not wanted:
            return {}
        known = [metadata]

        def attempt() -> dict[TopicPartition, int]:
            leaders = known.pop() if known else None
            leaders = leaders or self.metadata({topic for topic, _ in wanted})
            found: dict[TopicPartition, int] = {}
            for node_id, partitions in _by_leader(leaders, wanted).items():
                found.update(self._list_offsets_of(node_id, partitions, isolation))
            return found

        return self.retrying(attempt)

    def _list_offsets_of(
        self, node_id: int, wanted: Mapping[TopicPartition, int], isolation: int
    ) -> dict[TopicPartition, int]:
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, partition), timestamp in wanted.items():
            asked = {"partition_index": partition, "timestamp": timestamp}
            topics.setdefault(topic, []).append(asked | {"current_leader_epoch": -1})
        body = {
            "replica_id": -1,
            "isolation_level": isolation,
            "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
        }
        found: dict[TopicPartition, int] = {}
        for topic in self.node(node_id).ask(api.LIST_OFFSETS, body).topics:
            for each in topic.partitions:
                check(each.error_code, f"looking for {topic.name}-{each.partition_index}'s offset")
                found[topic.name, each.partition_index] = each.offset
        return found

    def log_dirs(
        self, metadata: Metadata, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, str]:
        """Where the leaders keep these partitions; nothing where they do not tell."""
        return {place: folder for place, folder, _ in self._on_disk(metadata, partitions)}

    def log_sizes(
        self, metadata: Metadata, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """How many bytes the leaders keep of these partitions; nothing where they do not tell."""
        return {place: size for place, _, size in self._on_disk(metadata, partitions)}

    def _on_disk(
        self, metadata: Metadata, partitions: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, str, int]]:
        wanted = dict.fromkeys(partitions, 0)
        for node_id, mine in _by_leader(metadata, wanted).items():
            topics: dict[str, list[int]] = {}
            for topic, partition in mine:
                topics.setdefault(topic, []).append(partition)
            asked = [{"topic": name, "partitions": each} for name, each in topics.items()]
            answer = self.node(node_id).ask(api.DESCRIBE_LOG_DIRS, {"topics": asked})
            for folder in answer.results:
                for topic in folder.topics:
                    for each in topic.partitions:
                        if not each.is_future_key:
                            place = (topic.name, each.partition_index)
                            yield place, folder.log_dir, each.partition_size


def _topic(answer: Any) -> Topic:
    leaders = {each.partition_index: each.leader_id for each in answer.partitions}
    topic_id = getattr(answer, "topic_id", None) or uuid.UUID(int=0)
    return Topic(answer.name, topic_id, dict(sorted(leaders.items())), answer.is_internal)


def _by_leader(
    metadata: Metadata, wanted: Mapping[TopicPartition, int]
) -> dict[int, dict[TopicPartition, int]]:
    found: dict[int, dict[TopicPartition, int]] = {}
    for (topic, partition), value in wanted.items():
        known = metadata.topics.get(topic)
        leader = -1 if known is None else known.leaders.get(partition, -1)
        if leader < 0:
            raise TryAgain(f"{topic}-{partition} has no leader")
        found.setdefault(leader, {})[topic, partition] = value
    return found


_shared: dict[tuple[int, frozenset[tuple[str, str]]], Cluster] = {}


def cluster(settings: Mapping[str, str]) -> Cluster:
    """The process's own client for these settings. A forked worker gets a new one."""
    key = (os.getpid(), frozenset(settings.items()))
    if key not in _shared:
        for old in [each for each in _shared if each[0] != os.getpid()]:
            _shared.pop(old).close()
        _shared.setdefault(key, Cluster(settings))  # of two threads, one was quicker
    return _shared[key]


@atexit.register
def _close_all() -> None:
    while _shared:
        _shared.popitem()[1].close()
