"""DeleteShareGroupOffsets (key 92), version 0: let a share group forget topics; KIP-932.

Only for a group without members. Durable before the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.administration import alone
from headwater.broker.shares.membership import GroupError
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def delete(broker: Broker, request: Any, context: Context) -> Response:
    shares, group_id = broker.shares, request.group_id
    if not shares.has(group_id):
        there = group_id in broker.groups.groups
        message = f"Group {group_id} {'is not a share group' if there else 'not found'}."
        return {"error_code": ErrorCode.group_id_not_found, "error_message": message}
    return await shares.to_its_end(_delete(broker, request))


async def _delete(broker: Broker, request: Any) -> Response:
    group_id = request.group_id
    try:
        with alone(broker.shares, group_id):
            rows = [await _topic(broker, group_id, each.topic_name) for each in request.topics]
            return {"responses": rows}
    except GroupError as error:
        return {"error_code": error.code, "error_message": error.message}


async def _topic(broker: Broker, group_id: str, name: str) -> dict[str, object]:
    topic = broker.catalogue.topics.get(name)
    if topic is None:
        return {
            "topic_name": name,
            "topic_id": None,
            "error_code": ErrorCode.unknown_topic_or_partition,
            "error_message": "This server does not host this topic-partition.",
        }
    code = ErrorCode.none
    known = broker.shares.states.known
    try:
        await broker.shares.forget(
            [key for key in known if key.group_id == group_id and key.topic_id == topic.id]
        )
    except StorageFailed:
        code = ErrorCode.kafka_storage_error
    return {"topic_name": name, "topic_id": topic.id, "error_code": code}


API = Api(92, "DeleteShareGroupOffsets", (0, 0), delete)
