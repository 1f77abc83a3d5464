"""What topics there are: partitions, offsets, bytes on disk, and the settings that people ask about.

`offsets` counts what the partitions span; compaction and transactions leave holes in it, so it is the most
that there can be. Bytes need a request that confluent-kafka does not speak (`Log.cluster`); where it cannot
be asked, they are None. `ensure` makes a topic that must be there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headwater.client import creation, settings
from headwater.client.cluster import EARLIEST, LATEST
from headwater.client.errors import NotThere, told
from headwater.client.exchange import log_sizes
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.settings import Source


@dataclass(frozen=True)
class Setting:
    """`is_own`: given to this topic; else the broker's value or the default."""

    value: str
    is_own: bool


@dataclass(frozen=True)
class Partition:
    number: int
    leader: int
    first_offset: int
    next_offset: int
    bytes: int | None = None
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True)
class Brokers:
    """Who serves the topics: host:port by node id. `controller` is -1 where nobody is known to be it."""

    addresses: Mapping[int, str]
    controller: int
    cluster_id: str


@dataclass(frozen=True)
class Topic:
    name: str
    partitions: list[Partition]
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")

    @property
    def offsets(self) -> int:
        return sum(each.next_offset - each.first_offset for each in self.partitions)

    @property
    def bytes(self) -> int | None:
        sizes = [each.bytes for each in self.partitions if each.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.partitions) else None

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.value("cleanup.policy", "delete")

    @property
    def retention_ms(self) -> int | None:
        """None: records are kept whatever their age."""
        if "delete" not in self.value("cleanup.policy", "delete"):
            return None
        return _limit(self.value("retention.ms", "-1"))

    @property
    def retention_bytes(self) -> int | None:
        """Of each partition; None: without limit."""
        return _limit(self.value("retention.bytes", "-1"))

    def value(self, name: str, default: str) -> str:
        found = self.settings.get(name)
        return default if found is None else found.value


def listed(log: Log, *, internal: bool = False, details: bool = True) -> list[Topic]:
    """All topics by name; without `details`, no settings and no bytes."""
    with told("listing topics", log.bootstrap):
        known = log.admin.list_topics(timeout=TIMEOUT_S).topics
    shown = {n: t for n, t in sorted(known.items()) if internal or not n.startswith("__")}
    return _topics(log, shown, details=details)


def brokers(log: Log) -> Brokers:
    with told("asking who the brokers are", log.bootstrap):
        known = log.admin.list_topics(timeout=TIMEOUT_S)
    addresses = {node: f"{each.host}:{each.port}" for node, each in known.brokers.items()}
    return Brokers(addresses, known.controller_id, known.cluster_id or "")


def cluster_id(log: Log) -> str:
    with told("asking which cluster it is", log.bootstrap):
        found = log.admin.describe_cluster(request_timeout=TIMEOUT_S).result()
    return found.cluster_id or ""


def replicas(log: Log) -> dict[str, list[int]]:
    """Of every topic: how many replicas each partition has."""
    with told("listing topics", log.bootstrap):
        known = log.admin.list_topics(timeout=TIMEOUT_S).topics
    return {
        name: [len(each.replicas) for each in topic.partitions.values()]
        for name, topic in known.items()
    }


def named(log: Log, name: str) -> Topic:
    with told("listing topics", log.bootstrap):
        known = log.admin.list_topics(timeout=TIMEOUT_S).topics.get(name)
    if known is None:
        raise NotThere(
            f"there is no topic {name!r}", hint="headwater topics list shows those that exist"
        )
    (found,) = _topics(log, {name: known}, details=True)
    return found


def create(
    admin: AdminClient,
    name: str,
    partitions: int = -1,
    config: Mapping[str, str] | None = None,
    *,
    replicas: int = 1,
    if_missing: bool = False,
    timeout_s: float = TIMEOUT_S,
    dry_run: bool = False,
) -> bool:
    """Whether it was made: it may be there already, `if_missing`. With what confluent-kafka raises."""
    new = NewTopic(name, partitions, replicas, config=dict(config or {}))
    asked = admin.create_topics(
        [new], operation_timeout=timeout_s, request_timeout=timeout_s, validate_only=dry_run
    )
    try:
        asked[name].result()
    except KafkaException as failure:
        if if_missing and failure.args[0].name() == "TOPIC_ALREADY_EXISTS":
            return False
        raise
    return True


def grow(
    admin: AdminClient,
    name: str,
    partitions: int,
    timeout_s: float = TIMEOUT_S,
    *,
    dry_run: bool = False,
) -> None:
    """To so many. With what confluent-kafka raises."""
    more = NewPartitions(name, partitions)
    asked = admin.create_partitions(
        [more], operation_timeout=timeout_s, request_timeout=timeout_s, validate_only=dry_run
    )
    asked[name].result()


def delete(admin: AdminClient, name: str, timeout_s: float = TIMEOUT_S) -> None:
    """With all its records. With what confluent-kafka raises."""
    admin.delete_topics([name], operation_timeout=timeout_s, request_timeout=timeout_s)[
        name
    ].result()


def id_of(admin: AdminClient, name: str) -> uuid.UUID:
    """With what confluent-kafka raises."""
    asked = admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT_S)
    found = asked[name].result().topic_id
    high, low = found.get_most_significant_bits(), found.get_least_significant_bits()
    return uuid.UUID(int=(high % (1 << 64)) << 64 | low % (1 << 64))


def is_compacted(log: Log, name: str) -> bool:
    """Then every record needs a key."""
    return configured(log, name).is_compacted


def configured(log: Log, name: str) -> Topic:
    """Its settings alone."""
    return Topic(name, [], _settings(log, [name]).get(name, {}))


def ensure(log: Log, topic: str, partitions: int = -1, **settings: str) -> bool:
    """Whether it had to be made. -1: as many partitions as the broker gives a new topic.

    `settings` only count for one that is made: `cleanup_policy="compact"`.
    """
    try:
        log.partitions(topic)
        return False
    except NotThere:
        pass
    config = {name.replace("_", "."): value for name, value in settings.items()}
    with log.cluster() as cluster:
        creation.ensure_one(cluster, topic, partitions, config)
    return True


def _topics(log: Log, known: Mapping[str, Any], *, details: bool) -> list[Topic]:
    places = [(name, number) for name, topic in known.items() for number in topic.partitions]
    first = log.offsets(places, EARLIEST)
    ends = log.offsets(places, LATEST)
    settings = _settings(log, known) if details else {}
    sizes = log_sizes(log, places) if details else {}
    return [
        Topic(
            name,
            [
                Partition(
                    p,
                    part.leader,
                    first[name, p],
                    ends[name, p],
                    sizes.get((name, p)),
                    tuple(part.replicas),
                    tuple(part.isrs),
                )
                for p, part in sorted(topic.partitions.items())
            ],
            settings.get(name, {}),
        )
        for name, topic in known.items()
    ]


def _settings(log: Log, names: Iterable[str]) -> dict[str, dict[str, Setting]]:
    with told("reading settings", log.bootstrap):
        found = settings.of_topics(log.admin, names, TIMEOUT_S, strict=False)
    return {
        topic: {
            name: Setting(each.value or "", each.source is Source.TOPIC)
            for name, each in entries.items()
        }
        for topic, entries in found.items()
    }


def _limit(text: str) -> int | None:
    value = int(text) if text.lstrip("-").isdigit() else -1
    return None if value < 0 else value
