"""The same application for programs without an event loop: a thread runs the loop, calls wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from headwater.events.aggregate import Aggregate
from headwater.events.answers import Answer
from headwater.events.application import Application
from headwater.events.ledger import Held

State = TypeVar("State")
Result = TypeVar("Result")


class Running(Generic[State]):
    """`with Running(accounts, "127.0.0.1:9092") as bank`; options as of `Application`."""

    def __init__(self, aggregate: Aggregate[State], bootstrap: str, **options: Any) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.application = Application(aggregate, bootstrap, **options)
        try:
            self._wait(self.application.start())
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Running[State]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self._wait(self.application.close())
        finally:
            self._stop()

    def send(self, id: str, command: object, **options: Any) -> Answer:
        """See `Application.send`. May be called from any thread."""
        return self.submit(id, command, **options).result()

    def submit(self, id: str, command: object, **options: Any) -> Future[Answer]:
        """Do not wait: the answer is in the future."""
        return asyncio.run_coroutine_threadsafe(
            self.application.send(id, command, **options), self._loop
        )

    def held(self, id: str) -> Held:
        return self._wait(self.application.held(id))

    def state(self, id: str) -> State:
        return self._wait(self.application.state(id))

    @property
    def owned(self) -> frozenset[int]:
        return self.application.owned

    def _wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
