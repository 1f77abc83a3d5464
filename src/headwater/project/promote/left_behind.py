"""What belongs to the old broker and is not moved: named, so that it can be made in Kafka by hand.

Called by `move`. A cluster's users, rights and limits are its owner's to give, and passwords cannot be read
back from what SCRAM keeps of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.broker.settings.topic import TOPIC
from headwater.client import acls, users
from headwater.client import cluster as connect
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError
from headwater.client.librdkafka import AdminClient, KafkaError, KafkaException
from headwater.client.settings import Source, of_broker
from headwater.project.promote.topics import TIMEOUT_S

DESCRIBE_CLIENT_QUOTAS, LIST_CONFIG_RESOURCES = 48, 74
_GROUP = 32
_BROKER_SET = (Source.BROKER_RUNNING, Source.BROKERS_RUNNING)


def left_behind(
    cluster: Cluster, admin: AdminClient, settings: Mapping[str, str]
) -> dict[str, list[str]]:
    """Kind → names, for each kind of which there is something; or why it cannot be seen."""
    asked: dict[str, Callable[[], list[str]]] = {
        "users (with new passwords, as theirs cannot be read)": lambda: _users(admin),
        "ACLs": lambda: _acls(admin),
        "quotas": lambda: _quotas(cluster),
        "settings of groups": lambda: _group_settings(cluster),
        "settings of the broker": lambda: _broker_settings(cluster, admin, settings),
    }
    found = {kind: _seen(look) for kind, look in asked.items()}
    return {kind: sorted(names) for kind, names in found.items() if names}


def _seen(look: Callable[[], list[str]]) -> list[str]:
    try:
        return look()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.SECURITY_DISABLED:
            return []  # a cluster without an authorizer has no ACLs
        return [f"not shown to this user ({error.args[0].name()})"]
    except ClientError as error:
        return [f"not shown to this user ({error})"]


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
    changed = {
        name
        for node in cluster.metadata([]).brokers
        for name, entry in of_broker(admin, node, TIMEOUT_S).items()
        if entry.source in _BROKER_SET
    }
    along = {name for definition in TOPIC.values() for name, _ in definition.synonyms}
    return list((changed | set(settings)) - along)


def _ask(cluster: Cluster, api: int, body: Mapping[str, Any]) -> Any:
    def attempt() -> Any:
        answer = cluster.anyone().ask(api, body)
        connect.check(answer.error_code, "looking at what the broker keeps")
        return answer

    return cluster.retrying(attempt)
