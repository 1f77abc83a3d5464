"""confluent-kafka's AdminClient: topics, partitions, records, the cluster itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from .cluster import Cluster
from .confluent import admin, code_of, consumer, producer, send, take
from .waiting import until


@pytest.fixture
def client(cluster: Cluster) -> AdminClient:
    return admin(cluster)


def create(client: AdminClient, *topics: NewTopic, **options: Any) -> dict[str, Any]:
    """Name → None, or the error's code."""
    results = client.create_topics(list(topics), operation_timeout=60, **options)
    return {name: outcome(future) for name, future in results.items()}


def outcome(future: Any) -> Any:
    try:
        return future.result(60)
    except KafkaException as error:
        return error.args[0].code()


def test_create_and_delete(client: AdminClient, new_name: Callable[[], str]) -> None:
    first, second = new_name(), new_name()
    assert create(client, NewTopic(first, 3, 1), NewTopic(second, 1, 1)) == {
        first: None,
        second: None,
    }
    topics = until(lambda: listed(client, first, second), "both topics")
    assert len(topics[first].partitions) == 3
    for name, future in client.delete_topics([first], operation_timeout=60).items():
        assert (name, future.result(60)) == (first, None)
    until(lambda: first not in client.list_topics(timeout=60).topics, "the deletion")
    assert second in client.list_topics(timeout=60).topics


def listed(client: AdminClient, *names: str) -> Any:
    topics = client.list_topics(timeout=60).topics
    return topics if set(names) <= set(topics) else None


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"topic": "bad name!"}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": "x" * 250}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": ".."}, KafkaError.TOPIC_EXCEPTION),
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"num_partitions": -2}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 0}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 2}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"no.such.config": "1"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"cleanup.policy": "shred"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"segment.bytes": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_topics_that_cannot_be_are_refused(
    cluster: Cluster, topic: str, wanted: dict[str, Any], code: int
) -> None:
    values = {"topic": topic, "num_partitions": 1, "replication_factor": 1, **wanted}
    if values["num_partitions"] < -1:
        # librdkafka checks the count itself; the broker is asked for it through the wire
        with cluster.wire() as wire:
            asked = {"name": topic, "num_partitions": -2, "replication_factor": 1}
            answer = wire.ask("create_topics", 7, topics=[asked], timeout=9000)
            assert answer.topics[0].error_code == code
        return
    client = admin(cluster)
    assert create(client, NewTopic(**values)) == {values["topic"]: code}
    assert values["topic"] not in client.list_topics(timeout=60).topics


def test_a_topic_that_exists_is_not_made_again(
    cluster: Cluster, client: AdminClient, topic: str
) -> None:
    cluster.create_topic(topic)
    assert create(client, NewTopic(topic, 1, 1)) == {topic: KafkaError.TOPIC_ALREADY_EXISTS}


def test_names_that_differ_only_in_dot_and_underscore_collide(
    cluster: Cluster, client: AdminClient, topic: str
) -> None:
    cluster.create_topic(f"{topic}.a")
    assert create(client, NewTopic(f"{topic}_a", 1, 1)) == {
        f"{topic}_a": KafkaError.TOPIC_EXCEPTION
    }


def test_validate_only_makes_nothing(client: AdminClient, topic: str) -> None:
    assert create(client, NewTopic(topic, 1, 1), validate_only=True) == {topic: None}
    assert create(client, NewTopic(topic, 0, 1), validate_only=True) == {
        topic: KafkaError.INVALID_PARTITIONS
    }
    assert topic not in client.list_topics(timeout=60).topics


def test_deleting_an_unknown_topic_is_an_error(client: AdminClient, topic: str) -> None:
    (future,) = client.delete_topics([topic]).values()
    assert outcome(future) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_created_again_is_empty(
    cluster: Cluster, client: AdminClient, topic: str, group: str
) -> None:
    cluster.create_topic(topic)
    send(producer(cluster), topic, [b"old"] * 5)
    client.delete_topics([topic])[topic].result(60)
    until(lambda: topic not in client.list_topics(timeout=60).topics, "the deletion")
    cluster.create_topic(topic)
    (done,) = send(producer(cluster), topic, [b"new"])
    assert done.offset() == 0
    with consumer(cluster, group) as reader:
        reader.subscribe([topic])
        assert [each.value() for each in take(reader, 1)] == [b"new"]


def test_partitions_can_be_added_and_not_taken(
    cluster: Cluster, client: AdminClient, topic: str
) -> None:
    cluster.create_topic(topic, partitions=2)

    def grow(count: int, **options: Any) -> Any:
        (future,) = client.create_partitions([NewPartitions(topic, count)], **options).values()
        return outcome(future)

    assert grow(5, validate_only=True) is None
    assert len(client.list_topics(topic, 5).topics[topic].partitions) == 2
    assert grow(4) is None
    until(lambda: len(client.list_topics(topic, 5).topics[topic].partitions) == 4, "growth")
    assert grow(4) == KafkaError.INVALID_PARTITIONS
    assert grow(3) == KafkaError.INVALID_PARTITIONS


def test_partitions_of_an_unknown_topic_cannot_be_added(client: AdminClient, topic: str) -> None:
    (future,) = client.create_partitions([NewPartitions(topic, 4)]).values()
    assert outcome(future) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_cluster(cluster: Cluster, client: AdminClient) -> None:
    found = client.describe_cluster(request_timeout=60).result()
    assert [f"{each.host}:{each.port}" for each in found.nodes] == [cluster.bootstrap]
    assert found.controller.id == found.nodes[0].id
    assert found.cluster_id == client.list_topics(timeout=60).cluster_id
    detailed = client.describe_cluster(
        include_authorized_operations=True, request_timeout=60
    ).result()
    assert detailed.authorized_operations


def test_describe_topics(cluster: Cluster, client: AdminClient, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)
    missing = f"{topic}-not"
    futures = client.describe_topics(
        TopicCollection([topic, missing]), include_authorized_operations=True
    )
    found = futures[topic].result(60)
    assert (found.name, found.is_internal, len(found.partitions)) == (topic, False, 3)
    node = found.partitions[0].leader.id
    assert [each.id for each in found.partitions] == [0, 1, 2]
    assert {each.isr[0].id for each in found.partitions} == {node}
    assert str(found.topic_id)
    assert found.authorized_operations
    assert outcome(futures[missing]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_list_offsets(cluster: Cluster, client: AdminClient, topic: str) -> None:
    cluster.create_topic(topic)
    writer = producer(cluster)
    start = int(time.time() * 1000) - 60_000
    for each, when in enumerate((0, 30, 10)):
        writer.produce(topic, b"%d" % each, timestamp=start + when)
    writer.flush(60)

    def at(spec: Any, **options: Any) -> tuple[int, int]:
        futures = client.list_offsets({TopicPartition(topic, 0): spec}, **options)
        result = next(iter(futures.values())).result(60)
        return result.offset, result.timestamp

    assert at(OffsetSpec.earliest())[0] == 0
    assert at(OffsetSpec.latest())[0] == 3
    assert at(OffsetSpec.max_timestamp()) == (1, start + 30)
    assert at(OffsetSpec.for_timestamp(start + 5)) == (1, start + 30)
    assert at(OffsetSpec.for_timestamp(start + 31))[0] == -1
    assert at(OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED)[0] == 3


def test_delete_records(cluster: Cluster, client: AdminClient, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    send(producer(cluster), topic, [b"%d" % each for each in range(10)])

    def delete(offset: int) -> Any:
        (future,) = client.delete_records([TopicPartition(topic, 0, offset)]).values()
        return outcome(future)

    assert delete(6).low_watermark == 6
    assert delete(11) == KafkaError.OFFSET_OUT_OF_RANGE
    with consumer(cluster, group) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert [each.offset() for each in take(reader, 4)] == [6, 7, 8, 9]


def test_writing_to_an_impossible_name_is_refused(cluster: Cluster, topic: str) -> None:
    with pytest.raises(KafkaException) as raised:
        send(producer(cluster), f"{topic} not a topic", [b"v"])
    assert code_of(raised) == KafkaError.TOPIC_EXCEPTION
