"""What a change of configs amounts to: pure decisions for AlterConfigs and IncrementalAlterConfigs.

`requests` asks `topic_change` or `broker_change` for the configs that a resource must have after a
list of `Operation`s, and the catalogue then writes them. A change that may not be is a `Refusal`,
with the code and the sentence that Apache Kafka answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import CONFIG_VALUE_BYTES_MAX
from headwater.broker.settings.definitions import (
    CLUSTER_WIDE,
    BadValue,
    Definition,
    Kind,
    parse,
    render,
)
from headwater.broker.settings.group import GROUP, validate_group_configs
from headwater.broker.settings.subscription import (
    SUBSCRIPTION,
    BadInterval,
    validate_subscription,
)
from headwater.broker.settings.topic import TOPIC, topic_default, validate_topic_configs
from headwater.broker.settings.values import BROKER, Settings, Source, unknown_setting


class Resource(IntEnum):
    """What configs belong to: the protocol's `resource_type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Verb(IntEnum):
    """The protocol's `config_operation`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Operation(NamedTuple):
    name: str
    verb: int
    value: str | None


class Refusal(Exception):
    """A resource that is not changed, or not described, and why."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def check_operations(operations: Sequence[Operation]) -> None:
    """What no request may have, whatever the resource."""
    if len({operation.name for operation in operations}) < len(operations):
        raise Refusal(ErrorCode.invalid_request, "Error due to duplicate config keys")
    for operation in operations:
        if operation.verb not in Verb.__members__.values():
            raise Refusal(ErrorCode.invalid_request, f"Unknown config operation {operation.verb}")
    nulls = [each.name for each in operations if each.value is None and each.verb != Verb.DELETE]
    if nulls:
        sentence = f"Null value not supported for : {','.join(nulls)}"
        raise Refusal(ErrorCode.invalid_request, sentence)


def topic_change(
    settings: Settings, current: Mapping[str, str], operations: Sequence[Operation]
) -> dict[str, str]:
    """A topic's configs after these operations."""
    inherited = {
        name: topic_default(settings, definition)
        for name, definition in TOPIC.items()
        if definition.kind is Kind.LIST
    }
    configs = _applied(TOPIC, current, inherited, operations)
    try:
        validate_topic_configs(configs, settings)
    except BadValue as error:
        raise Refusal(ErrorCode.invalid_config, str(error)) from None
    return configs


def group_change(
    settings: Settings, current: Mapping[str, str], operations: Sequence[Operation]
) -> dict[str, str]:
    """A group's own configs after these operations."""
    configs = _applied(GROUP, current, {}, operations)
    try:
        validate_group_configs(configs, settings)
    except BadValue as error:
        raise Refusal(ErrorCode.invalid_config, str(error)) from None
    return configs


def subscription_change(
    current: Mapping[str, str], operations: Sequence[Operation]
) -> dict[str, str]:
    """A client metrics subscription after these operations."""
    configs = _applied(SUBSCRIPTION, current, {}, operations)
    try:
        validate_subscription(configs)
    except BadInterval as error:
        raise Refusal(ErrorCode.invalid_request, str(error)) from None
    except BadValue as error:
        raise Refusal(ErrorCode.invalid_config, str(error)) from None
    return configs


def broker_change(settings: Settings, node: str, operations: Sequence[Operation]) -> dict[str, str]:
    """The dynamic settings of one broker, or ("") of all, after these operations."""
    _check_dynamic(node, [each.name for each in operations if each.verb != Verb.DELETE])
    weakest = Source.DYNAMIC_BROKER if node else Source.DYNAMIC_DEFAULT
    inherited: dict[str, list[str]] = {
        name: next((s.value for s in settings.explain(name) if s.source >= weakest), [])
        for name, definition in BROKER.items()
        if definition.kind is Kind.LIST
    }
    configs = _applied(BROKER, settings.dynamic(node), inherited, operations)
    try:
        settings.check_dynamic(node, configs)
    except BadValue as error:
        raise Refusal(ErrorCode.invalid_request, str(error)) from None
    return configs


def _check_dynamic(node: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in BROKER:  # Kafka keeps it for plug-ins; here there is nobody to read it
            raise Refusal(ErrorCode.invalid_config, unknown_setting(name))
    fixed = [name for name in names if not BROKER[name].dynamic]
    if fixed:
        sentence = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise Refusal(ErrorCode.invalid_request, sentence)
    single = [name for name in names if BROKER[name].update != CLUSTER_WIDE]
    if single and not node:
        raise Refusal(
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(single)}]",
        )


def _applied(
    table: Mapping[str, Definition],
    current: Mapping[str, str],
    inherited: Mapping[str, list[str]],
    operations: Sequence[Operation],
) -> dict[str, str]:
    configs = dict(current)
    for name, verb, value in operations:
        if verb == Verb.DELETE:
            configs.pop(name, None)
        elif verb == Verb.SET:
            assert value is not None
            configs[name] = _tidy(table.get(name), value)
        else:
            assert value is not None
            if name not in inherited:
                sentence = f"Can't {Verb(verb).name} to key {name} because its type is not LIST."
                raise Refusal(ErrorCode.invalid_config, sentence)
            before = configs[name].split(",") if name in configs else inherited[name]
            configs[name] = _changed_list(before, verb, value)
        _check_length(configs.get(name, ""))
    return configs


def _check_length(value: str) -> None:
    """Kafka's sentence: what grows bit by bit must not become longer than what is set at once."""
    if len(value.encode()) > CONFIG_VALUE_BYTES_MAX:
        raise Refusal(
            ErrorCode.invalid_config,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{CONFIG_VALUE_BYTES_MAX} bytes.",
        )


def _changed_list(before: Sequence[str], verb: int, value: str) -> str:
    items = [item for item in before if item]
    named = [item.strip() for item in value.split(",")]
    if verb == Verb.APPEND:
        there = set(items)
        return ",".join([*items, *(item for item in named if item not in there)])
    gone = set(named)
    return ",".join(item for item in items if item not in gone)


def _tidy(definition: Definition | None, value: str) -> str:
    """Text in the one form that is shown afterwards; what cannot be read stays for the check."""
    try:
        tidied: Any = None if definition is None else render(parse(definition, value))
    except BadValue:
        return value
    return value if tidied is None else str(tidied)
