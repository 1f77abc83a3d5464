"""ConsumerGroupHeartbeat (key 68), versions 0 and 1: join, stay in and leave a consumer group.

The member says its epoch, what it subscribes to and what it owns; it hears its epoch, when to come
again, and what it may read, if that has changed. Epoch 0 joins, -1 leaves, -2 leaves for a moment
(static members). Answered when whatever it changed is durable. What was not said before is null.

KIP-848, KIP-1082 (1: the member makes its own id, and may subscribe by regular expression).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kio.schema.errors import ErrorCode

from headwater.broker.groups.consumer.heartbeat import Beat
from headwater.broker.groups.consumer.steps import Refused
from headwater.broker.groups.consumer.validity import check
from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_MS = timedelta(milliseconds=1)


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    beat = _beat(request, context)
    try:
        check(request.group_id, beat, context.api_version, broker.settings)
    except Refused as refused:
        return {"error_code": refused.error, "error_message": refused.message}
    if broker.shares.has(request.group_id):
        message = f"Group {request.group_id} is not a consumer group."
        return {"error_code": ErrorCode.group_id_not_found, "error_message": message}
    beaten = await broker.groups.consumer_heartbeat(request.group_id, beat)
    response: dict[str, Any] = {
        "error_code": beaten.error,
        "error_message": beaten.message,
        "member_id": beaten.member_id,
        "member_epoch": beaten.epoch,
        "heartbeat_interval": beaten.interval_ms,
    }
    if beaten.assignment is not None:
        response["assignment"] = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(numbers)}
                for topic_id, numbers in beaten.assignment.items()
            ]
        }
    return response


def _beat(request: Any, context: Context) -> Beat:
    owned = request.topic_partitions
    names = request.subscribed_topic_names
    member_id = request.member_id
    if not member_id and context.api_version == 0 and request.member_epoch == 0:
        member_id = str(uuid4())
    return Beat(
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout // _MS,
        topic_names=None if names is None else frozenset(names),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=context.client_id,
        client_host=f"/{context.client_host}",
    )


def _owned(topics: Any) -> dict[Any, frozenset[int]]:
    owned: dict[Any, frozenset[int]] = {}
    for topic in topics:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


API = Api(68, "ConsumerGroupHeartbeat", (0, 1), handle)
