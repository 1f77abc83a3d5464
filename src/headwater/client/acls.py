"""Who may do what: ACLs of a running log, listed, added and removed. `headwater acls` and `promote` ask.

Words are Kafka's in small letters; `transaction` is its TRANSACTIONAL_ID, `cluster` librdkafka's BROKER.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headwater.client.log import TIMEOUT_S

_KINDS = {
    "topic": "TOPIC",
    "group": "GROUP",
    "cluster": "BROKER",
    "transaction": "TRANSACTIONAL_ID",
}
KINDS = tuple(_KINDS)
CLUSTER_NAME = "kafka-cluster"
OPERATIONS = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster_action"),
    *("describe_configs", "alter_configs", "idempotent_write"),
)
_WORDS = {theirs: ours for ours, theirs in _KINDS.items()}


class Acl(NamedTuple):
    principal: str
    permission: str
    """allow or deny."""
    operation: str
    kind: str
    name: str
    is_prefix: bool = False
    host: str = "*"


def listed(admin: AdminClient, principal: str | None = None) -> list[Acl]:
    """All of them, or one principal's."""
    asked = admin.describe_acls(_filter(principal, None), request_timeout=TIMEOUT_S)
    return [_ours(each) for each in asked.result()]


def add(admin: AdminClient, wanted: Iterable[Acl]) -> None:
    made = [_theirs(AclBinding, each) for each in wanted]
    for future in admin.create_acls(made, request_timeout=TIMEOUT_S).values():
        future.result()


def remove(admin: AdminClient, principal: str, resource: tuple[str, str] | None = None) -> int:
    """A principal's, all or those of one resource (kind, name); how many there were."""
    wanted = _filter(principal, resource)
    return len(admin.delete_acls([wanted], request_timeout=TIMEOUT_S)[wanted].result())


def remove_one(admin: AdminClient, acl: Acl) -> bool:
    """This one and no other; whether it was there."""
    wanted = _theirs(AclBindingFilter, acl)
    return bool(admin.delete_acls([wanted], request_timeout=TIMEOUT_S)[wanted].result())


def sentence(acl: Acl) -> str:
    """As a person says it."""
    verb = "may" if acl.permission == "allow" else "may not"
    named = f"{acl.kind}s that begin with {acl.name}" if acl.is_prefix else f"{acl.kind} {acl.name}"
    what = "the cluster" if acl.kind == "cluster" else named
    place = "" if acl.host == "*" else f" from {acl.host}"
    return f"{acl.principal} {verb} {acl.operation.replace('_', ' ')} {what}{place}"


_Theirs = TypeVar("_Theirs", AclBinding, AclBindingFilter)


def _theirs(make: type[_Theirs], acl: Acl) -> _Theirs:
    return make(
        ResourceType[_KINDS[acl.kind]],
        acl.name,
        ResourcePatternType.PREFIXED if acl.is_prefix else ResourcePatternType.LITERAL,
        acl.principal,
        acl.host,
        AclOperation[acl.operation.upper()],
        AclPermissionType[acl.permission.upper()],
    )


def _filter(principal: str | None, resource: tuple[str, str] | None) -> AclBindingFilter:
    anything: Any = None  # its types do not say that these may be left open
    kind, name = ("ANY", anything) if resource is None else (_KINDS[resource[0]], resource[1])
    return AclBindingFilter(
        ResourceType[kind],
        name,
        ResourcePatternType.ANY,
        principal or anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def _ours(acl: Any) -> Acl:
    return Acl(
        str(acl.principal),
        acl.permission_type.name.lower(),
        acl.operation.name.lower(),
        _WORDS.get(acl.restype.name, acl.restype.name.lower()),
        acl.name,
        acl.resource_pattern_type is ResourcePatternType.PREFIXED,
        str(acl.host),
    )
