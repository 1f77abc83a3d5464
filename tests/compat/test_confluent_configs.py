"""confluent-kafka's AdminClient: configs of topics and brokers, described and changed."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from .cluster import Cluster
from .confluent import admin
from .waiting import until


@pytest.fixture
def client(cluster: Cluster) -> AdminClient:
    return admin(cluster)


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    return cluster.create_topic(topic, retention_ms="7654321")


def describe(client: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    (future,) = client.describe_configs([ConfigResource(kind, name)]).values()
    return future.result(60)


def change(client: AdminClient, topic: str, *entries: tuple[str, Any, Any], **options: Any) -> Any:
    """Alter incrementally: (name, operation, value); None, or the error's code."""
    changes = [
        ConfigEntry(name, value, incremental_operation=operation)
        for name, operation, value in entries
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    (future,) = client.incremental_alter_configs([resource], **options).values()
    try:
        return future.result(60)
    except KafkaException as error:
        return error.args[0].code()


def value_of(client: AdminClient, topic: str, name: str) -> str | None:
    return describe(client, ResourceType.TOPIC, topic)[name].value


SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT


def test_what_was_set_and_what_is_default(client: AdminClient, made: str) -> None:
    configs = describe(client, ResourceType.TOPIC, made)
    assert configs["retention.ms"].value == "7654321"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not configs["retention.ms"].is_default
    assert not configs["retention.ms"].is_read_only
    defaults = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "1000",  # log.segment.delete.delay.ms, as the servers were started
        "flush.messages": "9223372036854775807",
        "flush.ms": "9223372036854775807",
        "index.interval.bytes": "4096",
        "max.compaction.lag.ms": "9223372036854775807",
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        "preallocate": "false",
        "retention.bytes": "-1",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0",
        "segment.ms": "604800000",
        "unclean.leader.election.enable": "false",
    }
    assert {name: configs[name].value for name in defaults} == defaults
    assert configs["segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["segment.bytes"].is_default


def test_a_brokers_configs(client: AdminClient) -> None:
    node = client.describe_cluster().result(60).nodes[0].id
    configs = describe(client, ResourceType.BROKER, str(node))
    expected = {
        "num.partitions": "2",
        "auto.create.topics.enable": "true",
        "message.max.bytes": "1048588",
        "log.retention.check.interval.ms": "200",
        "offsets.retention.minutes": "10080",
        "group.initial.rebalance.delay.ms": "0",
        "log.segment.bytes": "1073741824",
        "log.cleanup.policy": "delete",
        "compression.type": "producer",
    }
    assert {name: configs[name].value for name in expected} == expected
    assert configs["num.partitions"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert configs["log.segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["num.partitions"].is_read_only
    assert not configs["log.cleaner.threads"].is_read_only


def test_configs_of_an_unknown_topic_are_an_error(client: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as raised:
        describe(client, ResourceType.TOPIC, topic)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_set_and_delete(client: AdminClient, made: str) -> None:
    assert change(client, made, ("segment.ms", SET, "55555"), ("retention.ms", DELETE, "")) is None
    until(lambda: value_of(client, made, "segment.ms") == "55555", "the change")
    configs = describe(client, ResourceType.TOPIC, made)
    assert configs["retention.ms"].value == "604800000"
    assert configs["retention.ms"].is_default


def test_append_and_subtract_on_a_list(client: AdminClient, made: str) -> None:
    assert change(client, made, ("cleanup.policy", APPEND, "compact")) is None
    until(lambda: value_of(client, made, "cleanup.policy") == "delete,compact", "both policies")
    assert change(client, made, ("cleanup.policy", SUBTRACT, "delete")) is None
    until(lambda: value_of(client, made, "cleanup.policy") == "compact", "one policy")


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (("no.such.config", SET, "1"), KafkaError.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), KafkaError.INVALID_CONFIG),
        (("retention.ms", SET, "-5"), KafkaError.INVALID_CONFIG),
        (("retention.ms", APPEND, "5"), KafkaError.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "shred"), KafkaError.INVALID_CONFIG),
        (("min.cleanable.dirty.ratio", SET, "1.5"), KafkaError.INVALID_CONFIG),
        (("compression.type", SET, "rar"), KafkaError.INVALID_CONFIG),
    ],
)
def test_changes_that_cannot_be_are_refused(
    client: AdminClient, made: str, entry: tuple[str, Any, str], code: int
) -> None:
    assert change(client, made, entry, ("segment.ms", SET, "55555")) == code
    assert value_of(client, made, "segment.ms") == "604800000"


def test_validate_only_changes_nothing(client: AdminClient, made: str) -> None:
    assert change(client, made, ("segment.ms", SET, "55555"), validate_only=True) is None
    assert value_of(client, made, "segment.ms") == "604800000"


def test_a_change_to_an_unknown_topic_is_an_error(client: AdminClient, topic: str) -> None:
    assert change(client, topic, ("segment.ms", SET, "1")) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_older_alter_replaces_everything(client: AdminClient, made: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, made, set_config={"segment.ms": "55555"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        (future,) = client.alter_configs([resource]).values()
    assert future.result(60) is None
    until(lambda: value_of(client, made, "segment.ms") == "55555", "the change")
    assert value_of(client, made, "retention.ms") == "604800000"


def test_a_brokers_dynamic_config_can_be_set_and_taken_back(client: AdminClient) -> None:
    node = str(client.describe_cluster().result(60).nodes[0].id)

    def alter(operation: Any, value: str) -> None:
        entry = ConfigEntry("log.cleaner.threads", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
        (future,) = client.incremental_alter_configs([resource]).values()
        assert future.result(60) is None

    def now() -> Any:
        return describe(client, ResourceType.BROKER, node)["log.cleaner.threads"]

    alter(SET, "2")
    found = until(lambda: now() if now().value == "2" else None, "the change")
    assert found.source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    alter(DELETE, "")
    until(lambda: now().value == "1", "the default")


def test_a_brokers_read_only_config_cannot_be_changed(client: AdminClient) -> None:
    node = str(client.describe_cluster().result(60).nodes[0].id)
    entry = ConfigEntry("num.partitions", "5", incremental_operation=SET)
    resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    (future,) = client.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException) as raised:
        future.result(60)
    assert raised.value.args[0].code() == KafkaError.INVALID_REQUEST
