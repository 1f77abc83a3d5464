"""The loop of simulations: time passes when nobody has anything to do, and a seed gives one run."""

from __future__ import annotations

import asyncio

import pytest

from headwater.testing.clock import ManualClock
from headwater.testing.virtual_loop import Standstill, VirtualLoop


def order_of(seed: int) -> list[int]:
    """In which order eight pieces of work in threads are done."""
    loop, done = VirtualLoop(ManualClock(), seed), list[int]()

    async def work() -> None:
        await asyncio.gather(*(loop.run_in_executor(None, done.append, n) for n in range(8)))

    loop.run(work())
    loop.close()
    return done


def test_a_day_of_sleep_takes_no_time() -> None:
    clock = ManualClock()
    loop, began = VirtualLoop(clock), clock.now_ms()
    loop.run(asyncio.sleep(24 * 3600))
    loop.close()
    assert clock.now_ms() - began == 24 * 3600 * 1000


def test_what_is_due_at_the_same_moment_meets() -> None:
    clock, met = ManualClock(), list[int]()
    loop = VirtualLoop(clock)

    async def tick(seconds: float) -> None:
        for _ in range(round(3 / seconds)):
            await asyncio.sleep(seconds)
        met.append(clock.now_ms())

    async def work() -> None:
        await asyncio.gather(tick(0.1), tick(0.3), tick(1.5))

    loop.run(work())
    loop.close()
    assert len(set(met)) == 1


def test_threads_work_in_an_order_that_the_seed_gives() -> None:
    orders = [order_of(seed) for seed in range(5)]
    assert orders == [order_of(seed) for seed in range(5)]
    assert len({tuple(order) for order in orders}) > 1


def test_waiting_for_nothing_is_an_error() -> None:
    loop = VirtualLoop(ManualClock())

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Standstill):
        loop.run(wait())
    loop.abandon()
