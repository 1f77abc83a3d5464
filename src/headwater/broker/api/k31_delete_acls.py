"""DeleteAcls (key 31), versions 1–3: remove what matches each filter, and say what it was.

KIP-140, KIP-290 (prefixes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.api.k29_describe_acls import DISABLED, entry, filter_of
from headwater.broker.registry import Api, Context, Response
from headwater.broker.security.acls import Acl
from headwater.broker.topic_admission import TopicError, storage_errors
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def delete_acls(broker: Broker, request: Any, context: Context) -> Response:
    if broker.authorizer is None:
        return {"filter_results": [DISABLED for _ in request.filters]}
    pace = Pace(broker.supervisor.monotonic)
    return {"filter_results": [await _delete(broker, asked, pace) for asked in request.filters]}


async def _delete(broker: Broker, asked: Any, pace: Pace) -> dict[str, Any]:
    assert broker.authorizer is not None
    await pace.rest()
    wanted = filter_of(asked)
    if wanted is None:
        return {
            "error_code": ErrorCode.invalid_request,
            "error_message": "Filters contain UNKNOWN elements.",
        }
    found = await broker.authorizer.matching(wanted, broker.supervisor.monotonic)
    rows = []
    for acl in found:
        row = _row(acl)
        try:
            with storage_errors():
                await broker.authorizer.remove(acl)
        except TopicError as refused:
            row |= refused.row
        rows.append(row)
    return {"matching_acls": rows}


def _row(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern,
        **entry(acl),
    }


API = Api(31, "DeleteAcls", (1, 3), delete_acls)
