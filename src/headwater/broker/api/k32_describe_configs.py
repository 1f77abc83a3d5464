"""DescribeConfigs (key 32), versions 1 to 4: configs of topics, this broker, its loggers, groups and
client metrics subscriptions.

Each config comes with its value, who set it and, if asked for, the layers below (synonyms) and a
line of documentation. A broker resource without a name is what was set for all brokers together. A
password's value is never shown. A group or a subscription that nobody knows has the defaults.

KIP-133 (the API), KIP-226 (synonyms, dynamic broker configs), KIP-412 (loggers), KIP-569 (types,
documentation), KIP-714 (client metrics), KIP-848 (groups).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.once import once
from headwater.broker.registry import Api, Context
from headwater.broker.settings.alter import Refusal, Resource
from headwater.broker.settings.describe import (
    Entry,
    broker_entries,
    default_entries,
    group_entries,
    subscription_entries,
    topic_entries,
)
from headwater.broker.settings.loggers import logger_entries
from headwater.broker.settings.requests import broker_named, check_topic_name, unknown_resource

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


RESOURCES_AT_ONCE = 20


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    for each in once(request.resources, lambda each: (each.resource_type, each.resource_name)):
        results.append(_described(broker, each, request))
        if not len(results) % RESOURCES_AT_ONCE:
            await asyncio.sleep(0)  # others may go on
    return {"results": results}


def _described(broker: Broker, resource: Any, request: Any) -> dict[str, Any]:
    code, sentence = ErrorCode.none, ""
    configs: list[dict[str, Any]] = []
    try:
        configs = _configs(broker, resource, request)
    except Refusal as refusal:
        code, sentence = refusal.code, str(refusal)
    return {
        "error_code": code,
        "error_message": sentence,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": configs,
    }


def _configs(broker: Broker, resource: Any, request: Any) -> list[dict[str, Any]]:
    names = resource.configuration_keys or None  # no keys means all of them, as in Kafka
    if resource.resource_type == Resource.BROKER_LOGGER:
        if not broker_named(broker, resource.resource_name):
            raise Refusal(ErrorCode.invalid_request, "Broker id must not be empty")
        return logger_entries(names)
    documentation = getattr(request, "include_documentation", False)
    return [
        entry.as_dict(request.include_synonyms, documentation)
        for entry in _entries(broker, resource.resource_type, resource.resource_name, names)
    ]


def _entries(broker: Broker, kind: int, name: str, names: Any) -> list[Entry]:
    if kind == Resource.TOPIC:
        check_topic_name(name)
        topic = broker.catalogue.topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.unknown_topic_or_partition, "")
        return topic_entries(broker.settings, topic.configs, names)
    if kind == Resource.BROKER:
        entries = broker_entries if broker_named(broker, name) else default_entries
        return entries(broker.settings, names)
    if kind == Resource.GROUP:
        if not name:
            raise Refusal(ErrorCode.invalid_request, "Group name must not be empty")
        own = broker.catalogue.group_configs.get(name, {})
        return group_entries(broker.settings, own, names)
    if kind == Resource.CLIENT_METRICS:
        if not name:
            sentence = "Client metrics subscription name must not be empty"
            raise Refusal(ErrorCode.invalid_request, sentence)
        return subscription_entries(broker.catalogue.client_metrics.get(name, {}), names)
    raise unknown_resource(kind)


API = Api(32, "DescribeConfigs", (1, 4), handle)
