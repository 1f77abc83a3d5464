"""Is a ConsumerGroupHeartbeat well formed? Looked at before any group is; k68 calls `check`.

The sentences are Kafka's, because clients show them.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headwater.broker.groups import records
from headwater.broker.groups.consumer.heartbeat import Beat
from headwater.broker.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.broker.groups.consumer.steps import Refused
from headwater.broker.groups.core import Settings


def check(group_id: str, beat: Beat, version: int, settings: Settings) -> None:
    """Raises `Refused`."""
    problem = _problem(group_id, beat, version)
    if problem is not None:
        raise Refused(ErrorCode.invalid_request, problem)
    assignors: list[str] = settings.get("group.consumer.assignors")
    if beat.assignor is not None and beat.assignor not in assignors:
        raise Refused(
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
        if len(value or "") > records.NAME_CHARS_MAX:
            return f"{name} is too long."
    return None
