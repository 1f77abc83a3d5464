"""DeleteTopics (key 20), versions 1–6: by name, from version 6 also by id (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.catalogue import Topic
from headwater.broker.quotas.mutations import Mutations
from headwater.broker.registry import Api, Context, Response
from headwater.broker.topic_admission import TopicError

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def delete_topics(broker: Broker, request: Any, context: Context) -> Response:
    if context.api_version >= 6:
        asked = [(item.name, item.topic_id) for item in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    mutations = Mutations(broker.quotas, context, strict=context.api_version >= 5)
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
    by_id = name is None
    if name is None:
        named = broker.catalogue.by_id.get(topic_id) if topic_id else None
        if named is None:
            return row | _unknown_id().row
        name = named.name

    def admit(topic: Topic) -> None:
        if by_id and topic.id != topic_id:  # another one was made under its name
            raise _unknown_id()
        mutations.take(topic.partitions)

    try:
        topic = await broker.topics.delete(name, admit)
    except TopicError as error:
        is_gone = by_id and error.code is ErrorCode.unknown_topic_or_partition
        return row | (_unknown_id() if is_gone else error).row
    await broker.groups.removal.offsets_erased(name)
    return {"name": name, "topic_id": topic.id}


def _unknown_id() -> TopicError:
    sentence = "This server does not host this topic ID."
    return TopicError(ErrorCode.unknown_topic_id, sentence)


API = Api(20, "DeleteTopics", (1, 6), delete_topics)
