"""ShareAcknowledge (key 79), versions 1–2: accept, release, reject, renew; KIP-932, KIP-1222 (renew).

Settled durably before the answer. The session's epoch counts on as with ShareFetch; -1 ends the
session and gives back what the member still holds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.acknowledgement import is_wrong, settle
from headwater.broker.shares.sessions import FINAL, INITIAL, SessionError, SessionKey

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def acknowledge(broker: Broker, request: Any, context: Context) -> Response:
    if is_wrong(request):
        return {"error_code": ErrorCode.invalid_request}
    shares = broker.shares
    key = SessionKey(request.group_id, request.member_id)
    if request.share_session_epoch == INITIAL:
        return {"error_code": ErrorCode.invalid_share_session_epoch}
    try:
        shares.sessions.resume(key, request.share_session_epoch)
    except SessionError as error:
        return {"error_code": error.code}
    settled = await asyncio.shield(shares.spawn(settle(shares, key, request)))
    if request.share_session_epoch == FINAL:
        await shares.close_session(key)
    topics: dict[Any, list[dict[str, Any]]] = {}
    for (topic_id, number), (code, message) in settled.items():
        topics.setdefault(topic_id, []).append(
            {"partition_index": number, "error_code": code, "error_message": message}
        )
    return {
        "acquisition_lock_timeout": shares.settings.group(
            key.group_id, "share.record.lock.duration.ms"
        ),
        "responses": [{"topic_id": t, "partitions": parts} for t, parts in topics.items()],
    }


API = Api(79, "ShareAcknowledge", (1, 2), acknowledge)
