"""Where partitions begin and end, and where they are at a time; for `Log`, and for any admin client."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headwater.client.cluster import EARLIEST, LATEST

Place = tuple[str, int]
"""Topic and partition."""


def listed(
    admin: AdminClient,
    places: Iterable[Place],
    at: int,
    timeout_s: float,
    *,
    committed: bool = True,
) -> dict[Place, int]:
    """At EARLIEST, LATEST or a time in ms; -1: no record so late. With what confluent-kafka raises.

    Unless `committed`, records of open transactions count.
    """
    asked = {TopicPartition(*place): _spec(at) for place in places}
    if not asked:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    found = admin.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
    return {(p.topic, p.partition): int(f.result().offset) for p, f in found.items()}


def newest_ms(admin: AdminClient, places: Iterable[Place], timeout_s: float) -> int:
    """The latest timestamp that a record has; -1 where there is none."""
    asked = {TopicPartition(*place): OffsetSpec.max_timestamp() for place in places}
    found = admin.list_offsets(asked, request_timeout=timeout_s)
    return max(int(each.result().timestamp) for each in found.values())


def _spec(at: int) -> OffsetSpec:
    if at == EARLIEST:
        return OffsetSpec.earliest()
    return OffsetSpec.latest() if at == LATEST else OffsetSpec.for_timestamp(at)
