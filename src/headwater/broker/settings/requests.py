"""The way of an alter request: find each resource, decide, write through the catalogue.

AlterConfigs and IncrementalAlterConfigs end here; DescribeConfigs shares the finding. The resources
of a request succeed or fail each for itself, in the order in which they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.bounds import NAME_CHARS_MAX, TOPIC_NAME_CHARS_MAX
from headwater.broker.settings import loggers
from headwater.broker.settings.alter import (
    Operation,
    Refusal,
    Resource,
    broker_change,
    check_operations,
    group_change,
    subscription_change,
    topic_change,
)
from headwater.broker.turns import Pace
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Plan = Callable[[Mapping[str, str]], Sequence[Operation]]
"""From the configs that a resource has to what is to be done with them."""


class Alteration(NamedTuple):
    """One resource of a request."""

    resource_type: int
    resource_name: str
    plan: Plan

    @property
    def key(self) -> tuple[int, str]:
        return self.resource_type, self.resource_name


async def alter(
    broker: Broker, alterations: Sequence[Alteration], validate_only: bool
) -> list[dict[str, Any]]:
    """Carry out what can be; one response entry for each resource."""
    counts = Counter(each.key for each in alterations)
    responses = []
    pace = Pace(broker.supervisor.monotonic)
    for alteration in alterations:
        await pace.rest()
        code, sentence = ErrorCode.none, None
        try:
            if counts[alteration.key] > 1:
                raise Refusal(ErrorCode.invalid_request, "Each resource must appear at most once.")
            async with broker.catalogue.changing:
                await _alter_one(broker, alteration, validate_only)
        except Refusal as refusal:
            code, sentence = refusal.code, str(refusal)
        except (StorageFailed, OSError) as error:
            code = ErrorCode.kafka_storage_error
            sentence = f"the disk refused the change: {error}"
        responses.append(
            {
                "error_code": code,
                "error_message": sentence,
                "resource_type": alteration.resource_type,
                "resource_name": alteration.resource_name,
            }
        )
    return responses


async def _alter_one(broker: Broker, alteration: Alteration, validate_only: bool) -> None:
    kind, name, plan = alteration
    if kind == Resource.TOPIC:
        await _alter_topic(broker, name, plan, validate_only)
    elif kind == Resource.BROKER:
        node = broker_named(broker, name)
        operations = plan(broker.settings.dynamic(node))
        check_operations(operations)
        configs = broker_change(broker.settings, node, operations)
        if not validate_only:
            await broker.catalogue.set_broker_configs(node, configs)
    elif kind == Resource.BROKER_LOGGER:
        if not broker_named(broker, name):
            raise Refusal(ErrorCode.invalid_request, "Broker id must not be empty")
        operations = plan({})
        check_operations(operations)
        loggers.check_levels(operations)
        if not validate_only:
            loggers.set_levels(operations)
    elif kind == Resource.GROUP:
        await _alter_group(broker, name, plan, validate_only)
    elif kind == Resource.CLIENT_METRICS:
        await _alter_subscription(broker, name, plan, validate_only)
    else:
        raise unknown_resource(kind)


async def _alter_group(broker: Broker, name: str, plan: Plan, validate_only: bool) -> None:
    if not name:
        raise Refusal(ErrorCode.invalid_request, "Default group resources are not allowed.")
    _check_length(name, NAME_CHARS_MAX)
    current = broker.catalogue.group_configs.get(name, {})
    operations = plan(current)
    check_operations(operations)
    configs = group_change(broker.settings, current, operations)
    if not validate_only and configs != current:
        await broker.catalogue.set_group_configs(name, configs)


async def _alter_subscription(broker: Broker, name: str, plan: Plan, validate_only: bool) -> None:
    if not name:
        raise Refusal(ErrorCode.invalid_request, "Subscription name can't be empty")
    _check_length(name, TOPIC_NAME_CHARS_MAX)
    current = broker.catalogue.client_metrics.get(name, {})
    operations = plan(current)
    check_operations(operations)
    configs = subscription_change(current, operations)
    if not validate_only and configs != current:
        await broker.catalogue.set_client_metrics(name, configs)


def _check_length(name: str, chars_max: int) -> None:
    if len(name) > chars_max:
        sentence = f"A name of {len(name)} characters; {chars_max} are allowed."
        raise Refusal(ErrorCode.invalid_request, sentence)


async def _alter_topic(broker: Broker, name: str, plan: Plan, validate_only: bool) -> None:
    if not name:
        raise Refusal(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    check_topic_name(name)
    topic = broker.catalogue.topics.get(name)
    current = topic.configs if topic is not None else {}
    operations = plan(current)
    check_operations(operations)
    configs = topic_change(broker.settings, current, operations)
    if topic is None:
        sentence = f"The topic '{name}' does not exist."
        raise Refusal(ErrorCode.unknown_topic_or_partition, sentence)
    broken = internal_topics.broken(name, configs)
    if broken:
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(broken.items()))
        sentence = f"{name} is kept by the broker, which relies on {wanted}"
        raise Refusal(ErrorCode.invalid_config, sentence)
    if not validate_only:
        await broker.catalogue.set_topic_configs(name, configs)


def broker_named(broker: Broker, name: str) -> str:
    """The node that a broker resource means: ours, or "" for all brokers."""
    if name in ("", str(broker.node_id)):
        return name
    if not name.lstrip("-").isdecimal():
        sentence = f"Broker id must be an integer, but it is: {name}"
    else:
        sentence = (
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
        )
    raise Refusal(ErrorCode.invalid_request, sentence)


def unknown_resource(kind: int) -> Refusal:
    """The answer for what has no configs."""
    return Refusal(ErrorCode.invalid_request, f"Unknown resource type {kind}")


def check_topic_name(name: str) -> None:
    """A name that no topic can have is told apart from one that no topic has."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_CHARS_MAX:
        problem = (
            f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
        )
    elif not (name.isascii() and all(each.isalnum() or each in "._-" for each in name)):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return
    raise Refusal(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {problem}")
