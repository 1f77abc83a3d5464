"""ShareFetch (key 78), versions 1–2: records for a member of a share group; KIP-932, KIP-1206, KIP-1222.

Acknowledgements may come along and are settled first, durably. A session remembers which partitions
the member fetches: epoch 0 begins it, -1 ends it and gives back what the member still holds. Version 2
adds the strict limit of records (share_acquire_mode 1) and the renewing of locks.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.acknowledgement import Settled, is_wrong, settle
from headwater.broker.shares.fetch import Row, ShareFetch, Wanted
from headwater.broker.shares.sessions import FINAL, INITIAL, Place, SessionError, SessionKey
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.shares.sessions import Session

STRICT = 1


async def share_fetch(broker: Broker, request: Any, context: Context) -> Response:
    if broker.quotas.active:
        request = broker.quotas.bounded(request, context.principal, context.client_id)
    if is_wrong(request) or _fetches_while_renewing(request):
        return {"error_code": ErrorCode.invalid_request}
    shares = broker.shares
    key = SessionKey(request.group_id, request.member_id)
    try:
        session = _session(broker, request, key, context)
    except SessionError as error:
        return {"error_code": error.code}
    settling = shares.spawn(settle(shares, key, request))
    rows: list[Row] = []
    if request.share_session_epoch != FINAL and not getattr(request, "is_renew_ack", False):
        wanted = _wanted(broker, request)
        rows = await ShareFetch(shares, session, wanted, context.reads).run()
    settled = await asyncio.shield(settling)
    if request.share_session_epoch == FINAL:
        await shares.close_session(key)
    return {
        "acquisition_lock_timeout": shares.settings.group(
            key.group_id, "share.record.lock.duration.ms"
        ),
        "responses": await _responses(rows, settled, broker.supervisor.monotonic),
    }


def _fetches_while_renewing(request: Any) -> bool:
    """A request that renews locks must ask for no records (KIP-1222)."""
    limits = (request.min_bytes, request.max_bytes, request.max_records, request.max_wait)
    return getattr(request, "is_renew_ack", False) and any(limits)


def _session(broker: Broker, request: Any, key: SessionKey, context: Context) -> Session:
    sessions = broker.shares.sessions
    epoch = request.share_session_epoch
    if epoch == INITIAL:
        if any(p.acknowledgement_batches for t in request.topics for p in t.partitions):
            raise SessionError(ErrorCode.invalid_request)
        sessions_max = broker.settings.get("group.share.max.share.sessions")
        try:
            session = sessions.begin(key, context.connection, sessions_max)
        except SessionError:
            broker.shares.end_sessions(key)  # the one before has ended all the same
            raise
    else:
        session = sessions.resume(key, epoch)
    if epoch != FINAL:
        _update(broker, session, request)
    return session


def _update(broker: Broker, session: Session, request: Any) -> None:
    try:
        broker.shares.sessions.update(
            session,
            [(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions],
            [(t.topic_id, p) for t in request.forgotten_topics_data for p in t.partitions],
        )
    except SessionError:
        broker.shares.end_sessions(session.key)
        raise


def _wanted(broker: Broker, request: Any) -> Wanted:
    return Wanted(
        round(request.max_wait.total_seconds() * 1000),
        request.min_bytes,
        min(request.max_bytes, max(broker.memory.answer_bytes(), 1)),
        request.max_records,
        request.batch_size,
        getattr(request, "share_acquire_mode", 0) == STRICT,
    )


async def _responses(
    rows: list[Row], settled: Settled, monotonic: Callable[[], float]
) -> list[dict[str, Any]]:
    answers: dict[Place, dict[str, Any]] = {}
    topics: dict[uuid.UUID, list[dict[str, Any]]] = {}

    def answer_of(place: Place) -> dict[str, Any]:
        if (found := answers.get(place)) is None:
            found = answers[place] = {"partition_index": place[1], "records": b""}
            topics.setdefault(place[0], []).append(found)
        return found

    async for row in in_turns(rows, monotonic):
        answer = answer_of(row.place)
        answer["error_code"] = row.error
        answer["records"] = row.records
        answer["acquired_records"] = [
            {"first_offset": a.first, "last_offset": a.last, "delivery_count": a.deliveries}
            for a in row.acquired
        ]
    async for place, (code, message) in in_turns(settled.items(), monotonic):
        answer = answer_of(place)
        answer["acknowledge_error_code"] = code
        answer["acknowledge_error_message"] = message
    return [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()]


API = Api(78, "ShareFetch", (1, 2), share_fetch, answer_is_large=True, waits=True)
