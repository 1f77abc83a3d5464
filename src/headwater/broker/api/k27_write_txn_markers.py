"""WriteTxnMarkers (key 27), versions 1–2: end a producer's transaction in some partitions; KIP-98.

Coordinators send it to other brokers; here it comes from `kafka-transactions.sh abort`, which ends a
transaction that nobody else would. A marker of an older epoch of the producer is INVALID_PRODUCER_EPOCH,
one of an older coordinator TRANSACTION_COORDINATOR_FENCED.

KIP-664 (abort by hand), KIP-1228 (2: the transaction version).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, Response
from headwater.broker.transactions.markers import Marker

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def write_markers(broker: Broker, request: Any, context: Context) -> Response:
    return {"markers": [await _one(broker, asked) for asked in request.markers]}


async def _one(broker: Broker, asked: Any) -> dict[str, Any]:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
    )
    wanted = [(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]
    strict = getattr(asked, "transaction_version", 0) >= 2
    errors = await broker.transactions.markers.write(marker, wanted, strict=strict)
    return {
        "producer_id": asked.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": number, "error_code": errors[topic.name, number]}
                    for number in topic.partition_indexes
                ],
            }
            for topic in asked.topics
        ],
    }


API = Api(27, "WriteTxnMarkers", (1, 2), write_markers)
