"""A broker for tests: real protocol, real files, in this process, ready in milliseconds.

    with headwater.testing.broker() as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap})

It runs on an event loop in a thread of its own, so that ordinary blocking clients can be used. Data
goes to a temporary folder unless `data` is given. `kafka.faults` lets requests and the disk fail on demand.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.broker.broker import Broker
from headwater.broker.clock import Clock
from headwater.deprecation import warn
from headwater.testing.broker_faults import BrokerFaults

# Tests want their groups at once: Kafka's own test clusters set this too.
TEST_SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


class EmbeddedBroker(Broker):
    """A broker that a test can trouble: `faults`. What users run has nothing of this."""

    def __init__(
        self,
        data: Path | str,
        listen: str | None,
        settings: dict[str, object],
        durability: str | None,
        clock: Clock | None,
    ) -> None:
        self.faults = BrokerFaults(self)
        files = self.faults.disk
        super().__init__(data, listen, settings, durability, clock=clock, files=files)

    async def start(self) -> None:
        await super().start()
        self.apis = self.faults.before(self.apis)

    async def stop(self) -> None:
        self.faults.heal()
        await super().stop()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name != "doors":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warn("broker.doors", "broker.socket_server")
            return self.socket_server


@contextmanager
def broker(
    data: Path | str | None = None,
    settings: dict[str, object] | None = None,
    *,
    listen: str | None = "127.0.0.1:0",
    durability: str | None = None,
    clock: Clock | None = None,
) -> Iterator[EmbeddedBroker]:
    """A running broker; `bootstrap` is its address. Stopped cleanly at the end."""
    with tempfile.TemporaryDirectory(prefix="headwater-") as folder:
        merged = {**TEST_SETTINGS, **(settings or {})}
        running = EmbeddedBroker(data or folder, listen, merged, durability, clock)
        thread = _LoopThread()
        try:
            thread.run(running.start())
            try:
                yield running
            finally:
                thread.run(running.stop())
        finally:
            thread.stop()


class _LoopThread:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="headwater-broker")
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
