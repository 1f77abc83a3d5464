"""A thread that empties a socket into an inbox with a bound, from which the event loop takes batches.

    kernel's buffer ──batches──▶ inbox ──take──▶ the log
          │                        │
     dropped by the kernel     dropped by us: the log does not keep up, and the bound is reached

The thread goes on reading when the inbox is full: so what is lost for lack of a quick log is counted apart
from what is lost for lack of a quick machine. Who floods it loses his own: nobody has more of the inbox than
`SHARE` times what is left for others. One bridge owns each; counts are only written by the thread.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from headwater.edges import counts
from headwater.edges.memory_share import SHARE
from headwater.edges.udp.batches import Batches, Datagram, host_of
from headwater.edges.udp.socket_thread import SocketThread
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
        self._name, self._socket, self._bound, self._may_send = name, made, inbox_bytes, may_send
        self._inbox: deque[list[Datagram]] = deque()
        self._inbox_bytes = 0
        self._inbox_of: Counter[bytes] = Counter()
        """Bytes by who sent them, counted from when there was little room until it is empty."""
        self._lock = threading.Lock()
        self._thread = SocketThread(f"udp {name}", self._read_on, [made])
        self._looked_at = self._told_at = float("-inf")
        self._untold = {"kernel": 0, "inbox": 0}
        self._thread.start()

    async def take(self) -> list[Datagram]:
        """Waits for some. Raises what the socket said when it failed."""
        while True:
            with self._lock:
                if self._inbox:
                    return self._taken()
                self._thread.clear()
            await self._thread.wait()

    def _taken(self) -> list[Datagram]:
        """One by one they would be read as they come, and each append costs the same for any number."""
        taken = self._inbox.popleft()
        while self._inbox and len(taken) < TAKEN_MAX:
            taken += self._inbox.popleft()
        self._inbox_bytes -= _size(taken)
        if self._inbox_of:
            self._inbox_of -= _by_sender(taken)  # who has none left is in it no more
        return taken

    @property
    def waiting_bytes(self) -> int:
        return self._inbox_bytes

    async def close(self) -> None:
        await self._thread.stopped()
        left = sum(map(len, self._inbox))
        if left:
            self.counts.dropped_by_inbox += left
            _DROPPED.labels(self._name, "inbox").inc(left)
            _log.warning("%s: stopped with %d datagrams that the log had not yet", self._name, left)
        self._thread.close()

    # ---- in the thread --------------------------------------------------------------------------

    def _read_on(self) -> None:
        batches = Batches(self._socket)
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._thread.stopping, select.POLLIN)
        while True:
            found = ready.poll(LOOK_S * 1000)
            batch = batches.read() if found else []
            if batch:
                self._put(batch)
            stop = self._thread.stopping.fileno()
            is_stopped = any(descriptor == stop for descriptor, _ in found)
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
            is_much = self._inbox_bytes + _size(batch) > self._bound // 2
            kept = self._shared(batch) if is_much or self._inbox_of else batch
            if kept:
                self._inbox.append(kept)
                self._inbox_bytes += _size(kept)
        dropped = len(batch) - len(kept)
        if dropped:
            self.counts.dropped_by_inbox += dropped
            _DROPPED.labels(self._name, "inbox").inc(dropped)
            self._untold["inbox"] += dropped
        self._thread.wake()

    def _shared(self, batch: list[Datagram]) -> list[Datagram]:
        """Those for which there is room: nobody has more than `SHARE` times what is left for all others."""
        if not self._inbox_of:
            for some in self._inbox:
                self._inbox_of.update(_by_sender(some))
        kept, left = [], self._bound - self._inbox_bytes
        for each in batch:
            size, of = len(each[0]) + OVERHEAD_BYTES, _network_of(each[1])
            if self._inbox_of[of] + size <= SHARE * (left - size):
                kept.append(each)
                left -= size
                self._inbox_of[of] += size
        return kept

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


def _by_sender(batch: list[Datagram]) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for datagram, sender in batch:
        found[_network_of(sender)] += len(datagram) + OVERHEAD_BYTES
    return found


def _network_of(sender: bytes) -> bytes:
    """Whose share a datagram uses: an IPv4 address, the /64 of an IPv6 one, as the kernel wrote it."""
    return sender[8:16] if any(sender[8:16]) else sender[4:8]


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
