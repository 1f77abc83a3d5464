"""CreateAcls (key 30), versions 1–3: add ACLs; KIP-140, KIP-290 (prefixes).

Each succeeds or fails for itself, in the order in which they came; one that is there already succeeds.
Done when the catalogue's record is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.api.k29_describe_acls import DISABLED
from headwater.broker.bounds import NAME_CHARS_MAX
from headwater.broker.registry import Api, Context, Response
from headwater.broker.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from headwater.broker.topic_admission import TopicError, storage_errors
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def create_acls(broker: Broker, request: Any, context: Context) -> Response:
    if broker.authorizer is None:
        return {"results": [DISABLED for _ in request.creations]}
    rows: list[dict[str, Any]] = []
    pace = Pace(broker.supervisor.monotonic)
    for asked in request.creations:
        await pace.rest()
        problem = _problem(asked)
        if problem is not None:
            rows.append({"error_code": ErrorCode.invalid_request, "error_message": problem})
            continue
        acl = Acl(
            int(asked.resource_type),
            asked.resource_name,
            int(asked.resource_pattern_type),
            asked.principal,
            asked.host,
            int(asked.operation),
            int(asked.permission_type),
        )
        row: dict[str, object] = {"error_code": ErrorCode.none, "error_message": None}
        try:
            with storage_errors():
                await broker.authorizer.add(acl)
        except TopicError as refused:
            row = refused.row
        rows.append(row)
    return {"results": rows}


def _problem(asked: Any) -> str | None:
    if asked.resource_type not in set(ResourceType) - {ResourceType.ANY, ResourceType.UNKNOWN}:
        return "Invalid resourceType"
    if asked.resource_pattern_type not in (Pattern.LITERAL, Pattern.PREFIXED):
        return "Invalid patternType"
    if asked.operation not in set(Operation) - {Operation.ANY, Operation.UNKNOWN}:
        return "Invalid operation"
    if asked.permission_type not in (Permission.ALLOW, Permission.DENY):
        return "Invalid permissionType"
    if not asked.resource_name:
        return "Resource name should not be empty"
    if max(map(len, (asked.resource_name, asked.principal, asked.host))) > NAME_CHARS_MAX:
        return f"Names of at most {NAME_CHARS_MAX} characters are allowed"
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if ":" not in asked.principal:
        return (
            f"Could not parse principal from `{asked.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


API = Api(30, "CreateAcls", (1, 3), create_acls)
