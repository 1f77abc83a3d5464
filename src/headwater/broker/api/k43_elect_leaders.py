"""ElectLeaders (key 43), versions 0 to 2: have partitions led by their preferred, or by any, replica.

The only node leads every partition and always will: ELECTION_NOT_NEEDED. Asked for all partitions,
the answer names only those that were elected, so every topic is there with none. KIP-183, KIP-460.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import shown
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

PREFERRED, UNCLEAN = 0, 1


def handle(broker: Broker, request: Any, context: Context) -> Response:
    kind = getattr(request, "election_type", PREFERRED)
    refused = None if kind in (PREFERRED, UNCLEAN) else f"Unknown election type {kind}"
    results: list[dict[str, Any]]
    if request.topic_partitions is None:
        results = [
            {"topic": name, "partition_result": ()} for name in sorted(broker.catalogue.topics)
        ]
    else:
        results = [
            {
                "topic": asked.topic,
                "partition_result": [
                    _row(broker, asked.topic, number, refused) for number in asked.partitions
                ],
            }
            for asked in request.topic_partitions
        ]
    code = ErrorCode.none if refused is None else ErrorCode.invalid_request
    return {"error_code": code, "replica_election_results": results}


def _row(broker: Broker, topic: str, number: int, refused: str | None) -> dict[str, Any]:
    code, sentence = (
        ErrorCode.unknown_topic_or_partition,
        f"No such partition as {shown(topic)}-{number}",
    )
    if refused is not None:
        code, sentence = ErrorCode.invalid_request, refused
    elif topic not in broker.catalogue.topics:
        sentence = f"No such topic as {shown(topic)}"
    elif broker.partition(topic, number) is not None:
        code = ErrorCode.election_not_needed
        sentence = "Leader election not needed for topic partition."
    return {"partition_id": number, "error_code": code, "error_message": sentence}


API = Api(43, "ElectLeaders", (0, 2), handle)
