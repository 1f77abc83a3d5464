"""Who asks the issuer, and how many at once."""

from __future__ import annotations

import asyncio

from headwater.console.single_sign_on import WAITING_MAX, Crowded, Turns


def test_whoever_guesses_has_one_place_at_a_time_and_a_few_wait():
    async def seen() -> tuple[int, int, int]:
        turns, most, now, crowded = Turns(), 0, 0, 0
        go = asyncio.Event()

        async def ask_once() -> None:
            nonlocal most, now, crowded
            try:
                async with turns.taken("192.0.2.1", is_guessed_at=True):
                    now += 1
                    most = max(most, now)
                    await go.wait()
                    now -= 1
            except Crowded:
                crowded += 1

        asked = [asyncio.create_task(ask_once()) for _ in range(WAITING_MAX + 5)]
        await asyncio.sleep(0)
        async with turns.taken("192.0.2.2", is_guessed_at=False):
            go.set()
        await asyncio.gather(*asked)
        async with turns.taken("192.0.2.1", is_guessed_at=True):
            return most, crowded, WAITING_MAX

    assert asyncio.run(seen()) == (1, 5, WAITING_MAX)
