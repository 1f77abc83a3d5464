"""Acknowledgements, as ShareFetch and ShareAcknowledge both carry them: checked, then settled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.records import Key
from headwater.broker.shares.sessions import Place, SessionKey
from headwater.broker.shares.state import Ack, Acknowledgement

Settled = dict[Place, tuple[ErrorCode, str | None]]


def problem(request: Any, api_version: int) -> str | None:
    """What is wrong with the request as such."""
    if not request.group_id:
        return "GroupId can't be empty."
    if not request.member_id:
        return "MemberId can't be empty."
    return None


async def settle(shares: ShareCoordinator, key: SessionKey, topics: Any) -> Settled:
    """Settle all acknowledgements of a request, side by side; done when durable."""
    places: list[Place] = []
    working = []
    for topic in topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                places.append((topic.topic_id, partition.partition_index))
                working.append(_settle_one(shares, key, places[-1], partition))
    return dict(zip(places, await asyncio.gather(*working), strict=True))


async def _settle_one(
    shares: ShareCoordinator, key: SessionKey, place: Place, partition: Any
) -> tuple[ErrorCode, str | None]:
    wrong = _wrong(partition.acknowledgement_batches)
    if wrong is not None:
        return ErrorCode.invalid_request, wrong
    topic = shares.broker.catalogue.by_id.get(place[0])
    keeper = shares.keepers.get(Key(key.group_id, *place))
    if topic is None or keeper is None:
        code = ErrorCode.unknown_topic_or_partition
        return code, "This server does not host this topic-partition."
    batches = [
        Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
        for each in partition.acknowledgement_batches
    ]
    return await keeper.acknowledge(key.member_id, batches)


def _wrong(batches: Sequence[Any]) -> str | None:
    end = -1
    for each in batches:
        types = each.acknowledge_types
        if each.first_offset > each.last_offset or each.first_offset < end:
            return "Acknowledgement batches must be in order and must not overlap."
        if not types or len(types) not in (1, each.last_offset - each.first_offset + 1):
            return "One acknowledge type for the batch, or one for each offset."
        if any(kind not in tuple(Ack) for kind in types):
            return f"Invalid acknowledge type: {max(types)}"
        end = each.last_offset + 1
    return None
