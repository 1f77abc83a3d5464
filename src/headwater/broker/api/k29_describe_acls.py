"""DescribeAcls (key 29), versions 1–3: the ACLs that match a filter; KIP-140, KIP-290 (prefixes).

SECURITY_DISABLED where no authorizer is on. A filter that names something unknown is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.security.acls import Acl, Filter, Operation, Pattern, Permission, ResourceType
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

DISABLED = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "No Authorizer is configured.",
}


async def describe_acls(broker: Broker, request: Any, context: Context) -> Response:
    if broker.authorizer is None:
        return {**DISABLED, "resources": ()}
    wanted = filter_of(request)
    if wanted is None:
        return {
            "error_code": ErrorCode.invalid_request,
            "error_message": "DescribeAclsRequest contains UNKNOWN elements.",
        }
    resources: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
    monotonic = broker.supervisor.monotonic
    found = await broker.authorizer.matching(wanted, monotonic)
    async for acl in in_turns(found, monotonic):
        key = (acl.resource_type, acl.resource_name, acl.pattern)
        resources.setdefault(key, []).append(entry(acl))
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
            for (kind, name, pattern), acls in resources.items()
        ]
    }


def filter_of(request: Any) -> Filter | None:
    """The filter of a request; None where a part of it is unknown to us."""
    wanted = Filter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    known = (
        (wanted.resource_type, ResourceType),
        (wanted.pattern, Pattern),
        (wanted.operation, Operation),
        (wanted.permission, Permission),
    )
    return wanted if all(number and number in set(kind) for number, kind in known) else None


def entry(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


API = Api(29, "DescribeAcls", (1, 3), describe_acls, lists=always)
