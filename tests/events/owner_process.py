"""An owner of the bank and the theatre, with their sagas, in a process of its own; to be killed by tests."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

from headwater.events import Aggregate, Application
from headwater.events.saga import Saga
from tests.events import bank, theatre


async def main(bootstrap: str) -> None:
    quick: dict[str, Any] = {"session_timeout_ms": 1000}
    accounts = bank.accounts("accounts")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context

        async def opened(aggregate: Aggregate[Any]) -> Application[Any]:
            return await enter(
                Application(aggregate, bootstrap, partitions=2, snapshot_every=20, **quick)
            )

        money = [await opened(accounts)]
        both = [await opened(theatre.seats), await opened(theatre.payments)]
        for name, source, react, apps in (
            ("transfers", accounts, bank.transfers(accounts), money),
            ("paying", theatre.seats, theatre.paying, both),
            ("confirming", theatre.payments, theatre.confirming, both),
        ):
            await enter(Saga(name, source, react, apps, bootstrap, **quick))
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
