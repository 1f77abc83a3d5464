"""Settings of topics and brokers: as the broker tells them, with where each comes from; changed all at once.

Called with the admin client of `Log`, or with one's own. What confluent-kafka raises leaves as it is: whoever
asks knows what it was for (`errors.told`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

TIMEOUT_S = 10.0
_AT_ONCE = 200
"""Topics of one question."""


class Source(Enum):
    """Who gave a setting its value."""

    TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    BROKER_RUNNING = ConfigSource.DYNAMIC_BROKER_CONFIG.value
    BROKERS_RUNNING = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
    BROKER_FILE = ConfigSource.STATIC_BROKER_CONFIG.value
    DEFAULT = ConfigSource.DEFAULT_CONFIG.value
    OTHER = -1

    @classmethod
    def _missing_(cls, value: object) -> Source:
        return cls.OTHER


class Entry(NamedTuple):
    value: str | None
    source: Source


Entries = dict[str, Entry]


def of_topic(admin: AdminClient, name: str, timeout_s: float = TIMEOUT_S) -> Entries:
    return _described(admin, ResourceType.TOPIC, name, timeout_s)


def of_topics(
    admin: AdminClient, names: Iterable[str], timeout_s: float = TIMEOUT_S, *, strict: bool = True
) -> dict[str, Entries]:
    """By topic; unless `strict`, those are left out that are gone since, or not for this user to see."""
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, Entries] = {}
    for begin in range(0, len(asked), _AT_ONCE):
        some = admin.describe_configs(asked[begin : begin + _AT_ONCE], request_timeout=timeout_s)
        for resource, future in some.items():
            try:
                found[resource.name] = _entries(future.result())
            except KafkaException:
                if strict:
                    raise
    return found


def of_broker(admin: AdminClient, node: int | None = None, timeout_s: float = TIMEOUT_S) -> Entries:
    """Of one of them where no `node` is named."""
    if node is None:
        node = next(iter(admin.list_topics(timeout=timeout_s).brokers))
    return _described(admin, ResourceType.BROKER, str(node), timeout_s)


def alter_topic(
    admin: AdminClient,
    name: str,
    given: Mapping[str, str],
    removed: Iterable[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> None:
    """There is no moment between the settings of before and those of after."""
    entries = [
        ConfigEntry(each, None, incremental_operation=AlterConfigOpType.DELETE) for each in removed
    ]
    entries += [
        ConfigEntry(each, value, incremental_operation=AlterConfigOpType.SET)
        for each, value in given.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource], request_timeout=timeout_s).values()
    future.result()


def _described(admin: AdminClient, kind: ResourceType, name: str, timeout_s: float) -> Entries:
    asked = [ConfigResource(kind, name)]
    (future,) = admin.describe_configs(asked, request_timeout=timeout_s).values()
    return _entries(future.result(timeout_s))


def _entries(found: Mapping[str, Any]) -> Entries:
    return {each.name: Entry(each.value, Source(each.source)) for each in found.values()}
