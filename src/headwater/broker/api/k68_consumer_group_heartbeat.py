"""ConsumerGroupHeartbeat (key 68), versions 0 and 1: join, stay in and leave a consumer group.

The member says its epoch, what it subscribes to and what it owns; it hears its epoch, when to come
again, and what it may read, if that has changed. Epoch 0 joins, -1 leaves, -2 leaves for a moment
(static members). Answered when whatever it changed is durable. What was not said before is null.

KIP-848, KIP-1082 (1: the member makes its own id, and may subscribe by regular expression).

Also here: is a ConsumerGroupHeartbeat well formed? Looked at before any group is; k68 calls `check`.

The sentences are Kafka's, because clients show them.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.groups.consumer import topic_regex
from headwater.broker.groups.consumer.heartbeat import Beat
from headwater.broker.groups.core import Settings
from headwater.broker.groups.group import HeartbeatRefused
from headwater.broker.groups.modern.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.broker.registry import Api, Context
from headwater.broker.state_budget import ASSIGNED_BYTES
from headwater.fair_queue import Busy

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


_MS = timedelta(milliseconds=1)


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    beat = _beat(request, context)
    try:
        check(request.group_id, beat, context.api_version, broker.settings)
    except HeartbeatRefused as refused:
        return {"error_code": refused.error, "error_message": refused.message}
    if broker.shares.has(request.group_id):
        message = f"Group {request.group_id} is not a consumer group."
        return {"error_code": ErrorCode.group_id_not_found, "error_message": message}
    size = sum(map(len, beat.topic_names or ())) + len(beat.topic_regex or "")
    names = (beat.client_id, beat.rack_id)
    room = broker.state.for_member(request.group_id, beat.member_id, beat.instance_id, size, names)
    if room is None and beat.epoch >= 0:
        message = "There is no room for more members."
        return {"error_code": ErrorCode.group_max_size_reached, "error_message": message}
    _kept = await _look(broker, request.group_id, beat, context.client_host)
    beaten = await broker.groups.consumer_heartbeat(request.group_id, beat)
    if room is not None and beaten.error is not ErrorCode.none:
        room.give_back()
    response: dict[str, Any] = {
        "error_code": beaten.error,
        "error_message": beaten.message,
        "member_id": beaten.member_id,
        "member_epoch": beaten.epoch,
        "heartbeat_interval": beaten.interval_ms,
    }
    if beaten.assignment is not None:
        count = sum(map(len, beaten.assignment.values()))
        broker.state.take(ASSIGNED_BYTES * count, known=True)
        response["assignment"] = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(numbers)}
                for topic_id, numbers in beaten.assignment.items()
            ]
        }
    return response


async def _look(
    broker: Broker, group_id: str, beat: Beat, address: str
) -> list[topic_regex.TopicRegex]:
    """Have looked up what the heartbeat needs; what finds no place for that waits for the next one."""
    if not broker.groups.hears(group_id, beat.member_id, beat.epoch):
        return []
    expressions = broker.groups.expressions(group_id, beat.topic_regex)
    aside = partial(broker.expressions.run, address)
    try:
        return await topic_regex.look(aside, expressions, broker.catalogue.topics)
    except Busy:
        return []


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
    owned: dict[Any, set[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


API = Api(68, "ConsumerGroupHeartbeat", (0, 1), handle)


def check(group_id: str, beat: Beat, version: int, settings: Settings) -> None:
    """Raises `HeartbeatRefused`."""
    problem = _problem(group_id, beat, version)
    if problem is not None:
        raise HeartbeatRefused(ErrorCode.invalid_request, problem)
    assignors: list[str] = settings.get("group.consumer.assignors")
    if beat.assignor is not None and beat.assignor not in assignors:
        raise HeartbeatRefused(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {beat.assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _problem(group_id: str, beat: Beat, version: int) -> str | None:
    if not beat.member_id.strip() and (version >= 1 or beat.epoch != JOIN_EPOCH):
        return "MemberId can't be empty."
    for name, value in (
        ("GroupId", group_id),
        ("InstanceId", beat.instance_id),
        ("RackId", beat.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if beat.epoch == JOIN_EPOCH:
        return _joining_problem(beat) or _too_long(beat)
    if beat.epoch == LEAVE_STATIC_EPOCH and beat.instance_id is None:
        return "InstanceId can't be null."
    if beat.epoch < LEAVE_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    return _too_long(beat) if beat.epoch != LEAVE_EPOCH else None


def _joining_problem(beat: Beat) -> str | None:
    if beat.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if beat.owned is None or beat.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if beat.topic_names is None and beat.topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return None


def _too_long(beat: Beat) -> str | None:
    """What cannot stand in a record's key or value must not get into the group."""
    names = (
        ("MemberId", beat.member_id),
        ("InstanceId", beat.instance_id),
        ("RackId", beat.rack_id),
        ("SubscribedTopicRegex", beat.topic_regex),
        ("ClientId", beat.client_id),
    )
    for name, value in names:
        if len(value or "") > bounds.NAME_CHARS_MAX:
            return f"{name} is too long."
    return bounds.subscription_problem(beat.topic_names)
