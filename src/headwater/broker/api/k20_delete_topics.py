"""DeleteTopics (key 20), versions 1–6: by name, from version 6 also by id (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.quotas.mutations import Mutations
from headwater.broker.registry import Api, Context, Response
from headwater.broker.topics import TopicError

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def delete_topics(broker: Broker, request: Any, context: Context) -> Response:
    if context.api_version >= 6:
        asked = [(item.name, item.topic_id) for item in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    mutations = Mutations(broker, context, strict=context.api_version >= 5)
    rows = [await _delete(broker, mutations, *item) for item in asked]
    return {"responses": rows, "throttle_time": mutations.throttle_ms}


async def _delete(
    broker: Broker, mutations: Mutations, name: str | None, topic_id: Any
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "topic_id": topic_id}
    if not broker.settings.get("delete.topic.enable"):
        return row | {
            "error_code": ErrorCode.topic_deletion_disabled,
            "error_message": "Topic deletion is disabled.",
        }
    if name is None:
        topic = broker.catalogue.by_id.get(topic_id) if topic_id else None
        if topic is None:
            return row | {
                "error_code": ErrorCode.unknown_topic_id,
                "error_message": "This server does not host this topic ID.",
            }
        name = topic.name
    else:
        topic = broker.catalogue.topics.get(name)
    try:
        if topic is not None:
            mutations.take(topic.partitions)
        await broker.topics.delete(name)
    except TopicError as error:
        return row | {"error_code": error.code, "error_message": str(error)}
    await broker.groups.removal.offsets_erased(name)
    return {"name": name, "topic_id": topic.id if topic else topic_id}


API = Api(20, "DeleteTopics", (1, 6), delete_topics)
