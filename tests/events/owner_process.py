"""An owner in a process of its own, with the transfer saga beside it, to be killed by the tests."""

from __future__ import annotations

import asyncio
import sys

from headwater.events import Application
from headwater.events.saga import Saga
from tests.events import bank


async def main(name: str, bootstrap: str) -> None:
    accounts = bank.accounts(name)
    quick = {"session_timeout_ms": 1000}
    app = Application(accounts, bootstrap, partitions=4, snapshot_every=20, **quick)  # type: ignore[arg-type]
    async with app:
        react = bank.transfers(accounts)
        async with Saga("transfers", accounts, react, [app], bootstrap, **quick):  # type: ignore[arg-type]
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
