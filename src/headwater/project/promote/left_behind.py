"""What belongs to the old broker and is not moved: named, so that it can be made in Kafka by hand.

Called by `move`. A cluster's users, rights and limits are its owner's to give, and passwords cannot be read
back from what SCRAM keeps of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headwater.broker.settings.topic import TOPIC
from headwater.client import acls, users
from headwater.client import cluster as connect
from headwater.client.cluster import Cluster
from headwater.client.librdkafka import AdminClient
from headwater.client.settings import Source, of_broker
from headwater.project.promote.topics import TIMEOUT_S

DESCRIBE_CLIENT_QUOTAS, LIST_CONFIG_RESOURCES = 48, 74
_GROUP = 32
_BROKER_SET = (Source.BROKER_RUNNING, Source.BROKERS_RUNNING)


def left_behind(
    cluster: Cluster, admin: AdminClient, settings: Mapping[str, str]
) -> dict[str, list[str]]:
    """Kind → names, for each kind of which there is something."""
    found = {
        "users (with new passwords, as theirs cannot be read)": _users(admin),
        "ACLs": _acls(admin),
        "quotas": _quotas(cluster),
        "settings of groups": _group_settings(cluster),
        "settings of the broker": _broker_settings(cluster, admin, settings),
    }
    return {kind: sorted(names) for kind, names in found.items() if names}


def _users(admin: AdminClient) -> list[str]:
    return list(users.listed(admin))


def _acls(admin: AdminClient) -> list[str]:
    return [
        f"{acl.principal} {acl.permission} {acl.operation} {acl.kind}:{acl.name}"
        + ("*" if acl.is_prefix else "")
        for acl in acls.listed(admin)
    ]


def _quotas(cluster: Cluster) -> list[str]:
    answer = _ask(cluster, DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})
    return [_owner(entry.entity) for entry in answer.entries or ()]


def _owner(entity: Iterable[Any]) -> str:
    return " ".join(f"{each.entity_type} {each.entity_name or '(default)'}" for each in entity)


def _group_settings(cluster: Cluster) -> list[str]:
    answer = _ask(cluster, LIST_CONFIG_RESOURCES, {"resource_types": [_GROUP]})
    return [each.resource_name for each in answer.config_resources]


def _broker_settings(
    cluster: Cluster, admin: AdminClient, settings: Mapping[str, str]
) -> list[str]:
    """Those of headwater.toml and those set while it ran, but for the ones that topics take along."""
    (node,) = cluster.metadata([]).brokers
    entries = of_broker(admin, node, TIMEOUT_S)
    changed = {name for name, entry in entries.items() if entry.source in _BROKER_SET}
    along = {name for definition in TOPIC.values() for name, _ in definition.synonyms}
    return list((changed | set(settings)) - along)


def _ask(cluster: Cluster, api: int, body: Mapping[str, Any]) -> Any:
    def attempt() -> Any:
        answer = cluster.anyone().ask(api, body)
        connect.check(answer.error_code, "looking at what the broker keeps")
        return answer

    return cluster.retrying(attempt)
