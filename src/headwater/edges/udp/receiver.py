"""A thread that empties a socket into an inbox with a bound, from which the event loop takes batches.

    kernel's buffer ──batches──▶ inbox ──take──▶ the log
          │                        │
     dropped by the kernel     dropped by us: the log does not keep up, and the bound is reached

The thread goes on reading when the inbox is full: so what is lost for lack of a quick log is counted apart
from what is lost for lack of a quick machine. One bridge owns each; counts are only written by the thread.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headwater.edges import counts
from headwater.edges.udp.batches import Batches, Datagram, host_of
from headwater.edges.udp.sockets import DropCount

LOOK_S = 0.5
TAKEN_MAX = 4096
"""Datagrams at once: some milliseconds of work for the event loop."""
TELL_S = 10.0
"""A line in the log at most so often, however much is dropped."""
OVERHEAD_BYTES = 120
"""What Python needs for a small datagram besides its bytes."""

_log = logging.getLogger("headwater.edges.udp")
_RECEIVED = counts.counter(
    "headwater_udp_datagrams_total", "Datagrams that came in and were read", ("bridge",)
)
_DROPPED = counts.counter(
    "headwater_udp_dropped_total",
    "Datagrams lost here: by the kernel (its buffer was full), by inbox (the log did not keep up)",
    ("bridge", "by"),
)


@dataclass
class Received:
    """Since the socket was opened."""

    datagrams: int = 0
    dropped_by_inbox: int = 0
    not_allowed: int = 0


class Receiving:
    """Made and started in the event loop that takes from it."""

    def __init__(
        self,
        name: str,
        made: socket.socket,
        inbox_bytes: int,
        may_send: Callable[[str], bool] | None = None,
    ) -> None:
        self.counts = Received()
        self.drops = DropCount(made)
        self.failure: OSError | None = None
        self._name, self._socket, self._bound, self._may_send = name, made, inbox_bytes, may_send
        self._inbox: deque[list[Datagram]] = deque()
        self._inbox_bytes = 0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._some = asyncio.Event()
        self._stop_read, self._stop_write = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name=f"udp {name}", daemon=True)
        self._looked_at = self._told_at = float("-inf")
        self._untold = {"kernel": 0, "inbox": 0}
        self._thread.start()

    async def take(self) -> list[Datagram]:
        """Waits for some. Raises what the socket said when it failed."""
        while True:
            with self._lock:
                if self._inbox:
                    return self._taken()
                self._some.clear()
            if self.failure is not None:
                raise self.failure
            await self._some.wait()

    def _taken(self) -> list[Datagram]:
        """One by one they would be read as they come, and each append costs the same for any number."""
        taken = self._inbox.popleft()
        while self._inbox and len(taken) < TAKEN_MAX:
            taken += self._inbox.popleft()
        self._inbox_bytes -= _size(taken)
        return taken

    @property
    def waiting_bytes(self) -> int:
        return self._inbox_bytes

    async def close(self) -> None:
        self._stop_write.send(b"x")
        await asyncio.to_thread(self._thread.join)
        left = sum(map(len, self._inbox))
        if left:
            self.counts.dropped_by_inbox += left
            _DROPPED.labels(self._name, "inbox").inc(left)
            _log.warning("%s: stopped with %d datagrams that the log had not yet", self._name, left)
        self._socket.close()
        self._stop_read.close()
        self._stop_write.close()

    # ---- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._read_on()
        except Exception as error:  # a thread that dies in silence would leave its reader waiting
            if not isinstance(error, OSError):
                _log.exception("%s: receiving failed", self._name)
                error = OSError(f"receiving failed: {error!r}")
            self.failure = error
            self._wake()

    def _read_on(self) -> None:
        batches = Batches(self._socket)
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._stop_read, select.POLLIN)
        while True:
            found = ready.poll(LOOK_S * 1000)
            batch = batches.read() if found else []
            if batch:
                self._put(batch)
            is_stopped = any(descriptor == self._stop_read.fileno() for descriptor, _ in found)
            if is_stopped or time.monotonic() - self._looked_at > LOOK_S:
                self._look()
            if is_stopped:
                return

    def _put(self, batch: list[Datagram]) -> None:
        self.counts.datagrams += len(batch)
        _RECEIVED.labels(self._name).inc(len(batch))
        if self._may_send is not None:
            allowed = [each for each in batch if self._may_send(host_of(each[1]))]
            refused = len(batch) - len(allowed)
            if refused:
                self.counts.not_allowed += refused
                counts.refused("udp", "sender_not_allowed", refused)
            batch = allowed
        with self._lock:
            kept = _fitting(batch, self._bound - self._inbox_bytes)
            if kept:
                self._inbox.append(kept)
                self._inbox_bytes += _size(kept)
        dropped = len(batch) - len(kept)
        if dropped:
            self.counts.dropped_by_inbox += dropped
            _DROPPED.labels(self._name, "inbox").inc(dropped)
            self._untold["inbox"] += dropped
        self._wake()

    def _wake(self) -> None:
        if not self._some.is_set():
            try:
                self._loop.call_soon_threadsafe(self._some.set)
            except RuntimeError:
                pass  # the loop has ended before us

    def _look(self) -> None:
        now = self._looked_at = time.monotonic()
        more = self.drops.look()
        if more:
            _DROPPED.labels(self._name, "kernel").inc(more)
            self._untold["kernel"] += more
        if any(self._untold.values()) and now - self._told_at > TELL_S:
            self._told_at = now
            _log.warning("%s: %s", self._name, _sentence(self._untold))
            self._untold = dict.fromkeys(self._untold, 0)


def _size(batch: list[Datagram]) -> int:
    return sum(len(datagram) for datagram, _ in batch) + OVERHEAD_BYTES * len(batch)


def _fitting(batch: list[Datagram], room: int) -> list[Datagram]:
    """As many as there is room for, the first ones."""
    if _size(batch) <= room:
        return batch
    kept = 0
    for datagram, _ in batch:
        room -= len(datagram) + OVERHEAD_BYTES
        if room < 0:
            break
        kept += 1
    return batch[:kept]


def _sentence(dropped: dict[str, int]) -> str:
    said = []
    if dropped["kernel"]:
        said.append(
            f"the kernel dropped {dropped['kernel']} datagrams: they came quicker than they were read "
            "(raise receive_buffer_bytes, and net.core.rmem_max)"
        )
    if dropped["inbox"]:
        said.append(
            f"{dropped['inbox']} datagrams were dropped here: the log does not keep up with them "
            "(raise inbox_bytes, or send less)"
        )
    return "; ".join(said)
