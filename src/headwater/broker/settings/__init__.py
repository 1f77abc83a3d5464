"""Settings by Kafka's own names: of the broker (`Settings`) and of each topic (`topic_config`)."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.broker.settings.definitions import BadValue, Definition, Kind
from headwater.broker.settings.topic import (
    TOPIC,
    check_topic_overrides,
    topic_config,
    validate_topic_configs,
)
from headwater.broker.settings.values import BROKER, SettingError, Settings, Source

__all__ = [
    "BadValue",
    "Definition",
    "Kind",
    "SettingError",
    "Settings",
    "Source",
    "broker_definitions",
    "check_topic_overrides",
    "topic_config",
    "topic_definitions",
    "validate_topic_configs",
]


def broker_definitions() -> Sequence[Definition]:
    """Every setting of the broker, by name."""
    return sorted(BROKER.values())


def topic_definitions() -> Sequence[Definition]:
    """Every config of a topic, by name."""
    return sorted(TOPIC.values())
