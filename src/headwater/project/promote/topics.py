"""Topics here and there: which there are, their settings, making and unmaking them.

Called by `job`. While a topic is being filled its settings let nothing disappear and no time be changed;
the settings that it has here come when all of it has been compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from headwater.project.promote.errors import CannotPromote

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The brokers' own: positions of groups are moved as such, the rest belongs to a broker."""
TIMEOUT_S = 60.0
_WHILE_FILLING = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
    "message.timestamp.after.max.ms": str((1 << 63) - 1),
    "max.message.bytes": str(100 << 20),
}


_HISTORY = frozenset(
    {
        "cleanup.policy",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "message.timestamp.type",
        "min.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
    }
)
"""What decides which records stay, and with which times. Every topic gets these as they hold for it here,
wherever they come from: the other cluster's defaults would end a history that this one keeps."""


def effective_settings(admin: AdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """What anybody has set for each topic, itself or by the broker's settings; and what keeps its records."""
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not asked:
        return {}
    found = {}
    for resource, future in admin.describe_configs(asked, request_timeout=TIMEOUT_S).items():
        entries: Mapping[str, Any] = future.result()
        found[resource.name] = {
            entry.name: entry.value
            for entry in entries.values()
            if entry.value is not None and _is_carried(entry)
        }
    return found


def _is_carried(entry: Any) -> bool:
    return entry.name in _HISTORY or entry.source != ConfigSource.DEFAULT_CONFIG.value


def known_settings(admin: AdminClient, topic: str) -> set[str]:
    """The names of settings that topics have there."""
    asked = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = admin.describe_configs([asked], request_timeout=TIMEOUT_S).values()
    entries: Mapping[str, Any] = future.result()
    return set(entries)


def make(admin: AdminClient, name: str, partitions: int, replicas: int) -> None:
    """An empty topic that is ready to be filled."""
    new = NewTopic(
        name, num_partitions=partitions, replication_factor=replicas, config=_WHILE_FILLING
    )
    try:
        admin.create_topics([new], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[
            name
        ].result()
    except KafkaException as error:
        raise CannotPromote(
            f"Kafka does not make the topic {name}: {error.args[0].str()}",
            hint="see its reason; --replication-factor says how many copies it keeps",
        ) from None


def hold(admin: AdminClient, name: str) -> None:
    """Let nothing of a topic disappear that an earlier run has filled, and perhaps settled."""
    _alter(admin, name, _WHILE_FILLING, ())


def remove(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[
        name
    ].result()


def settle(admin: AdminClient, topic: str, wanted: Mapping[str, str]) -> list[str]:
    """Give a filled topic the settings that it has here; the names of those that Kafka does not know."""
    known = known_settings(admin, topic)
    good = {name: value for name, value in wanted.items() if name in known}
    _alter(admin, topic, good, [name for name in _WHILE_FILLING if name not in good])
    return sorted(set(wanted) - known)


def _alter(
    admin: AdminClient, topic: str, wanted: Mapping[str, str], removed: Iterable[str]
) -> None:
    """All at once: there is no moment between the settings of before and those of after."""
    entries = [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in removed
    ]
    entries += [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values()
    try:
        future.result()
    except KafkaException as error:
        raise CannotPromote(
            f"Kafka refuses the settings of {topic}: {error.args[0].str()}",
            hint="change them with headwater topics, or allow them in Kafka, and try again",
        ) from None


def begin_at(admin: AdminClient, starts: Mapping[tuple[str, int], int]) -> None:
    """Let partitions begin where they must."""
    wanted = [TopicPartition(topic, number, at) for (topic, number), at in starts.items() if at]
    if not wanted:
        return
    asked = admin.delete_records(wanted, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)
    for future in asked.values():
        future.result()
