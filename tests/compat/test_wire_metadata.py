"""Metadata, DescribeCluster, DescribeTopicPartitions, topics and configs at the level of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .cluster import Cluster
from .waiting import until
from .wire import ErrorCode, Wire


def metadata(wire: Wire, *topics: dict[str, Any], version: int = 12, create: bool = False) -> Any:
    return wire.ask("metadata", version, topics=list(topics), allow_auto_topic_creation=create)


def test_no_topics_means_brokers_only(wire: Wire, cluster: Cluster) -> None:
    answer = metadata(wire)
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == cluster.bootstrap
    assert answer.controller_id == broker.node_id
    assert answer.cluster_id
    assert answer.topics == ()


def test_null_topics_means_all(wire: Wire, cluster: Cluster, new_name: Callable[[], str]) -> None:
    made = {cluster.create_topic(new_name()) for _ in range(3)}
    answer = wire.ask("metadata", 12, topics=None)
    assert made <= {each.name for each in answer.topics}
    empty = wire.ask("metadata", 0, topics=[])
    assert made <= {each.name for each in empty.topics}


def test_a_topic_has_an_id_and_its_partitions_a_leader(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, partitions=3)
    (found,) = metadata(wire, {"name": topic}).topics
    assert (found.error_code, found.name, found.is_internal) == (ErrorCode.none, topic, False)
    assert found.topic_id is not None
    node = metadata(wire).brokers[0].node_id
    rows = sorted(found.partitions, key=lambda each: each.partition_index)
    assert [each.partition_index for each in rows] == [0, 1, 2]
    for each in rows:
        assert (each.leader_id, each.leader_epoch) == (node, 0)
        assert each.replica_nodes == each.isr_nodes == (node,)
        assert each.offline_replicas == ()


def test_metadata_by_topic_id(wire: Wire, cluster: Cluster, topic: str, new_uuid: Any) -> None:
    cluster.create_topic(topic)
    topic_id = cluster.topic_id(topic)
    asked = ({"topic_id": topic_id, "name": None}, {"topic_id": new_uuid, "name": None})
    answer = metadata(wire, *asked)
    by_id = {each.topic_id: each for each in answer.topics}
    assert (by_id[topic_id].name, by_id[topic_id].error_code) == (topic, ErrorCode.none)
    assert by_id[new_uuid].error_code is ErrorCode.unknown_topic_id
    assert by_id[new_uuid].name is None


def test_an_unknown_topic_is_an_error_and_is_not_created(wire: Wire, topic: str) -> None:
    for _ in range(2):
        (found,) = metadata(wire, {"name": topic}).topics
        assert found.error_code is ErrorCode.unknown_topic_or_partition
        assert found.partitions == ()


def test_metadata_creates_a_topic_when_allowed(wire: Wire, topic: str) -> None:
    def created() -> Any:
        (found,) = metadata(wire, {"name": topic}, create=True).topics
        return found if found.error_code is ErrorCode.none else None

    found = until(created, "the topic to be created")
    assert len(found.partitions) == 2  # num.partitions


@pytest.mark.parametrize("name", ["bad name", "bad/name", "", ".", "..", "x" * 250])
def test_an_invalid_name_is_never_created(wire: Wire, cluster: Cluster, name: str) -> None:
    (found,) = metadata(wire, {"name": name}, create=True).topics
    assert found.error_code is ErrorCode.invalid_topic_exception


def test_deleted_and_created_again_is_another_topic(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    first = cluster.topic_id(topic)
    answer = wire.ask("delete_topics", 6, topics=[{"topic_id": first, "name": None}], timeout=9000)
    assert (answer.responses[0].error_code, answer.responses[0].name) == (ErrorCode.none, topic)
    until(
        lambda: metadata(wire, {"name": topic}).topics[0].error_code is not ErrorCode.none,
        "the topic to go away",
    )
    cluster.create_topic(topic)
    assert cluster.topic_id(topic) != first


def test_describe_cluster_agrees_with_metadata(wire: Wire) -> None:
    answer = wire.ask("describe_cluster", 1, endpoint_type=1)
    other = metadata(wire)
    assert answer.error_code is ErrorCode.none
    assert (answer.cluster_id, answer.controller_id) == (other.cluster_id, other.controller_id)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [
        (each.node_id, each.host, each.port) for each in other.brokers
    ]


def test_authorized_operations_are_given_only_when_asked(
    wire: Wire, cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic)
    nothing = -(2**31)
    assert wire.ask("describe_cluster", 1, endpoint_type=1).cluster_authorized_operations == nothing
    asked = wire.ask(
        "describe_cluster", 1, endpoint_type=1, include_cluster_authorized_operations=True
    )
    assert asked.cluster_authorized_operations > 0
    (plain,) = metadata(wire, {"name": topic}).topics
    assert plain.topic_authorized_operations == nothing
    answer = wire.ask(
        "metadata", 12, topics=[{"name": topic}], include_topic_authorized_operations=True
    )
    assert answer.topics[0].topic_authorized_operations > 0


def pages(wire: Wire, topics: list[str], limit: int) -> list[tuple[str, int]]:
    """Every (topic, partition) of DescribeTopicPartitions, page by page."""
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        answer = wire.ask(
            "describe_topic_partitions",
            0,
            topics=[{"name": each} for each in topics],
            response_partition_limit=limit,
            cursor=cursor,
        )
        page = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(page) <= limit
        seen += page
        if answer.next_cursor is None:
            return seen
        after = answer.next_cursor
        cursor = {"topic_name": after.topic_name, "partition_index": after.partition_index}


def test_describe_topic_partitions_in_pages(
    wire: Wire, cluster: Cluster, new_name: Callable[[], str]
) -> None:
    first, second = sorted(cluster.create_topic(new_name(), partitions=3) for _ in range(2))
    every = [(name, partition) for name in (first, second) for partition in range(3)]
    assert pages(wire, [second, first], limit=2) == every
    assert pages(wire, [second, first], limit=100) == every


def test_describe_topic_partitions_names_unknown_topics(wire: Wire, topic: str) -> None:
    answer = wire.ask(
        "describe_topic_partitions", 0, topics=[{"name": topic}], response_partition_limit=10
    )
    (found,) = answer.topics
    assert (found.name, found.error_code) == (topic, ErrorCode.unknown_topic_or_partition)


def test_create_topics_returns_the_configs_it_took(wire: Wire, topic: str) -> None:
    configs = [{"name": "retention.ms", "value": "1234567"}]
    wanted = {"name": topic, "num_partitions": -1, "replication_factor": -1, "configs": configs}
    (made,) = wire.ask("create_topics", 7, topics=[wanted], timeout=9000).topics
    assert (made.error_code, made.num_partitions, made.replication_factor) == (ErrorCode.none, 2, 1)
    values = {each.name: each.value for each in made.configs}
    assert values["retention.ms"] == "1234567"
    assert values["cleanup.policy"] == "delete"
    assert made.topic_id is not None


def test_one_request_may_not_name_a_topic_twice(wire: Wire, topic: str) -> None:
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    answer = wire.ask("create_topics", 7, topics=[wanted, wanted], timeout=9000)
    assert {each.error_code for each in answer.topics} == {ErrorCode.invalid_request}
    (found,) = metadata(wire, {"name": topic}).topics
    assert found.error_code is ErrorCode.unknown_topic_or_partition


def test_a_manual_assignment_decides_the_partition_count(wire: Wire, topic: str) -> None:
    node = metadata(wire).brokers[0].node_id
    assignments = [{"partition_index": each, "broker_ids": [node]} for each in range(3)]
    wanted = {"name": topic, "num_partitions": -1, "replication_factor": -1}
    made = wire.ask(
        "create_topics", 7, topics=[{**wanted, "assignments": assignments}], timeout=9000
    )
    assert (made.topics[0].error_code, made.topics[0].num_partitions) == (ErrorCode.none, 3)


def test_a_manual_assignment_to_an_unknown_broker_is_refused(wire: Wire, topic: str) -> None:
    wanted = {"name": topic, "num_partitions": -1, "replication_factor": -1}
    wanted["assignments"] = [{"partition_index": 0, "broker_ids": [99]}]
    made = wire.ask("create_topics", 7, topics=[wanted], timeout=9000)
    assert made.topics[0].error_code is ErrorCode.invalid_replica_assignment


def test_an_unknown_topic_id_cannot_be_deleted(wire: Wire, topic: str, new_uuid: Any) -> None:
    gone = [{"topic_id": new_uuid, "name": None}, {"name": topic}]
    answer = wire.ask("delete_topics", 6, topics=gone, timeout=9000)
    codes = {each.name or each.topic_id: each.error_code for each in answer.responses}
    assert codes == {
        new_uuid: ErrorCode.unknown_topic_id,
        topic: ErrorCode.unknown_topic_or_partition,
    }


def test_describe_log_dirs_tells_sizes(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    answer = wire.ask("describe_log_dirs", 4, topics=[{"topic": topic, "partitions": [0, 1]}])
    (directory,) = answer.results
    assert directory.error_code is ErrorCode.none
    assert directory.log_dir
    assert 0 < directory.usable_bytes <= directory.total_bytes
    (found,) = directory.topics
    assert {each.partition_index: each.partition_size for each in found.partitions} == {0: 0, 1: 0}


def config_rows(wire: Wire, kind: int, name: str, keys: list[str] | None, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return wire.ask("describe_configs", 4, resources=[resource], **more).results[0]


def test_configs_carry_source_type_and_synonyms(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, retention_ms="777777")
    keys = ["retention.ms", "cleanup.policy"]
    answer = config_rows(wire, 2, topic, keys, include_synonyms=True, include_documentation=True)
    rows = {each.name: each for each in answer.configs}
    assert set(rows) == set(keys)
    changed, default = rows["retention.ms"], rows["cleanup.policy"]
    assert (changed.value, changed.config_source, changed.config_type) == ("777777", 1, 5)
    assert (default.value, default.config_source, default.config_type) == ("delete", 5, 7)
    assert changed.documentation
    assert not changed.read_only
    assert not changed.is_sensitive
    assert changed.synonyms[0].name == "retention.ms"
    assert [each.name for each in default.synonyms] == ["log.cleanup.policy"]


def test_configs_of_unknown_resources_are_errors(wire: Wire, topic: str) -> None:
    assert config_rows(wire, 2, topic, None).error_code is ErrorCode.unknown_topic_or_partition
    assert config_rows(wire, 4, "77", None).error_code is ErrorCode.invalid_request
    assert config_rows(wire, 99, "x", None).error_code is ErrorCode.invalid_request
