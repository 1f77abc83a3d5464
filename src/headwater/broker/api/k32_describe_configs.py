"""DescribeConfigs (key 32), versions 1 to 4: configs of topics, this broker, its loggers, groups and
client metrics subscriptions.

Each config comes with its value, who set it and, if asked for, the layers below (synonyms) and a
line of documentation. A broker resource without a name is what was set for all brokers together. A
password's value is never shown. A group or a subscription that nobody knows has the defaults; as anybody
can name many of those, resources with the same configs share their rows, and an answer tells of so many.

KIP-133 (the API), KIP-226 (synonyms, dynamic broker configs), KIP-412 (loggers), KIP-569 (types,
documentation), KIP-714 (client metrics), KIP-848 (groups).

Also here: what the config APIs show of a setting: value, who set it, which layers lie below.
Names, sources and synonyms must be what Apache Kafka would answer after the same history of changes:
tools such as `kafka-configs` and Terraform compare them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import DEFAULTS_TOLD_MAX
from headwater.broker.once import Row, SharedRows, once
from headwater.broker.registry import Api, Context
from headwater.broker.settings.alter import Refusal, Resource
from headwater.broker.settings.definitions import BadValue, Definition, parse, public, render
from headwater.broker.settings.group import GROUP, group_default
from headwater.broker.settings.loggers import logger_entries
from headwater.broker.settings.requests import broker_named, check_topic_name, unknown_resource
from headwater.broker.settings.subscription import SUBSCRIPTION
from headwater.broker.settings.topic import TOPIC, topic_default
from headwater.broker.settings.values import BROKER, Settings, Source, Synonym
from headwater.broker.turns import give_way

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


RESOURCES_AT_ONCE = 20
FREELY_NAMED: Mapping[int, str] = {
    Resource.GROUP: "Group",
    Resource.CLIENT_METRICS: "Client metrics subscription",
}
TOO_MANY = "Too many at once without configs of their own: name them in several requests."


def is_much(broker: Broker, request: object) -> bool:
    """Each resource has some forty configs, each with where it comes from and what it means."""
    return len(getattr(request, "resources", ())) > RESOURCES_AT_ONCE


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    results: list[Row] = []
    told = context.kept.setdefault("rows", SharedRows(context))
    assert isinstance(told, SharedRows)
    for each in once(request.resources, lambda each: (each.resource_type, each.resource_name)):
        results.append(_described(broker, each, request, told))
        if not len(results) % RESOURCES_AT_ONCE:
            await give_way()  # others may go on
    return {"results": results}


def _described(broker: Broker, resource: Any, request: Any, told: SharedRows) -> Row:
    code, sentence = ErrorCode.none, ""
    configs: list[Row] = []
    try:
        configs = _configs(broker, resource, request, told)
    except Refusal as refusal:
        code, sentence = refusal.code, str(refusal)
    return {
        "error_code": code,
        "error_message": sentence,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": configs,
    }


def _configs(broker: Broker, resource: Any, request: Any, told: SharedRows) -> list[Row]:
    kind, name = resource.resource_type, resource.resource_name
    names = resource.configuration_keys or None  # no keys means all of them, as in Kafka
    if kind == Resource.BROKER_LOGGER:
        if not broker_named(broker, name):
            raise Refusal(ErrorCode.invalid_request, "Broker id must not be empty")
        return logger_entries(names)
    own = _own_configs(broker, kind, name)
    documentation = getattr(request, "include_documentation", False)

    def made() -> list[Row]:
        entries = _entries(broker, kind, name, own, names)
        return [entry.as_dict(request.include_synonyms, documentation) for entry in entries]

    same = name if kind == Resource.BROKER else frozenset(own.items())
    is_default = kind in FREELY_NAMED and not own
    if is_default and told.freely_named > DEFAULTS_TOLD_MAX:
        raise Refusal(ErrorCode.policy_violation, TOO_MANY)
    return told.rows((kind, same, names), made, is_default)


def _own_configs(broker: Broker, kind: int, name: str) -> Mapping[str, str]:
    if kind == Resource.TOPIC:
        check_topic_name(name)
        topic = broker.catalogue.topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.unknown_topic_or_partition, "")
        return topic.configs
    if kind in FREELY_NAMED and not name:
        raise Refusal(ErrorCode.invalid_request, f"{FREELY_NAMED[kind]} name must not be empty")
    if kind == Resource.GROUP:
        return broker.catalogue.group_configs.get(name, {})
    if kind == Resource.CLIENT_METRICS:
        return broker.catalogue.client_metrics.get(name, {})
    return {}


def _entries(
    broker: Broker, kind: int, name: str, own: Mapping[str, str], names: Container[str] | None
) -> list[Entry]:
    if kind == Resource.TOPIC:
        return topic_entries(broker.settings, own, names)
    if kind == Resource.BROKER:
        entries = broker_entries if broker_named(broker, name) else default_entries
        return entries(broker.settings, names)
    if kind == Resource.GROUP:
        return group_entries(broker.settings, own, names)
    if kind == Resource.CLIENT_METRICS:
        return subscription_entries(own, names)
    raise unknown_resource(kind)


API = Api(32, "DescribeConfigs", (1, 4), handle, only_looks=True, lists=is_much)


HEADWATERS_OWN = {"durability", "schema.validation"}
"""Configs of topics that Kafka does not have: tools that know all of Kafka's must not stumble."""


class Entry(NamedTuple):
    """One line of an answer. `value` is text; None means not set, or not to be shown."""

    definition: Definition
    value: str | None
    source: Source
    synonyms: list[Synonym]
    read_only: bool = False

    def as_dict(self, synonyms: bool = False, documentation: bool = False) -> dict[str, Any]:
        """The fields of DescribeConfigs' `DescribeConfigsResourceResult`."""
        sensitive = self.definition.sensitive
        return {
            "name": self.definition.name,
            "value": None if sensitive else public(self.value),
            "read_only": self.read_only,
            "config_source": self.source,
            "is_sensitive": sensitive,
            "synonyms": [_synonym(each, sensitive) for each in self.synonyms] if synonyms else (),
            "config_type": self.definition.kind,
            "documentation": self.definition.doc if documentation else None,
        }


def _synonym(synonym: Synonym, sensitive: bool) -> dict[str, Any]:
    shown = None if sensitive else public(render(synonym.value))
    return {"name": synonym.name, "value": shown, "source": synonym.source}


def topic_entries(
    settings: Settings, overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[Entry]:
    """Every config of a topic, or those named; one without a value is left out."""
    entries = (
        _topic_entry(settings, overrides, definition)
        for name, definition in sorted(TOPIC.items())
        if names is None or name in names
    )
    return [entry for entry in entries if entry.value is not None]


def _topic_entry(settings: Settings, overrides: Mapping[str, str], definition: Definition) -> Entry:
    name = definition.name
    below = settings.explain(definition.synonyms[0][0]) if definition.synonyms else []
    try:
        own = parse(definition, overrides[name])
    except (KeyError, BadValue):
        source = below[0].source if below else Source.DEFAULT
        if source is Source.STATIC and name in HEADWATERS_OWN:
            source = Source.DEFAULT
        return Entry(definition, render(topic_default(settings, definition)), source, below)
    synonyms = [Synonym(name, own, Source.TOPIC), *below]
    return Entry(definition, render(own), Source.TOPIC, synonyms)


def broker_entries(settings: Settings, names: Container[str] | None = None) -> list[Entry]:
    """Every setting of this broker, or those named."""
    return [
        Entry(
            definition,
            render(settings.get(name)),
            settings.source(name),
            settings.explain(name),
            not definition.dynamic,
        )
        for name, definition in sorted(BROKER.items())
        if names is None or name in names
    ]


def default_entries(settings: Settings, names: Container[str] | None = None) -> list[Entry]:
    """What has been set for all brokers together, and nothing else."""
    return [
        Entry(
            BROKER[name],
            text,
            Source.DYNAMIC_DEFAULT,
            [Synonym(name, text, Source.DYNAMIC_DEFAULT)],
        )
        for name, text in sorted(settings.dynamic("").items())
        if names is None or name in names
    ]


def group_entries(
    settings: Settings, overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[Entry]:
    """Every config of a group, or those named, whether or not there is such a group."""
    return [
        _group_entry(settings, overrides, definition)
        for name, definition in sorted(GROUP.items())
        if names is None or name in names
    ]


def _group_entry(settings: Settings, overrides: Mapping[str, str], definition: Definition) -> Entry:
    name, usual = definition.name, group_default(settings, definition)
    if definition.synonyms:
        below = settings.explain(definition.synonyms[0][0])
    else:
        below = [Synonym(name, usual, Source.DEFAULT)]
    if name not in overrides:
        return Entry(definition, render(usual), below[0].source, below)
    synonyms = [Synonym(name, overrides[name], Source.GROUP), *below]
    return Entry(definition, overrides[name], Source.GROUP, synonyms)


def subscription_entries(
    overrides: Mapping[str, str], names: Container[str] | None = None
) -> list[Entry]:
    """Every config of a client metrics subscription, or those named."""
    return [
        Entry(
            definition,
            overrides.get(name, render(definition.default)),
            Source.CLIENT_METRICS if name in overrides else Source.DEFAULT,
            [Synonym(name, overrides[name], Source.CLIENT_METRICS)] if name in overrides else [],
        )
        for name, definition in sorted(SUBSCRIPTION.items())
        if names is None or name in names
    ]
