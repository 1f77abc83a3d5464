"""AlterShareGroupOffsets (key 91), version 0: let a share group begin elsewhere; KIP-932.

Only for a group without members. Everything in flight is forgotten: records from the new start on are
delivered (again). Beyond the end is the end: a group would wait there for offsets that may never be, without
a word. Durable before the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import NAME_CHARS_MAX
from headwater.broker.registry import Api, Context, Response
from headwater.broker.shares.administration import alone
from headwater.broker.shares.membership import GroupError
from headwater.broker.shares.records import Key
from headwater.broker.state_budget import EACH_BYTES
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

MESSAGES = {
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.kafka_storage_error: "Disk error when trying to access log file on the disk.",
}


async def alter(broker: Broker, request: Any, context: Context) -> Response:
    shares, group_id = broker.shares, request.group_id
    if group_id in broker.groups.groups and not shares.has(group_id):
        code, message = ErrorCode.group_id_not_found, f"Group {group_id} is not a share group."
        return {"error_code": code, "error_message": message}
    if len(group_id) > NAME_CHARS_MAX or not group_id:
        message = f"A group's name has 1 to {NAME_CHARS_MAX} characters."
        return {"error_code": ErrorCode.invalid_group_id, "error_message": message}
    group = shares.groups.get(group_id)
    if group is None and request.topics and broker.state.take(EACH_BYTES + len(group_id)) is None:
        code = ErrorCode.group_max_size_reached
        return {"error_code": code, "error_message": "There is no room for more groups."}
    return await shares.to_its_end(_alter(broker, request))


async def _alter(broker: Broker, request: Any) -> Response:
    group_id = request.group_id
    try:
        broker.shares.check_type(group_id)
        with alone(broker.shares, group_id):
            return {"responses": [await _topic(broker, group_id, each) for each in request.topics]}
    except GroupError as error:
        return {"error_code": error.code, "error_message": error.message}


async def _topic(broker: Broker, group_id: str, asked: Any) -> dict[str, object]:
    topic = broker.catalogue.topics.get(asked.topic_name)
    answers: list[dict[str, object]] = []
    for part in asked.partitions:
        code = ErrorCode.none
        if topic is None or part.partition_index not in range(topic.partitions):
            code = ErrorCode.unknown_topic_or_partition
        else:
            key = Key(group_id, topic.id, part.partition_index)
            partition = broker.partition(topic.name, part.partition_index)
            start = part.start_offset
            if partition is not None:
                start = min(start, partition.log.durable_offset)
            try:
                await broker.shares.owner(key, topic.name).reset(start)
            except StorageFailed:
                code = ErrorCode.kafka_storage_error
        message = MESSAGES.get(code)
        answers.append(
            {"partition_index": part.partition_index, "error_code": code, "error_message": message}
        )
    topic_id = None if topic is None else topic.id
    return {"topic_name": asked.topic_name, "topic_id": topic_id, "partitions": answers}


API = Api(91, "AlterShareGroupOffsets", (0, 0), alter)
