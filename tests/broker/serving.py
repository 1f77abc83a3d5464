"""A broker in this process whose parts a test may touch: its disk, its clock, its event loop.

Like `headwater.testing.broker`, which hides all that from ordinary tests.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from headwater.broker.broker import Broker
from headwater.broker.clock import Clock
from headwater.log.files import FileSystem
from tests.broker.disks import HandDisk
from tests.compat.wire import ErrorCode, Wire, connected

T = TypeVar("T")

SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": False,
    "log.cleaner.enable": False,
    "audit.enable": False,
}
"""Nothing happens by itself, unless a test asks for it."""


class Serving:
    """A broker that answers at `bootstrap`, on an event loop in a thread of its own."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap
        self._loop = loop

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine where the broker lives."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same, and wait for it."""
        return self.begin(coroutine).result(60)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function where the broker lives: its state belongs to that thread."""

        async def called() -> T:
            return function()

        return self.run(called())

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        with connected(self.bootstrap) as wire:
            yield wire

    def create(self, topic: str, partitions: int = 1, /, **configs: object) -> Any:
        """Create a topic (`_` in a config's name is a dot); returns its id."""
        with self.wire() as wire:
            return create(wire, topic, partitions, **configs)

    def log(self, topic: str, partition: int = 0) -> Any:
        return self.broker.topics.partitions[topic, partition].log


def create(wire: Wire, topic: str, partitions: int = 1, /, **configs: object) -> Any:
    """CreateTopics for one topic; returns its id."""
    pairs = [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()]
    asked = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": pairs}
    answer = wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0]
    assert answer.error_code is ErrorCode.none, answer
    return answer.topic_id


def delete(wire: Wire, topic: str) -> ErrorCode:
    """DeleteTopics for one topic."""
    answer = wire.ask("delete_topics", 6, topics=[{"name": topic}], timeout=9000)
    return answer.responses[0].error_code


@contextmanager
def serving(
    data: Path,
    settings: Mapping[str, object] | None = None,
    *,
    files: FileSystem | None = None,
    clock: Clock | None = None,
    durability: str | None = None,
    listen: str | None = "127.0.0.1:0",
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> Iterator[Serving]:
    """Start a broker on a folder, by default on a disk that need not be waited for; stopped in order."""
    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever, name="broker-under-test", daemon=True)
    thread.start()
    merged = {**SETTINGS, **(settings or {})}
    broker = Broker(data, listen, merged, durability, clock=clock, files=files or HandDisk())
    try:
        asyncio.run_coroutine_threadsafe(broker.start(), loop).result(60)
        try:
            yield Serving(broker, loop)
        finally:
            asyncio.run_coroutine_threadsafe(broker.stop(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
