"""InitProducerId (key 22), versions 0–6: an id and an epoch for a producer; KIP-98, KIP-360, KIP-890.

Ids are taken from durable blocks in the catalogue, so that none is given twice. With a transactional id
the producer gets the same id again with a higher epoch, which fences whoever had it before; a
transaction that was left open is aborted first, and the client is told to try again
(CONCURRENT_TRANSACTIONS). A producer may say which id and epoch it has (3+): then it is fenced itself if
somebody else was quicker. Two-phase commit (6+, KIP-939) is off, and refused as Kafka does it then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.state_budget import EACH_BYTES
from headwater.broker.transactions.transaction import NO_ID
from headwater.broker.transactions.transitions import Producer
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

NAME_BYTES_MAX = 2**15 - 1
"""What a record of `__transaction_state` can hold."""
_REFUSED = {"producer_id": -1, "producer_epoch": -1}
_MS = timedelta(milliseconds=1)


async def init_producer_id(broker: Broker, request: Any, context: Context) -> Response:
    if request.transactional_id is None:
        try:
            return {"producer_id": await broker.catalogue.producer_ids.next(), "producer_epoch": 0}
        except StorageFailed:
            return {"error_code": ErrorCode.kafka_storage_error, **_REFUSED}
    error, producer = await _transactional(broker, request)
    if error is ErrorCode.producer_fenced and context.api_version < 4:
        error = ErrorCode.invalid_producer_epoch  # the newer name came with version 4
    if error is not ErrorCode.none:
        return {"error_code": error, **_REFUSED}
    return {"producer_id": producer.id, "producer_epoch": producer.epoch}


async def _transactional(broker: Broker, request: Any) -> tuple[ErrorCode, Producer]:
    refused, name = _refusal(broker, request), request.transactional_id
    if refused is not ErrorCode.none:
        return refused, Producer(-1, -1)
    if name not in broker.transactions.transactions:
        if broker.state.take(EACH_BYTES + len(name)) is None:
            return ErrorCode.throttling_quota_exceeded, Producer(-1, -1)
    expected = Producer(
        getattr(request, "producer_id", NO_ID), getattr(request, "producer_epoch", -1)
    )
    return await broker.transactions.init(
        request.transactional_id,
        request.transaction_timeout // _MS,
        expected if expected.id != NO_ID else None,
    )


def _refusal(broker: Broker, request: Any) -> ErrorCode:
    if broker.transactions.refusal is not ErrorCode.none:
        return broker.transactions.refusal
    if not request.transactional_id or len(request.transactional_id.encode()) > NAME_BYTES_MAX:
        return ErrorCode.invalid_request
    has_id = getattr(request, "producer_id", NO_ID) != NO_ID
    if has_id != (getattr(request, "producer_epoch", -1) != -1):
        return ErrorCode.invalid_request
    if getattr(request, "enable2_pc", False):
        return ErrorCode.transactional_id_authorization_failed
    if getattr(request, "keep_prepared_txn", False):
        return ErrorCode.unsupported_version
    return ErrorCode.none


API = Api(22, "InitProducerId", (0, 6), init_producer_id)
