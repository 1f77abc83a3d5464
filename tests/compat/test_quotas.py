"""Client quotas: who sets them, who is slowed down by them, and by how much, on both servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import ThrottleEvent as Throttled

from .asking import produce
from .batches import batch, read_batches
from .cluster import Cluster
from .confluent import consumer
from .waiting import until
from .wire import ErrorCode, Wire

Quota = Callable[..., None]


@pytest.fixture
def quota(cluster: Cluster) -> Iterator[Quota]:
    """Set quotas for an entity, as `quota({"client-id": "x"}, producer_byte_rate=1000)`; removed at
    the end, when both servers must have none left."""
    given: list[tuple[dict[str, str | None], dict[str, float]]] = []

    def set_quota(entity: dict[str, str | None], **values: float) -> None:
        given.append((entity, values))
        assert alter(cluster, entity, values) is ErrorCode.none
        until(lambda: described(cluster, entity) == values, f"{values} to be in force")

    yield set_quota
    for entity, values in given:
        assert alter(cluster, entity, dict.fromkeys(values)) is ErrorCode.none
        until(lambda entity=entity: described(cluster, entity) == {}, "the quota to be gone")


def alter(cluster: Cluster, entity: dict[str, str | None], values: dict[str, Any]) -> ErrorCode:
    with cluster.wire() as wire:
        answer = wire.ask(
            "alter_client_quotas",
            entries=[
                {
                    "entity": [{"entity_type": k, "entity_name": v} for k, v in entity.items()],
                    "ops": [
                        {"key": key, "value": value or 0.0, "remove": value is None}
                        for key, value in values.items()
                    ],
                }
            ],
        )
    return answer.entries[0].error_code


def described(cluster: Cluster, entity: dict[str, str | None]) -> dict[str, float]:
    components = [
        {"entity_type": kind, "match_type": 1 if name is None else 0, "match": name}
        for kind, name in entity.items()
    ]
    with cluster.wire() as wire:
        answer = wire.ask("describe_client_quotas", components=components, strict=True)
    return {each.key: each.value for row in answer.entries for each in row.values}


def test_quotas_are_set_described_and_removed(cluster: Cluster, topic: str, quota: Quota) -> None:
    quota({"user": topic}, producer_byte_rate=1000.0, request_percentage=12.5)
    quota({"user": topic, "client-id": None}, consumer_byte_rate=2000.0)
    quota({"ip": "10.11.12.13"}, connection_creation_rate=7.0)
    quota({"client-id": topic}, controller_mutation_rate=1.5)
    with cluster.wire() as wire:
        component = {"entity_type": "user", "match_type": 0, "match": topic}
        found = wire.ask("describe_client_quotas", components=[component], strict=False).entries
    assert sorted(len(row.entity) for row in found) == [1, 2]


@pytest.mark.parametrize(
    ("entity", "values"),
    [
        ({"user": "u"}, {"connection_creation_rate": 1.0}),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0}),
        ({"ip": "10.0.0.1", "user": "u"}, {"connection_creation_rate": 1.0}),
        ({"user": "u"}, {"producer_byte_rate": -1.0}),
        ({"user": "u"}, {"producer_byte_rate": 1.5}),
        ({"user": "u"}, {"nope": 1.0}),
        ({"shoe": "u"}, {"producer_byte_rate": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
        ({}, {"producer_byte_rate": 1.0}),
    ],
)
def test_what_is_no_quota_is_refused(
    cluster: Cluster, entity: dict[str, str | None], values: dict[str, float]
) -> None:
    assert alter(cluster, entity, values) is ErrorCode.invalid_request


def test_a_producer_above_its_quota_is_told_and_kept_waiting(
    cluster: Cluster, topic: str, quota: Quota
) -> None:
    cluster.create_topic(topic)
    quota({"client-id": topic}, producer_byte_rate=20_000.0)
    events: list[Throttled] = []
    sender = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": topic,
            "throttle_cb": events.append,
            "linger.ms": 0,
            "batch.size": 40_000,
            "queue.buffering.max.ms": 0,
        }
    )
    for _ in range(8):  # 10 windows of a second: 200 kB at once are free, the rest is not
        sender.produce(topic, b"x" * 32_000)
        sender.poll(0)
    until(lambda: sender.poll(0.05) or events or sender.flush(0.1) == 0, "a throttle or the end")
    assert sender.flush(60) == 0
    sender.poll(0.5)
    assert events, "nobody was throttled"
    assert max(event.throttle_time for event in events) > 0.5


def test_a_consumer_above_its_quota_gets_everything_in_the_end(
    cluster: Cluster, topic: str, group: str, quota: Quota
) -> None:
    cluster.create_topic(topic)
    with cluster.wire() as wire:
        for _ in range(10):
            assert produce(wire, topic, batch([(None, b"x" * 20_000)])).error_code == 0
    quota({"client-id": group}, consumer_byte_rate=50_000.0)
    settings: dict[str, Any] = {"client_id": group, "fetch_max_bytes": 60_000}
    settings |= {"max_partition_fetch_bytes": 30_000, "message_max_bytes": 50_000}
    got = 0
    with consumer(cluster, group, auto_offset_reset="earliest", **settings) as reader:
        reader.subscribe([topic])
        deadline = time.monotonic() + 90
        while got < 10:
            assert time.monotonic() < deadline, f"{got} of 10"
            message = reader.poll(0.2)
            got += message is not None and message.error() is None


def test_a_fetch_above_its_quota_is_answered_without_data(
    cluster: Cluster, topic: str, quota: Quota
) -> None:
    cluster.create_topic(topic)
    with cluster.wire() as wire:
        for _ in range(4):
            produce(wire, topic, batch([(None, b"x" * 30_000)]))
    quota({"client-id": "wire"}, consumer_byte_rate=9000.0)
    with cluster.wire() as wire:
        throttles, data = [], []
        for _ in range(5):
            answer = _raw_fetch(wire, topic, len(data))
            throttles.append(answer.throttle_time.total_seconds())
            rows = [row for each in answer.responses for row in each.partitions]
            data += [found for row in rows for found in read_batches(row.records or b"")]
            if throttles[-1]:
                assert rows == [], "throttled, and data all the same"
                break
        assert 0 < throttles[-1] <= 12
        assert data, "nothing came before that"


def _raw_fetch(wire: Wire, topic: str, offset: int) -> Any:
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 35_000,
        "current_leader_epoch": -1,
    }
    return wire.ask(
        "fetch",
        12,
        replica_id=-1,
        max_wait=100,
        min_bytes=1,
        max_bytes=10_000_000,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
    )


def test_topics_are_created_at_the_rate_of_the_quota(
    cluster: Cluster, new_name: Callable[[], str], quota: Quota
) -> None:
    quota({"client-id": "wire"}, controller_mutation_rate=1.0)
    outcomes = []
    with cluster.wire() as wire:
        for count in (
            8,
            8,
            1,
        ):  # 11 tokens at first: the second overdraws them, the third is refused
            name = new_name()
            cluster.created.append(name)
            topic = {"name": name, "num_partitions": count, "replication_factor": 1}
            answer = wire.ask("create_topics", 7, topics=[topic], timeout=9000)
            outcomes.append((answer.topics[0].error_code, answer.throttle_time.total_seconds() > 0))
            if answer.topics[0].error_code:
                break
    assert outcomes[0] == (ErrorCode.none, False)
    assert outcomes[1] == (ErrorCode.none, False)
    assert outcomes[-1] == (ErrorCode.throttling_quota_exceeded, True)


def test_requests_that_take_too_much_of_the_brokers_time_are_throttled(
    cluster: Cluster, topic: str, quota: Quota
) -> None:
    quota({"client-id": "wire"}, request_percentage=0.01)
    with cluster.wire() as wire:
        throttled = 0.0
        begin = time.monotonic()
        while not throttled:
            assert time.monotonic() - begin < 60
            asked = time.monotonic()
            answer = wire.ask("metadata", 12, topics=None, allow_auto_topic_creation=False)
            throttled = answer.throttle_time.total_seconds()
        wire.ask("metadata", 12, topics=None, allow_auto_topic_creation=False)
        assert time.monotonic() - asked >= throttled * 0.9
        assert throttled <= 1.0
