"""Loads of pages: those of one visitor take no thread that another needs."""

from __future__ import annotations

import asyncio
import threading

from headwater.console import live
from headwater.console.sessions import WHO


def test_one_visitors_loads_hold_up_no_other_visitor() -> None:
    """Whoever may only look has 64 pages, and each may ask for what takes seconds."""
    go = threading.Event()

    async def asked(who: str, load: object) -> object:
        WHO.set(who)
        return await live.loaded(load)  # type: ignore[arg-type]

    async def play() -> None:
        slow = [
            asyncio.create_task(asked("token:reader", go.wait)) for _ in range(2 * live.THREADS)
        ]
        await asyncio.sleep(0)
        try:
            quick = asked("token:administrator", lambda: "the topics")
            assert await asyncio.wait_for(quick, 60) == "the topics"
            assert not any(each.done() for each in slow)
        finally:
            go.set()
        assert all(await asyncio.gather(*slow))

    asyncio.run(play())
