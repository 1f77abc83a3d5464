"""A thread that owns sockets, and the event loop that takes from it: of `receiver`, and of multicast."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)


class SocketThread:
    """Made in the event loop that takes; `work` runs in the thread until `stopping` can be read from."""

    def __init__(
        self, name: str, work: Callable[[], None], sockets: Sequence[socket.socket]
    ) -> None:
        self.failure: OSError | None = None
        self._name, self._work, self._sockets = name, work, sockets
        self._loop = asyncio.get_running_loop()
        self._some = asyncio.Event()
        self.stopping, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def clear(self) -> None:
        """There is nothing to take; to be called with the lock that whoever puts something holds."""
        self._some.clear()

    async def wait(self) -> None:
        """Until there is something to take. Raises what a socket said when it failed."""
        if self.failure is not None:
            raise self.failure
        await self._some.wait()

    async def stopped(self) -> None:
        """Ask it to end, and wait for that."""
        self._stop.send(b"x")
        await asyncio.to_thread(self._thread.join)

    def close(self) -> None:
        for each in (*self._sockets, self.stopping, self._stop):
            each.close()

    # ---- in the thread --------------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to take."""
        if not self._some.is_set():
            try:
                self._loop.call_soon_threadsafe(self._some.set)
            except RuntimeError:
                pass  # the loop has ended before us

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # a thread that dies in silence would leave its reader waiting
            if not isinstance(error, OSError):
                _log.exception("%s: receiving failed", self._name)
                error = OSError(f"receiving failed: {error!r}")
            self.failure = error
            self.wake()
