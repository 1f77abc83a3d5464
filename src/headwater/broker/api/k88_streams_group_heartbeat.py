"""StreamsGroupHeartbeat (key 88), version 0: join, stay in and leave a streams group.

A member brings its application's topology and says which tasks it has; it hears its epoch, when to come
again, which tasks it has now if that has changed, and why there are none. Epoch 0 joins, -1 leaves.
Internal topics that are missing are made before the answer, and used from the next heartbeat on. As in
Kafka 4.3 there are no static members, no warm-up tasks, no regular expressions for source topics, and the
topology of a group does not change.

KIP-1071.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.streams.endpoints import Served
from headwater.broker.groups.streams.heartbeat import Beaten
from headwater.broker.groups.streams.member import task_rows
from headwater.broker.groups.streams.request import names_of, read_beat, size_of
from headwater.broker.groups.streams.status import Status, StatusCode
from headwater.broker.registry import Api, Context
from headwater.broker.state_budget import ASSIGNED_BYTES
from headwater.broker.streams_topics import make_topics

if TYPE_CHECKING:
    from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest

    from headwater.broker.broker import Broker


Row = dict[str, object]

_UNCHANGED: Row = dict.fromkeys(
    ("active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint")
)
"""Null, which is not the same as none."""


async def handle(broker: Broker, request: StreamsGroupHeartbeatRequest, context: Context) -> Row:
    try:
        beat = read_beat(request, context.client_id, context.client_host)
    except HeartbeatRefused as refused:
        return _refused(refused.error, refused.message)
    size = size_of(beat, is_new=request.group_id not in broker.groups.groups)
    room = broker.state.for_member(request.group_id, beat.member_id, None, size, names_of(beat))
    if room is None and beat.epoch >= 0:
        message = "There is no room for more members."
        return _refused(ErrorCode.group_max_size_reached, message)
    beaten = await broker.groups.streams_heartbeat(request.group_id, beat)
    if beaten.error is not ErrorCode.none:
        if room is not None:
            room.give_back()
        return _refused(beaten.error, beaten.message)
    more = await make_topics(broker, beaten.missing, context) if beaten.missing else ""
    return _response(broker, beaten, more)


def _refused(error: ErrorCode, message: str | None) -> Row:
    return {"error_code": error, "error_message": message, **_UNCHANGED}


def _response(broker: Broker, beaten: Beaten, of_missing: str) -> Row:
    response: Row = {
        "error_code": beaten.error,
        "member_id": beaten.member_id,
        "member_epoch": beaten.epoch,
        "heartbeat_interval": beaten.interval_ms,
        "status": [_status(each, of_missing) for each in beaten.statuses],
        "endpoint_information_epoch": beaten.endpoint_epoch,
        **_UNCHANGED,
    }
    if beaten.assignment is not None:
        active, standby, warmup = map(task_rows, beaten.assignment)
        response |= {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": warmup}
        broker.state.take(ASSIGNED_BYTES * beaten.more_tasks, known=True)
    if beaten.endpoints is not None:
        response["partitions_by_user_endpoint"] = [
            {
                "user_endpoint": {"host": each.endpoint.host, "port": each.endpoint.port},
                "active_partitions": _served(each.active),
                "standby_partitions": _served(each.standby),
            }
            for each in beaten.endpoints
        ]
    return response


def _status(status: Status, of_missing: str) -> Row:
    more = of_missing if status.code is StatusCode.MISSING_INTERNAL_TOPICS else ""
    return {"status_code": int(status.code), "status_detail": status.detail + more}


def _served(topics: Served) -> list[Row]:
    return [{"topic": topic, "partitions": partitions} for topic, partitions in topics]


API = Api(88, "StreamsGroupHeartbeat", (0, 0), handle)
