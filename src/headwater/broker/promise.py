"""Waiting for something staged to be durable, without missing that it was refused.

A refused write takes its offsets back, and the next batch gets the same ones. So whoever has staged
something must begin to wait in the same step, before anything else can happen: `promise` does, and can be
awaited at leisure, or not at all. (`Partition.durable` is the same for those who await it in any case.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.broker.partition import Partition


def promise(partition: Partition, next_offset: int) -> asyncio.Future[None]:
    """Done once everything before `next_offset` is durable; fails with StorageFailed."""
    waiter = partition.durable(next_offset)
    waiter.add_done_callback(_seen)
    return waiter


def _seen(waiter: asyncio.Future[None]) -> None:
    """Nobody has to await it."""
    if not waiter.cancelled():
        waiter.exception()
