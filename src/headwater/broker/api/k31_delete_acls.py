"""DeleteAcls (key 31), versions 1–3: remove what matches each filter, and say what it was.

KIP-140, KIP-290 (prefixes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.api.k29_describe_acls import DISABLED, entry, filter_of
from headwater.broker.registry import Api, Context, Response
from headwater.broker.security.acls import Acl

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def delete_acls(broker: Broker, request: Any, context: Context) -> Response:
    if broker.authorizer is None:
        return {"filter_results": [DISABLED for _ in request.filters]}
    return {"filter_results": [await _delete(broker, asked) for asked in request.filters]}


async def _delete(broker: Broker, asked: Any) -> dict[str, Any]:
    assert broker.authorizer is not None
    wanted = filter_of(asked)
    if wanted is None:
        return {
            "error_code": ErrorCode.invalid_request,
            "error_message": "Filters contain UNKNOWN elements.",
        }
    found = broker.authorizer.matching(wanted)
    for acl in found:
        await broker.authorizer.remove(acl)
    return {"matching_acls": [_row(acl) for acl in found]}


def _row(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern,
        **entry(acl),
    }


API = Api(31, "DeleteAcls", (1, 3), delete_acls)
