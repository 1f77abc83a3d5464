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


def is_wrong(request: Any) -> bool:
    """Whether the request as such is refused."""
    return not request.group_id or not request.member_id


async def settle(shares: ShareCoordinator, key: SessionKey, request: Any) -> Settled:
    """Settle all acknowledgements of a request, side by side; done when durable."""
    places: list[Place] = []
    working = []
    renews = getattr(request, "is_renew_ack", False)
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                places.append((topic.topic_id, partition.partition_index))
                working.append(_settle_one(shares, key, places[-1], partition, renews))
    return dict(zip(places, await asyncio.gather(*working), strict=True))


async def _settle_one(
    shares: ShareCoordinator, key: SessionKey, place: Place, partition: Any, renews: bool
) -> tuple[ErrorCode, str | None]:
    if not _in_order(partition.acknowledgement_batches, Ack.RENEW if renews else Ack.REJECT):
        return ErrorCode.invalid_request, None
    if place[0] not in shares.broker.catalogue.by_id:
        return ErrorCode.unknown_topic_id, None
    keeper = shares.keepers.get(Key(key.group_id, *place))
    if keeper is None:
        return ErrorCode.unknown_topic_or_partition, None
    batches = [
        Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
        for each in partition.acknowledgement_batches
    ]
    return await keeper.acknowledge(key.member_id, batches)


def _in_order(batches: Sequence[Any], highest: int) -> bool:
    """Ascending, without overlap, with one type for all offsets or one for each."""
    end = 0
    for each in batches:
        types = each.acknowledge_types
        if not end <= each.first_offset <= each.last_offset:
            return False
        if len(types) not in (1, each.last_offset - each.first_offset + 1):
            return False
        if min(types) < Ack.GAP or max(types) > highest:
            return False
        end = each.last_offset + 1
    return True
