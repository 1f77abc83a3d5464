"""EndTxn (key 26), versions 0–5: commit or abort; KIP-98, KIP-588, KIP-890 (5: the epoch rises).

Answered when the transaction has ended in every partition, durably: whoever reads committed data after
the answer sees all of it. From version 5 on the answer has the producer's next epoch (or id, when
epochs are used up), and an abort without any partition is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.transactions.transitions import Producer

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def end_txn(broker: Broker, request: Any, context: Context) -> Response:
    coordinator = broker.transactions
    if coordinator.refusal is not ErrorCode.none:
        return {"error_code": coordinator.refusal}
    if not request.transactional_id:
        return {"error_code": ErrorCode.invalid_request}
    error, producer = await coordinator.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        2 if context.api_version >= 5 else 0,
    )
    if error is ErrorCode.producer_fenced and context.api_version < 2:
        error = ErrorCode.invalid_producer_epoch
    return {"error_code": error, "producer_id": producer.id, "producer_epoch": producer.epoch}


API = Api(26, "EndTxn", (0, 5), end_txn)
