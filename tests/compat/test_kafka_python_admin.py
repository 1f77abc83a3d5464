"""kafka-python's admin client: it asks in other versions than librdkafka, and for other things."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    MemberToRemove,
    OffsetSpec,
)
from kafka.errors import (
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from .cluster import Cluster
from .waiting import until

# Its sockets are sometimes collected while a test still runs; see `leaked_sockets`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def client(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=cluster.bootstrap, request_timeout_ms=60_000)
    yield made
    made.close()


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    """A topic of two partitions with five records in the first."""
    cluster.create_topic(topic, partitions=2)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=1)
    for each in range(5):
        producer.send(topic, b"%d" % each, partition=0).get(8)
    producer.close()
    return topic


@pytest.fixture
def member(cluster: Cluster, made: str, group: str) -> Iterator[KafkaConsumer]:
    """A static member of the group that has its assignment."""
    reader = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=group,
        group_instance_id="desk",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
        metadata_max_age_ms=500,
    )
    reader.partitions_for_topic(made)  # a static leader that joins without metadata stays empty
    reader.subscribe([made])
    until(lambda: reader.poll(50) or reader.assignment(), "an assignment")
    yield reader
    reader.close(autocommit=False)


def test_create_describe_grow_and_delete(client: KafkaAdminClient, topic: str) -> None:
    wanted = {topic: {"num_partitions": 3, "configs": {"retention.ms": "123456"}}}
    (answer,) = client.create_topics(wanted, wait_for_metadata=True)["topics"]
    assert (answer["num_partitions"], answer["replication_factor"]) == (3, 1)
    assert answer["configs"]["retention.ms"]["value"] == "123456"
    (found,) = client.describe_topics([topic])
    assert (found["topic_id"], len(found["partitions"])) == (answer["topic_id"], 3)
    assert "READ" in found["authorized_operations"]
    client.create_partitions({topic: 5})
    until(lambda: len(client.describe_topics([topic])[0]["partitions"]) == 5, "growth")
    with pytest.raises(InvalidPartitionsError):
        client.create_partitions({topic: 2})
    client.delete_topics([topic])
    until(lambda: topic not in client.list_topics(), "the deletion")
    with pytest.raises(UnknownTopicOrPartitionError):
        client.delete_topics([topic])


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("not a name", {}, InvalidTopicError),
        (None, {"num_partitions": 0}, InvalidPartitionsError),
        (None, {"replication_factor": 7}, InvalidReplicationFactorError),
    ],
)
def test_topics_that_cannot_be_are_refused(
    client: KafkaAdminClient, topic: str, name: str | None, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.create_topics({name or topic: options})


def test_validate_only_and_already_exists(client: KafkaAdminClient, topic: str) -> None:
    client.create_topics([topic], validate_only=True)
    assert topic not in client.list_topics()
    client.create_topics([topic], wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        client.create_topics([topic])


def test_describe_cluster(cluster: Cluster, client: KafkaAdminClient) -> None:
    found = client.describe_cluster()
    assert [f"{each['host']}:{each['port']}" for each in found["brokers"]] == [cluster.bootstrap]
    assert found["controller_id"] == found["brokers"][0]["broker_id"]
    assert found["cluster_id"]


def topic_configs(client: KafkaAdminClient, topic: str, which: str = "all") -> Any:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    return client.describe_configs([resource], config_filter=which)["topic"][topic]


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_changed_and_reset(
    client: KafkaAdminClient, made: str, incremental: bool
) -> None:
    def alter(values: Any) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, made, values)
        return client.alter_configs([resource], incremental=incremental)

    assert alter({"retention.ms": "111111"}) == {"topic": {made: "OK"}}
    until(lambda: topic_configs(client, made)["retention.ms"]["value"] == "111111", "a change")
    assert set(topic_configs(client, made, "modified")) == {"retention.ms"}
    if incremental:
        alter({"cleanup.policy": (AlterConfigOp.APPEND, "compact")})
        until(
            lambda: topic_configs(client, made)["cleanup.policy"]["value"] == "delete,compact",
            "both policies",
        )
    reset = ConfigResource(ConfigResourceType.TOPIC, made, ["retention.ms"])
    assert client.reset_configs([reset], incremental=incremental) == {"topic": {made: "OK"}}
    until(lambda: "retention.ms" not in topic_configs(client, made, "modified"), "the default")


def test_a_brokers_configs(client: KafkaAdminClient) -> None:
    node = str(client.describe_cluster()["brokers"][0]["broker_id"])
    resource = ConfigResource(ConfigResourceType.BROKER, node)
    found = client.describe_configs([resource], config_filter="all")["broker"][node]
    assert found["num.partitions"]["value"] == "2"
    assert found["num.partitions"]["config_type"] == "INT"


def test_records_are_deleted_and_offsets_listed(client: KafkaAdminClient, made: str) -> None:
    here = TopicPartition(made, 0)
    assert client.delete_records({here: 2})[here]["low_watermark"] == 2

    def at(spec: Any) -> int:
        return int(client.list_partition_offsets({here: spec})[here].offset)

    assert (at(OffsetSpec.EARLIEST), at(OffsetSpec.LATEST)) == (2, 5)
    assert at(OffsetSpec.MAX_TIMESTAMP) == 4


def test_log_dirs_tell_sizes(client: KafkaAdminClient, made: str) -> None:
    (answer,) = client.describe_log_dirs({made: [0, 1]})
    (directory,) = answer["log_dirs"]
    (found,) = directory["topics"]
    sizes = {each["partition_index"]: each["partition_size"] for each in found["partitions"]}
    assert sizes[0] > 0
    assert sizes[1] == 0
    every = client.describe_log_dirs()[0]["log_dirs"][0]["topics"]
    assert made in {each["name"] for each in every}


def test_producers_and_partitions_are_described(client: KafkaAdminClient, made: str) -> None:
    (state,) = client.describe_producers([TopicPartition(made, 0)]).values()
    (active,) = state.active_producers
    assert active.last_sequence == 4
    found = client.describe_topic_partitions([made], response_partition_limit=1)
    assert len(found["topics"][0]["partitions"]) == 1
    assert found["next_cursor"]


def test_groups_are_listed_and_described(
    client: KafkaAdminClient, member: KafkaConsumer, made: str, group: str
) -> None:
    listed = {each["group_id"]: each for each in client.list_groups()}
    assert listed[group]["group_state"] == "Stable"
    found = client.describe_groups([group])[group]
    assert (found["group_state"], found["protocol_data"]) == ("Stable", "range")
    (row,) = found["members"]
    assert row["group_instance_id"] == "desk"
    assert row["member_metadata"]["topics"] == [made]
    given = row["member_assignment"]["assigned_partitions"]
    assert [(each["topic"], sorted(each["partitions"])) for each in given] == [(made, [0, 1])]


def test_a_static_member_is_removed_by_the_admin(
    client: KafkaAdminClient, member: KafkaConsumer, group: str
) -> None:
    client.remove_group_members(group, [MemberToRemove(group_instance_id="desk")])
    assert client.describe_groups([group])[group]["members"] == []


def test_offsets_of_a_group_are_set_listed_and_deleted(
    client: KafkaAdminClient, made: str, group: str
) -> None:
    one, two = TopicPartition(made, 0), TopicPartition(made, 1)
    offsets = {one: OffsetAndMetadata(3, "why", -1), two: OffsetAndMetadata(4, "", -1)}
    assert set(client.alter_group_offsets(group, offsets).values()) == {NoError}
    found = client.list_group_offsets({group: None})[group]
    assert {each: found[each].offset for each in found} == {one: 3, two: 4}
    assert found[one].metadata == "why"
    assert client.reset_group_offsets(group, {one: OffsetSpec.LATEST})[one]["offset"] == 5
    assert client.delete_group_offsets(group, [two]) == {two: NoError}
    assert set(client.list_group_offsets({group: None})[group]) == {one}
    assert client.delete_groups([group]) == {group: "OK"}
    assert group not in {each["group_id"] for each in client.list_groups()}


def test_live_and_unknown_groups_are_not_deleted(
    client: KafkaAdminClient, member: KafkaConsumer, group: str
) -> None:
    answer = client.delete_groups([group, f"{group}-not"])
    assert "NonEmptyGroup" in str(answer[group])
    assert "GroupIdNotFound" in str(answer[f"{group}-not"])
