"""The same application for programs without an event loop: a thread runs the loop, calls wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, Unpack

from headwater.events.aggregate import Aggregate
from headwater.events.answers import Answer
from headwater.events.application import Application
from headwater.events.errors import OutcomeUnknown
from headwater.events.ledger import Held
from headwater.events.options import ApplicationOptions, SendOptions

State = TypeVar("State")
Result = TypeVar("Result")
_GRACE_S = 5.0
"""The loop tells who waits too long; a thread waits a little longer than that for its word."""


class _Ticket:
    """One thread that waits for one answer. A bare lock: a Future's condition costs several times more."""

    __slots__ = ("_lock", "outcome")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.outcome: Answer | BaseException | None = None

    def answered(self, outcome: Answer | BaseException) -> None:
        self.outcome = outcome
        self._lock.release()

    def wait(self, timeout_s: float) -> Answer:
        if not self._lock.acquire(timeout=timeout_s):
            raise OutcomeUnknown(
                "the command was not answered in time",
                hint="send it again with the same command_id: it is decided once",
            )
        assert self.outcome is not None
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class BlockingApplication(Generic[State]):
    """`with BlockingApplication(accounts, "127.0.0.1:9092") as bank`; options as of `Application`."""

    def __init__(
        self, aggregate: Aggregate[State], bootstrap: str, **options: Unpack[ApplicationOptions]
    ) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._asked: deque[tuple[_Ticket, str, object, SendOptions]] = deque()
        self._woken = False
        self._timeout_s: float = options.get("timeout_s", 30.0)
        self.application = Application(aggregate, bootstrap, **options)
        try:
            self._wait(self.application.start())
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> BlockingApplication[State]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer what is under way, and leave the group."""
        try:
            self._wait(self.application.close())
        finally:
            self._stop()

    def send(self, id: str, command: object, **options: Unpack[SendOptions]) -> Answer:
        """See `Application.send`. May be called from any thread."""
        timeout_s = options.get("timeout_s")
        patience = float(self._timeout_s if timeout_s is None else timeout_s) + _GRACE_S
        ticket = _Ticket()
        self._asked.append((ticket, id, command, options))
        if not self._woken:  # one wake-up for all threads that ask at the same moment
            self._woken = True
            self._loop.call_soon_threadsafe(self._hand_over)
        return ticket.wait(patience)

    def _hand_over(self) -> None:
        # Before looking: whoever comes after this wakes the loop again.
        self._woken = False
        while self._asked:
            ticket, id, command, options = self._asked.popleft()
            try:
                self.application.dispatch(ticket.answered, id, command, **options)
            except Exception as error:  # of this one: others wait behind it
                ticket.answered(error)

    def submit(self, id: str, command: object, **options: Unpack[SendOptions]) -> Future[Answer]:
        """Do not wait: the answer is in the future."""
        return asyncio.run_coroutine_threadsafe(
            self.application.send(id, command, **options), self._loop
        )

    def held(self, id: str) -> Held[State]:
        """The aggregate's state and version, from its owner."""
        return self._wait(self.application.held(id))

    def state(self, id: str) -> State:
        """The aggregate's state, from its owner."""
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
