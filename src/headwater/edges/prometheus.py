"""What was seen of the log, as Prometheus's metric families; pure. `metrics` looks and serves them.

Names end with their unit. Labels are names that somebody has given (topic, group, view), never values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headwater.browse.health import BrokerHealth
from headwater.capture.change import Lag
from headwater.client.groups import Group
from headwater.client.topics import Topic
from headwater.edges.services import State
from headwater.views.operate.progress import Listed


@dataclass(frozen=True)
class CaptureSeen:
    """One capture: what the log has of it, and what its database tells."""

    name: str
    phase: str
    """never run, starting anew, snapshot, streaming, unknown."""
    stored_ms: int | None = None
    lag: Lag | None = None


def gauge(
    name: str, says: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float | None]]
) -> Metric:
    """A row without a value is left out: a 0 would be an answer."""
    family = GaugeMetricFamily(name, says, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(list(values), number)
    return family


def _counter(
    name: str, says: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float | None]]
) -> Metric:
    family = CounterMetricFamily(name, says, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(list(values), number)
    return family


def of_topics(topics: Sequence[Topic]) -> Iterator[Metric]:
    places = [(t.name, str(p.number), p) for t in topics for p in t.partitions]
    labels = ("topic", "partition")
    yield gauge(
        "headwater_topic_end_offset",
        "The next offset of a partition: its rise is the rate of records",
        labels,
        (((name, number), p.next_offset) for name, number, p in places),
    )
    yield gauge(
        "headwater_topic_start_offset",
        "The first offset that a partition still has",
        labels,
        (((name, number), p.first_offset) for name, number, p in places),
    )
    yield gauge(
        "headwater_topic_bytes",
        "Bytes on disk",
        labels,
        (((name, number), p.bytes) for name, number, p in places),
    )


def of_groups(groups: Sequence[Group]) -> Iterator[Metric]:
    places = [((g.name, p.topic, str(p.partition)), p) for g in groups for p in g.partitions]
    labels = ("group", "topic", "partition")
    yield gauge(
        "headwater_group_offset",
        "The offset that a group has committed",
        labels,
        ((place, p.committed) for place, p in places),
    )
    yield gauge(
        "headwater_group_lag_records",
        "Offsets between what a group has committed and the partition's end",
        labels,
        ((place, p.lag) for place, p in places),
    )
    yield gauge(
        "headwater_group_members",
        "Consumers that are in a group now",
        ("group",),
        (((g.name,), len(g.members)) for g in groups),
    )


def of_views(views: Sequence[Listed]) -> Iterator[Metric]:
    yield gauge(
        "headwater_view_up",
        "1 where the view's store could be asked",
        ("view",),
        (((v.view,), 0 if v.trouble else 1) for v in views),
    )
    yield gauge(
        "headwater_view_version",
        "The version that readers see",
        ("view",),
        (((v.view,), v.version) for v in views),
    )
    yield gauge(
        "headwater_view_position",
        "The next offset that is not in the view",
        ("view", "topic", "partition"),
        (
            ((v.view, topic, str(partition)), offset)
            for v in views
            if v.position is not None
            for topic, partitions in sorted(v.position.offsets.items())
            for partition, offset in sorted(partitions.items())
        ),
    )
    yield gauge(
        "headwater_view_lag_records",
        "Records of its topics that are not in the view",
        ("view",),
        (((v.view,), v.lag.records if v.lag else None) for v in views),
    )
    yield gauge(
        "headwater_view_lag_seconds",
        "How long the oldest of them has waited",
        ("view",),
        (((v.view,), v.lag.seconds if v.lag else None) for v in views),
    )
    yield gauge(
        "headwater_view_freshness_seconds",
        "How long the oldest change of its last batch had waited when the view showed it",
        ("view",),
        (((v.view,), v.freshness_s) for v in views),
    )


def of_captures(captures: Sequence[CaptureSeen]) -> Iterator[Metric]:
    yield gauge(
        "headwater_capture_streaming",
        "1 where the first snapshot is complete and changes are followed",
        ("capture",),
        (((c.name,), c.phase == "streaming") for c in captures),
    )
    yield gauge(
        "headwater_capture_stored_timestamp_seconds",
        "When it last stored its position, with or without changes",
        ("capture",),
        (((c.name,), None if c.stored_ms is None else c.stored_ms / 1000) for c in captures),
    )
    yield gauge(
        "headwater_capture_lag_bytes",
        "How far the log is behind the database, where that can be measured in bytes",
        ("capture",),
        (((c.name,), c.lag.bytes if c.lag else None) for c in captures),
    )
    yield gauge(
        "headwater_capture_lag_seconds",
        "The same in seconds",
        ("capture",),
        (((c.name,), c.lag.seconds if c.lag else None) for c in captures),
    )


def of_broker(health: BrokerHealth | None) -> Iterator[Metric]:
    if health is None:  # Apache Kafka, or it has not told anything yet
        return
    tasks = sorted(health.tasks.items())
    yield _counter(
        "headwater_broker_task_failures",
        "Failures of a task of the broker since its start",
        ("task",),
        (((name,), task.get("failures")) for name, task in tasks),
    )
    yield gauge(
        "headwater_broker_task_failing",
        "1 while a task of the broker fails; it is tried again",
        ("task",),
        (((name,), bool(task.get("failures_in_a_row"))) for name, task in tasks),
    )
    turn_ms = health.loop.get("longest_turn_ms")
    yield gauge(
        "headwater_broker_loop_longest_turn_seconds",
        "The longest time since the broker's start in which it served nobody",
        (),
        [((), None if turn_ms is None else turn_ms / 1000)],
    )
    yield _counter(
        "headwater_broker_loop_slow_turns",
        "Turns of the event loop above event.loop.turn.warn.ms",
        (),
        [((), health.loop.get("slow_turns"))],
    )
    yield from _of_room(health)
    yield gauge(
        "headwater_broker_troubles",
        "What headwater status calls trouble: failing tasks, damage, a full disk",
        (),
        [((), len(health.troubles))],
    )


def _of_room(health: BrokerHealth) -> Iterator[Metric]:
    disk = health.disk or {}
    yield gauge(
        "headwater_broker_disk_free_bytes",
        "Room on the disk of the log",
        (),
        [((), disk.get("free_bytes"))],
    )
    yield gauge(
        "headwater_broker_disk_refusing",
        "1 while new records are refused, because the disk is nearly full",
        (),
        [((), disk.get("refusing"))],
    )
    counts = health.subjects.get("connections", {})
    yield _counter(
        "headwater_broker_connections_refused",
        "Clients that max.connections, max.connections.per.ip or a quota kept out",
        (),
        [((), counts.get("refused", 0))],
    )
    yield _counter(
        "headwater_broker_handshakes_failed",
        "TLS handshakes that failed, or took too long",
        (),
        [((), counts.get("handshakes_failed", 0))],
    )


def of_services(services: Mapping[str, State]) -> Iterator[Metric]:
    rows = sorted(services.items())
    yield gauge(
        "headwater_edge_service_running",
        "1 while a bridge, a subscription, a rule runs; 0 while it waits to be started again",
        ("service",),
        (((name,), state.doing == "running") for name, state in rows),
    )
    yield gauge(
        "headwater_edge_service_failures",
        "Its failures in a row",
        ("service",),
        (((name,), state.failures) for name, state in rows),
    )


def of_looks(troubles: Mapping[str, str | None]) -> Iterator[Metric]:
    yield gauge(
        "headwater_up",
        "1 where this part could be looked at for this scrape; else its metrics are left out",
        ("part",),
        (((part,), trouble is None) for part, trouble in sorted(troubles.items())),
    )
