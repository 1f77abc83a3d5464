"""confluent-kafka's AdminClient: groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from .cluster import Cluster
from .confluent import admin, consumer, poll_until


@pytest.fixture
def client(cluster: Cluster) -> AdminClient:
    return admin(cluster)


@pytest.fixture
def empty_group(cluster: Cluster, topic: str, group: str) -> str:
    """A group without members that has committed 5 and 7."""
    cluster.create_topic(topic, partitions=2)
    with consumer(cluster, group) as reader:
        offsets = [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 7, metadata="note")]
        reader.commit(offsets=offsets, asynchronous=False)
    return group


@pytest.fixture
def live_group(cluster: Cluster, topic: str, group: str) -> Iterator[Consumer]:
    """A member of the group, with its assignment."""
    cluster.create_topic(topic, partitions=2)
    with consumer(cluster, group, client_id="reader-1", group_instance_id="desk") as reader:
        reader.subscribe([topic])
        poll_until([reader], lambda: len(reader.assignment()) == 2, "an assignment")
        yield reader


def outcome(future: Any) -> Any:
    try:
        return future.result(60)
    except KafkaException as error:
        return error.args[0].code()


def offsets_of(client: AdminClient, group: str, *wanted: TopicPartition) -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions(group, list(wanted) or None)
    (future,) = client.list_consumer_group_offsets([asked], require_stable=True).values()
    return {each.partition: each.offset for each in future.result(60).topic_partitions}


def test_groups_are_listed_with_their_state(
    client: AdminClient, cluster: Cluster, live_group: Consumer, topic: str, group: str
) -> None:
    idle = f"{group}-idle"
    with consumer(cluster, idle) as reader:
        reader.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    found = client.list_consumer_groups(request_timeout=60).result()
    states = {each.group_id: each.state for each in found.valid}
    assert states[group] is ConsumerGroupState.STABLE
    assert states[idle] is ConsumerGroupState.EMPTY
    assert found.errors == []
    empty = client.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(60)
    names = {each.group_id for each in empty.valid}
    assert idle in names
    assert group not in names


def test_a_live_group_is_described(
    client: AdminClient, cluster: Cluster, live_group: Consumer, topic: str, group: str
) -> None:
    found = client.describe_consumer_groups([group])[group].result(60)
    assert (found.group_id, found.state) == (group, ConsumerGroupState.STABLE)
    assert found.partition_assignor == "range"
    assert f"{found.coordinator.host}:{found.coordinator.port}" == cluster.bootstrap
    (member,) = found.members
    assert (member.client_id, member.group_instance_id) == ("reader-1", "desk")
    assert member.member_id == live_group.memberid()
    assert sorted(each.partition for each in member.assignment.topic_partitions) == [0, 1]
    assert {each.topic for each in member.assignment.topic_partitions} == {topic}


def test_an_empty_group_is_described(client: AdminClient, empty_group: str) -> None:
    found = client.describe_consumer_groups([empty_group])[empty_group].result(60)
    assert (found.state, found.members) == (ConsumerGroupState.EMPTY, [])


def test_offsets_are_listed(client: AdminClient, empty_group: str, topic: str) -> None:
    assert offsets_of(client, empty_group) == {0: 5, 1: 7}
    assert offsets_of(client, empty_group, TopicPartition(topic, 1)) == {1: 7}


def test_offsets_are_altered(client: AdminClient, empty_group: str, topic: str) -> None:
    asked = ConsumerGroupTopicPartitions(empty_group, [TopicPartition(topic, 0, 2)])
    (future,) = client.alter_consumer_group_offsets([asked]).values()
    assert future.result(60).topic_partitions[0].error is None
    assert offsets_of(client, empty_group) == {0: 2, 1: 7}


def test_offsets_of_a_live_group_are_not_altered(
    client: AdminClient, live_group: Consumer, topic: str, group: str
) -> None:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    (future,) = client.alter_consumer_group_offsets([asked]).values()
    found = outcome(future)
    code = found if isinstance(found, int) else found.topic_partitions[0].error.code()
    assert code == KafkaError.UNKNOWN_MEMBER_ID


def test_an_empty_group_can_be_deleted(client: AdminClient, empty_group: str) -> None:
    (future,) = client.delete_consumer_groups([empty_group]).values()
    assert outcome(future) is None
    assert offsets_of(client, empty_group) == {}


def test_a_live_group_cannot_be_deleted(
    client: AdminClient, live_group: Consumer, group: str
) -> None:
    (future,) = client.delete_consumer_groups([group]).values()
    assert outcome(future) == KafkaError.NON_EMPTY_GROUP


def test_an_unknown_group_cannot_be_deleted(client: AdminClient, group: str) -> None:
    (future,) = client.delete_consumer_groups([group]).values()
    assert outcome(future) == KafkaError.GROUP_ID_NOT_FOUND
