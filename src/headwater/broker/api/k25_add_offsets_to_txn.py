"""AddOffsetsToTxn (key 25), versions 0–4: a group's offsets will be part of the transaction; KIP-98.

Clients of the older protocol send it before TxnOffsetCommit; with transaction version 2 that does it by
itself. What is added is the partition of `__consumer_offsets` in which the group's records lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.internal_topics import CONSUMER_OFFSETS as OFFSETS
from headwater.broker.registry import Api, Context, Response
from headwater.broker.transactions.transitions import Producer
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def add_offsets(broker: Broker, request: Any, context: Context) -> Response:
    error = await _add(broker, request)
    if error is ErrorCode.producer_fenced and context.api_version < 2:
        error = ErrorCode.invalid_producer_epoch  # the newer name came with version 2
    return {"error_code": error}


async def _add(broker: Broker, request: Any) -> ErrorCode:
    coordinator = broker.transactions
    if coordinator.refusal is not ErrorCode.none:
        return coordinator.refusal
    if not request.transactional_id:
        return ErrorCode.invalid_request
    try:
        await broker.offsets_topic.ensure()
    except StorageFailed:
        return ErrorCode.coordinator_not_available
    where = (OFFSETS, broker.offsets_topic.partition_of(request.group_id).number)
    producer = Producer(request.producer_id, request.producer_epoch)
    return await coordinator.add(request.transactional_id, producer, [where], 0)


API = Api(25, "AddOffsetsToTxn", (0, 4), add_offsets)
