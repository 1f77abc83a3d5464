"""Waiting for something staged to be durable, without missing that it was refused.

A refused write takes its offsets back, and the next batch gets the same ones. So whoever has staged
something must begin to wait in the same step, before anything else can happen: `promise` does, and can be
awaited at leisure. (`Partition.durable` is the same for those who await it at once.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.partition import Partition


def promise(partition: Partition, next_offset: int) -> asyncio.Future[None]:
    """Done once everything before `next_offset` is durable; fails with StorageFailed."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: Exception | None) -> None:
        if waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(StorageFailed(str(error)))

    partition.when_durable(next_offset, done)
    waiter.add_done_callback(_seen)
    return waiter


def _seen(waiter: asyncio.Future[None]) -> None:
    """Nobody has to await it."""
    if not waiter.cancelled():
        waiter.exception()
