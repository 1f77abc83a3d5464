"""What admin clients ask about a cluster, and what one node answers: the same on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import InvalidReplicationAssignmentError, NoError

from .cluster import Cluster
from .waiting import until
from .wire import ErrorCode, Wire

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
OURS = {"group.version", "metadata.version", "share.version", "transaction.version"}


@pytest.fixture
def client(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=cluster.bootstrap, request_timeout_ms=60_000)
    yield made
    made.close()


def api_versions(wire: Wire, version: int) -> Any:
    software = {"client_software_name": "wire", "client_software_version": "1"}
    return wire.ask("api_versions", version, **software)


def test_features_have_the_same_levels(wire: Wire) -> None:
    answer = api_versions(wire, 4)
    supported = {
        each.name: (each.min_version, each.max_version) for each in answer.supported_features
    }
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert {name: supported[name] for name in OURS} == {
        "group.version": (0, 1),
        "metadata.version": (7, 30),
        "share.version": (0, 1),
        "transaction.version": (0, 2),
    }
    assert {name: levels[name] for name in OURS} == {
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "transaction.version": 2,
    }
    assert answer.finalized_features_epoch >= 0
    assert answer.zk_migration_ready is False


def test_an_older_client_is_not_told_of_features_that_start_at_nothing(wire: Wire) -> None:
    assert [each.name for each in api_versions(wire, 3).supported_features] == ["metadata.version"]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("feature", "level", "kind", "says"),
    [
        ("share.version", 1, 1, None),
        ("nope", 1, 1, "does not support this feature"),
        ("transaction.version", 3, 1, "only supports versions 0-2"),
        ("metadata.version", 29, 1, "Can't downgrade"),
        ("metadata.version", 29, 2, "might delete metadata"),
        ("transaction.version", -1, 1, "cannot be less than 0"),
    ],
)
def test_levels_that_may_not_be_are_refused_in_the_same_words(
    wire: Wire, version: int, feature: str, level: int, kind: int, says: str | None
) -> None:
    if version == 0 and kind == 2:
        pytest.skip("Kafka 4.3 takes no downgrade in version 0, though it has a field for it")
    update: dict[str, Any] = {"feature": feature, "max_version_level": level}
    update |= {"allow_downgrade": kind != 1} if version == 0 else {"upgrade_type": kind}
    more = {} if version == 0 else {"validate_only": True}
    answer = wire.ask("update_features", version, timeout=60_000, feature_updates=[update], **more)
    if says is None:
        assert answer.error_code is ErrorCode.none
    else:
        assert answer.error_code is ErrorCode.invalid_update_version
        assert says in answer.error_message


def test_a_feature_is_lowered_and_raised_again(cluster: Cluster) -> None:
    def set_level(level: int, kind: int) -> None:
        update = {"feature": "transaction.version", "max_version_level": level}
        update["upgrade_type"] = kind
        with cluster.wire() as wire:
            answer = wire.ask("update_features", 1, timeout=9000, feature_updates=[update])
        assert answer.error_code is ErrorCode.none, answer

    def level() -> int:
        with cluster.wire() as wire:
            found = api_versions(wire, 4).finalized_features
        return {each.name: each.max_version_level for each in found}["transaction.version"]

    set_level(1, 2)
    try:
        until(lambda: level() == 1, "the lower level")
    finally:
        set_level(2, 1)
    until(lambda: level() == 2, "the higher level")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_this_node(wire: Wire, version: int) -> None:
    asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = wire.ask("describe_quorum", version, topics=asked)
    (row,) = answer.topics[0].partitions
    assert (answer.error_code, row.error_code, row.leader_id) == (0, 0, 1)
    (voter,) = row.current_voters
    assert (voter.replica_id, row.observers) == (1, ())
    assert voter.log_end_offset >= row.high_watermark > -1


def test_the_quorum_of_another_topic_is_not_there(wire: Wire) -> None:
    asked = [{"topic_name": "orders", "partitions": [{"partition_index": 0}]}]
    answer = wire.ask("describe_quorum", topics=asked)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_is_not_needed(cluster: Cluster, wire: Wire, topic: str, version: int) -> None:
    cluster.create_topic(topic, partitions=2)
    asked = [{"topic": topic, "partitions": (0, 9)}, {"topic": "nope", "partitions": (0,)}]
    kind = {"election_type": 0} if version else {}
    answer = wire.ask("elect_leaders", version, timeout=60_000, topic_partitions=asked, **kind)
    rows = {
        (each.topic, row.partition_id): row.error_code
        for each in answer.replica_election_results
        for row in each.partition_result
    }
    assert rows == {
        (topic, 0): ErrorCode.election_not_needed,
        (topic, 9): ErrorCode.unknown_topic_or_partition,
        ("nope", 0): ErrorCode.unknown_topic_or_partition,
    }


def test_confluent_elects_leaders(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    future = admin.elect_leaders(ElectionType.PREFERRED, [Partition(topic, 0)])
    ((_, error),) = future.result(60).items()
    assert error is not None
    assert error.name() == "ELECTION_NOT_NEEDED"


def test_kafka_python_moves_partitions_to_where_they_are(
    cluster: Cluster, client: KafkaAdminClient, topic: str
) -> None:
    cluster.create_topic(topic, partitions=2)
    here = TopicPartition(topic, 0)
    assert client.alter_partition_reassignments({here: [1]}) == {here: None}
    assert client.alter_partition_reassignments({here: [1, 2]}) == {
        here: InvalidReplicationAssignmentError
    }
    cancelled = client.alter_partition_reassignments({here: None})[here]
    assert cancelled.errno == ErrorCode.no_reassignment_in_progress
    assert client.list_partition_reassignments() == {}


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ((1,), ErrorCode.none),
        ((), ErrorCode.invalid_replica_assignment),
        ((1, 1), ErrorCode.invalid_replica_assignment),
        ((2,), ErrorCode.invalid_replica_assignment),
        (None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_reassignments_in_every_version(
    cluster: Cluster, wire: Wire, topic: str, replicas: Any, code: ErrorCode
) -> None:
    cluster.create_topic(topic)
    for version in wire.common("alter_partition_reassignments"):
        rows = [{"partition_index": 0, "replicas": replicas}]
        asked = [{"name": topic, "partitions": rows}]
        answer = wire.ask("alter_partition_reassignments", version, timeout=60_000, topics=asked)
        assert answer.responses[0].partitions[0].error_code is code


def test_a_partition_stays_in_the_only_folder(
    cluster: Cluster, client: KafkaAdminClient, topic: str
) -> None:
    cluster.create_topic(topic)
    with cluster.wire() as wire:
        folder = wire.ask("describe_log_dirs", 4, topics=None).results[0].log_dir
    place = (topic, 0, 1)
    (found,) = client.alter_replica_log_dirs({place: folder}).values()
    assert found is NoError
    (found,) = client.alter_replica_log_dirs({place: "/nowhere/at/all"}).values()
    assert found.errno == ErrorCode.log_dir_not_found


def test_kafka_python_describes_quorum_and_resources(
    cluster: Cluster, client: KafkaAdminClient, topic: str
) -> None:
    cluster.create_topic(topic)
    assert "__cluster_metadata" in repr(client.describe_metadata_quorum())
    listed = client.list_config_resources(["TOPIC", "BROKER"])
    listed = {str(kind).lower(): names for kind, names in listed.items()}
    assert topic in listed["topic"]
    assert listed["broker"] == ["1"]
    described = repr(client.describe_features())
    assert all(name in described for name in OURS)


def test_a_broker_that_is_not_there_cannot_be_unregistered(wire: Wire) -> None:
    answer = wire.ask("unregister_broker", 0, broker_id=77)
    assert answer.error_code is ErrorCode.broker_id_not_registered


def test_delegation_tokens_are_not_for_strangers(wire: Wire) -> None:
    for version in wire.common("describe_delegation_token"):
        answer = wire.ask("describe_delegation_token", version, owners=None)
        assert answer.error_code is ErrorCode.delegation_token_request_not_allowed


@pytest.mark.parametrize(
    ("kind", "code"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
def test_controllers_are_not_described_here(wire: Wire, kind: int, code: ErrorCode) -> None:
    answer = wire.ask("describe_cluster", 2, endpoint_type=kind)
    assert answer.error_code is code
