"""DeleteShareGroupOffsets (key 92), version 0: let a share group forget topics; KIP-932.

Only for a group without members. Durable before the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def delete(broker: Broker, request: Any, context: Context) -> Response:
    shares, group_id = broker.shares, request.group_id
    group = shares.groups.get(group_id)
    if group is None:
        there = group_id in broker.groups.groups
        message = f"Group {group_id} {'is not a share group' if there else 'not found'}."
        return {"error_code": ErrorCode.group_id_not_found, "error_message": message}
    if group.members:
        code, message = ErrorCode.non_empty_group, "The group is not empty."
        return {"error_code": code, "error_message": message}
    return {"responses": [await _topic(broker, group_id, t.topic_name) for t in request.topics]}


async def _topic(broker: Broker, group_id: str, name: str) -> dict[str, Any]:
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
