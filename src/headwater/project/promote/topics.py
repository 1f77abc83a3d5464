"""Topics here and there: which there are, their settings, making and unmaking them.

Called by `job`. While a topic is being filled its settings let nothing disappear and no time be changed;
the settings that it has here come when all of it has been compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.client import settings
from headwater.client.librdkafka import AdminClient, KafkaError, KafkaException, TopicPartition
from headwater.client.settings import Entry, Source
from headwater.client.topics import create
from headwater.client.topics import grow as more_partitions
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
    return {
        topic: {
            name: entry.value
            for name, entry in entries.items()
            if entry.value is not None and _is_carried(name, entry)
        }
        for topic, entries in settings.of_topics(admin, names, TIMEOUT_S).items()
    }


def _is_carried(name: str, entry: Entry) -> bool:
    return name in _HISTORY or entry.source is not Source.DEFAULT


def known_settings(admin: AdminClient, topic: str) -> set[str]:
    """The names of settings that topics have there."""
    return set(settings.of_topic(admin, topic, TIMEOUT_S))


def make(admin: AdminClient, name: str, partitions: int, replicas: int) -> None:
    """An empty topic that is ready to be filled."""
    try:
        create(admin, name, partitions, _WHILE_FILLING, replicas=replicas, timeout_s=TIMEOUT_S)
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


def grow(admin: AdminClient, name: str, partitions: int) -> None:
    """Give a topic as many partitions as it has here."""
    try:
        more_partitions(admin, name, partitions, TIMEOUT_S)
    except KafkaException as error:
        raise CannotPromote(
            f"Kafka gives {name} no more partitions: {error.args[0].str()}",
            hint="see its reason, and try again",
        ) from None


def remove_group(admin: AdminClient, name: str) -> None:
    """Take away a group that an earlier run has made."""
    try:
        admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result()
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID):
            raise CannotPromote(
                f"Kafka does not delete the group {name}: {error.args[0].str()}",
                hint="stop who uses it there, and try again",
            ) from None


def settle(admin: AdminClient, topic: str, wanted: Mapping[str, str]) -> list[str]:
    """Give a filled topic the settings that it has here; the names of those that Kafka does not know."""
    known = known_settings(admin, topic)
    good = {name: value for name, value in wanted.items() if name in known}
    _alter(admin, topic, good, [name for name in _WHILE_FILLING if name not in good])
    return sorted(set(wanted) - known)


def _alter(
    admin: AdminClient, topic: str, wanted: Mapping[str, str], removed: Iterable[str]
) -> None:
    try:
        settings.alter_topic(admin, topic, wanted, removed, TIMEOUT_S)
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
