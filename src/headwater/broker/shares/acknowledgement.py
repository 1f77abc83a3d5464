"""Acknowledgements, as ShareFetch and ShareAcknowledge both carry them: checked, then settled.

And what a member gets of batches that were read, of which some were aborted: those are acknowledged for it.
All of these are in the order of offsets, and there may be thousands while the event loop waits (a megabyte
holds 15,000 small batches): so each is looked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.shares.ack import Ack, Acknowledgement
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.records import Key
from headwater.broker.shares.sessions import Place, SessionKey
from headwater.broker.shares.state import Acquired, Batch
from headwater.broker.slices import SLICE_ELEMENTS, pieces
from headwater.broker.turns import give_way

Settled = dict[Place, tuple[ErrorCode, str | None]]
BEGUN_AT_ONCE = 100
"""So many acknowledgements, and those of one partition more, are looked at in one turn of the event loop."""


def is_wrong(request: Any) -> bool:
    """Whether the request as such is refused."""
    return not request.group_id or not request.member_id


async def settle(shares: ShareCoordinator, key: SessionKey, request: Any) -> Settled:
    """Settle all acknowledgements of a request, many side by side; done when durable."""
    renews = getattr(request, "is_renew_ack", False)
    asked = [
        ((topic.topic_id, partition.partition_index), partition)
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    ]
    settled: Settled = {}
    for some in pieces(asked, SLICE_ELEMENTS):
        working, begun = [], 0
        for place, each in some:
            if begun > BEGUN_AT_ONCE:  # what has begun waits for the disk, together with the others
                begun = 0
                await give_way()
            working.append(shares.spawn(_settle_one(shares, key, place, each, renews)))
            begun += len(each.acknowledgement_batches)
        outcomes = await asyncio.gather(*working)
        settled.update(zip((place for place, _ in some), outcomes, strict=True))
    return settled


async def _settle_one(
    shares: ShareCoordinator, key: SessionKey, place: Place, partition: Any, renews: bool
) -> tuple[ErrorCode, str | None]:
    if not _in_order(partition.acknowledgement_batches, Ack.RENEW if renews else Ack.REJECT):
        return ErrorCode.invalid_request, None
    if place[0] not in shares.node.catalogue.by_id:
        return ErrorCode.unknown_topic_id, None
    owner = shares.owners.get(Key(key.group_id, *place))
    if owner is None:
        return ErrorCode.unknown_topic_or_partition, None
    batches = [
        Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
        for each in partition.acknowledgement_batches
    ]
    return await owner.acknowledge(key.member_id, batches)


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


# ---- what is delivered ----------------------------------------------------------------------------


def parts(data: memoryview, found: list[Batch], taken: list[Acquired]) -> Iterator[memoryview]:
    """The batches in which something was taken."""
    begin, at = 0, 0
    for batch in found:
        while at < len(taken) and taken[at].last < batch.first:
            at += 1
        if at < len(taken) and taken[at].first <= batch.last:
            yield data[begin : batch.end]
        begin = batch.end


def common(taken: list[Acquired], void: list[Batch]) -> list[tuple[int, int]]:
    """Offsets that are in both, neighbours as one."""
    found: list[tuple[int, int]] = []
    at = 0
    for each in taken:
        while at < len(void) and void[at].first <= each.last:
            first, last = max(each.first, void[at].first), min(each.last, void[at].last)
            if first <= last:
                begin = found.pop()[0] if found and found[-1][1] + 1 == first else first
                found.append((begin, last))
            if void[at].last > each.last:
                break  # it may reach into the next one
            at += 1
    return found


def rest(taken: list[Acquired], gaps: list[Acknowledgement]) -> list[Acquired]:
    """What is taken but for the gaps."""
    left: list[Acquired] = []
    at = 0
    for each in taken:
        first = each.first
        while at < len(gaps) and gaps[at].first <= each.last:
            if first < gaps[at].first:
                left.append(Acquired(first, gaps[at].first - 1, each.deliveries))
            first = gaps[at].last + 1
            if gaps[at].last > each.last:
                break  # the next one has the rest of it
            at += 1
        if first <= each.last:
            left.append(Acquired(first, each.last, each.deliveries))
    return left
