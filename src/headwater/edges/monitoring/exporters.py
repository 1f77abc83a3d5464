"""Topics and groups by the names of kafka_exporter and KMinion, for dashboards that people have; pure.

`metrics` serves them at GET /metrics/kafka. Labels and units are those of the two programs: kafka_exporter
says `partition` and `consumergroup`, KMinion `partition_id`, `topic_name` and `group_id`. What only a program
that reads `__consumer_offsets` can know (commits per second) is not there; unknown numbers are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from prometheus_client.core import Metric

from headwater.client.groups import Group, PartitionLag
from headwater.client.topics import Brokers, Partition, Topic
from headwater.edges.prometheus import gauge

_NONE: tuple[str, ...] = ()


def of_log(brokers: Brokers, topics: Sequence[Topic], groups: Sequence[Group]) -> Iterator[Metric]:
    yield from of_cluster(brokers)
    yield from of_topics(topics)
    yield from of_groups(groups)


def of_cluster(brokers: Brokers) -> Iterator[Metric]:
    nodes = sorted(brokers.addresses.items())
    yield gauge("kafka_brokers", "Number of brokers", _NONE, [((), len(nodes))])
    yield gauge(
        "kafka_broker_info",
        "Information about a broker",
        ("id", "address"),
        (((str(node), address), 1) for node, address in nodes),
    )
    yield gauge(
        "kminion_kafka_cluster_info",
        "Kafka cluster information",
        ("broker_count", "controller_id", "cluster_id"),
        [((str(len(nodes)), str(brokers.controller), brokers.cluster_id), 1)],
    )
    yield gauge(
        "kminion_kafka_broker_info",
        "Kafka broker information",
        ("broker_id", "address", "port", "is_controller"),
        (
            ((str(node), *_split(address), str(node == brokers.controller).lower()), 1)
            for node, address in nodes
        ),
    )
    yield gauge("kminion_exporter_up", "1 while this can be asked", _NONE, [((), 1)])


def of_topics(topics: Sequence[Topic]) -> Iterator[Metric]:
    yield gauge(
        "kafka_topic_partitions",
        "Number of partitions of a topic",
        ("topic",),
        (((topic.name,), len(topic.partitions)) for topic in topics),
    )
    for name, says, number in _OF_A_PARTITION:
        yield gauge(
            name,
            says,
            ("topic", "partition"),
            (((t.name, str(p.number)), number(p)) for t in topics for p in t.partitions),
        )
    yield gauge(
        "kminion_kafka_topic_info",
        "Info labels for a given topic",
        ("topic_name", "partition_count", "replication_factor", "cleanup_policy"),
        (((t.name, *_described(t)), 1) for t in topics),
    )
    yield gauge(
        "kminion_kafka_topic_log_dir_total_size_bytes",
        "The size of a topic in all its partitions",
        ("topic_name",),
        (((t.name,), t.bytes) for t in topics),
    )
    for mark, says, offset in _MARKS:
        yield gauge(
            f"kminion_kafka_topic_partition_{mark}",
            says,
            ("topic_name", "partition_id"),
            (((t.name, str(p.number)), offset(p)) for t in topics for p in t.partitions),
        )
        yield gauge(
            f"kminion_kafka_topic_{mark}_sum",
            f"{says}, summed over its partitions",
            ("topic_name",),
            (((t.name,), sum(offset(p) for p in t.partitions)) for t in topics),
        )


def of_groups(groups: Sequence[Group]) -> Iterator[Metric]:
    places = [((g.name, p.topic, str(p.partition)), p) for g in groups for p in g.partitions]
    yield gauge(
        "kafka_consumergroup_current_offset",
        _OFFSET,
        _EXPORTER,
        ((at, p.committed) for at, p in places),
    )
    for name, labels in (
        ("kafka_consumergroup_lag", _EXPORTER),
        ("kminion_kafka_consumer_group_topic_partition_lag", _KMINION),
    ):
        yield gauge(name, _LAG, labels, ((at, p.lag) for at, p in places))
    yield from _sums(groups)
    for name, label in (
        ("kafka_consumergroup_members", "consumergroup"),
        ("kminion_kafka_consumer_group_members", "group_id"),
    ):
        yield gauge(
            name, "Members of a group", (label,), (((g.name,), len(g.members)) for g in groups)
        )
    yield gauge(
        "kminion_kafka_consumer_group_info",
        "Consumer group info",
        ("group_id", "state", "protocol", "member_count"),
        (((g.name, _state(g.state), g.assignor, str(len(g.members))), 1) for g in groups),
    )


def _sums(groups: Sequence[Group]) -> Iterator[Metric]:
    """By group and topic, over the partitions."""
    of_topics = [
        ((group.name, topic), list(parts))
        for group in groups
        for topic, parts in groupby(
            sorted(group.partitions, key=lambda each: each.topic), lambda each: each.topic
        )
    ]
    for offset, lag, of_topic in (
        ("kafka_consumergroup_current_offset_sum", "kafka_consumergroup_lag_sum", _EXPORTER[:2]),
        (
            "kminion_kafka_consumer_group_topic_offset_sum",
            "kminion_kafka_consumer_group_topic_lag",
            _KMINION[:2],
        ),
    ):
        yield gauge(
            offset,
            f"{_OFFSET}, summed",
            of_topic,
            ((at, _sum(parts, lambda each: each.committed)) for at, parts in of_topics),
        )
        yield gauge(
            lag,
            f"{_LAG}, summed",
            of_topic,
            ((at, _sum(parts, lambda each: each.lag)) for at, parts in of_topics),
        )


_OFFSET = "The offset that a group has committed"
_LAG = "Offsets between what a group has committed and the partition's end"
_EXPORTER = ("consumergroup", "topic", "partition")
_KMINION = ("group_id", "topic_name", "partition_id")

_MARKS: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
    ("high_water_mark", "Partition high water mark", lambda each: each.next_offset),
    ("low_water_mark", "Partition low water mark", lambda each: each.first_offset),
)
_OF_A_PARTITION: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
    ("kafka_topic_partition_current_offset", "Current offset", lambda p: p.next_offset),
    ("kafka_topic_partition_oldest_offset", "Oldest offset", lambda p: p.first_offset),
    ("kafka_topic_partition_leader", "Leader's broker id", lambda p: p.leader),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1 if the preferred broker leads",
        lambda p: p.leader == p.replicas[0] if p.replicas else 0,
    ),
    ("kafka_topic_partition_replicas", "Number of replicas", lambda p: len(p.replicas)),
    ("kafka_topic_partition_in_sync_replica", "Replicas in sync", lambda p: len(p.in_sync)),
    (
        "kafka_topic_partition_under_replicated_partition",
        "1 if replicas are missing",
        lambda p: len(p.in_sync) < len(p.replicas),
    ),
)


def _described(topic: Topic) -> tuple[str, str, str]:
    policy = topic.settings.get("cleanup.policy")
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    return str(len(topic.partitions)), str(replicas), policy.value if policy else ""


def _sum(parts: Sequence[PartitionLag], number: Callable[[PartitionLag], int | None]) -> int | None:
    known = [found for found in map(number, parts) if found is not None]
    return sum(known) if known else None


def _split(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host, port


def _state(state: str) -> str:
    """STABLE, PREPARING_REBALANCE: as the protocol says it, Stable, PreparingRebalance."""
    return "".join(word.capitalize() for word in state.split("_"))
