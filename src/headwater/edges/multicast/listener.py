"""A thread that owns `Sessions` and two sockets: hears the group, asks senders, hands out what is in order.

    group ──┐                        ┌──▶ inbox ──take──▶ the log
            ├──▶ sessions ──events───┤
    repairs ┘         └── asks ──▶ senders

When the inbox is full because the log does not keep up, the thread stops reading. What the kernel then
drops is found missing afterwards and asked for again, or named as a gap, like any other loss.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections import deque

from headwater.edges.multicast.addresses import Group
from headwater.edges.multicast.receiver import Arrived, Event
from headwater.edges.multicast.replay_window import FRESH_S
from headwater.edges.multicast.sessions import Sessions
from headwater.edges.udp.addresses import allowing
from headwater.edges.udp.batches import Batches, Datagram, host_of, port_of
from headwater.edges.udp.socket_thread import SocketThread
from headwater.edges.udp.sockets import DropCount

_log = logging.getLogger("headwater.edges.multicast")

TICK_S = 0.005
IDLE_S = 0.2
INBOX_BYTES = 32 * 1024**2
TAKEN_MAX = 1000
"""Events at once; `resumption` relies on it."""


class Listening:
    """Made and started in the event loop that takes from it. `sockets`: hearing and asking."""

    def __init__(
        self,
        name: str,
        group: Group,
        sockets: tuple[socket.socket, socket.socket],
        heard: Sessions,
        inbox_bytes: int = INBOX_BYTES,
    ) -> None:
        self.sessions = heard
        self._bound = inbox_bytes
        self.drops = DropCount(sockets[0])
        self.not_allowed = 0
        self.asks = 0
        self._name = name
        self._sockets = sockets
        heard.asks_from(sockets[1].getsockname())
        self._may_speak = allowing(group.allowed)
        self._inbox: deque[Event] = deque()
        self._inbox_bytes = 0
        self._room = threading.Condition()
        self._is_stopped = self._told = False
        self._thread = SocketThread(f"multicast {name}", self._listen_on, sockets)
        self._thread.start()

    async def take(self) -> list[Event]:
        """Waits for some. Raises what a socket said when it failed."""
        while True:
            with self._room:
                if self._inbox:
                    count = min(TAKEN_MAX, len(self._inbox))
                    taken = [self._inbox.popleft() for _ in range(count)]
                    self._inbox_bytes -= sum(map(_size, taken))
                    self._room.notify()
                    return taken
                self._thread.clear()
            await self._thread.wait()

    async def close(self) -> None:
        with self._room:
            self._is_stopped = True
            self._room.notify()
        await self._thread.stopped()
        self._thread.close()

    # ---- in the thread --------------------------------------------------------------------------

    def _listen_on(self) -> None:
        hearing, asking = self._sockets
        batches = {each.fileno(): Batches(each) for each in self._sockets}
        ready = select.poll()
        for each in (hearing, asking, self._thread.stopping):
            ready.register(each, select.POLLIN)
        while not self._is_stopped:
            wait_s = TICK_S if self.sessions.is_missing_some else IDLE_S
            for descriptor, _ in ready.poll(wait_s * 1000):
                if descriptor in batches:
                    self._put(self._heard(batches[descriptor].read()))
            events, asks = self.sessions.tick(time.monotonic())
            self._put(events)
            for address, ask in asks:
                self._ask(asking, address, ask)
            self.drops.look()

    def _heard(self, batch: list[Datagram]) -> list[Event]:
        events: list[Event] = []
        now = time.monotonic()
        for datagram, sender in batch:
            host = host_of(sender)
            if self._may_speak is not None and not self._may_speak(host):
                self.not_allowed += 1
                continue
            events += self.sessions.heard(datagram, (host, port_of(sender)), now)
        if self.sessions.counts.stale and not self._told:
            self._told = True
            _log.warning(
                "%s: packets were made more than %g s ago, or sent from elsewhere: copies, or the clocks of "
                "the two machines are apart. They are left out",
                self._name,
                FRESH_S,
            )
        return events

    def _ask(self, asking: socket.socket, address: tuple[str, int], ask: bytes) -> None:
        self.asks += 1
        try:
            asking.sendto(ask, address)
        except (BlockingIOError, ConnectionRefusedError):
            pass  # it is asked again, as if it had been lost on the way

    def _put(self, events: list[Event]) -> None:
        if not events:
            return
        with self._room:
            self._inbox.extend(events)
            self._inbox_bytes += sum(map(_size, events))
        self._thread.wake()
        if self._inbox_bytes > self._bound:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        began = time.monotonic()
        with self._room:
            while self._inbox_bytes > self._bound and not self._is_stopped:
                self._room.wait()
        self.sessions.was_deaf(time.monotonic() - began)


def _size(event: Event) -> int:
    if isinstance(event, Arrived):
        return len(event.message.value or b"") + len(event.message.key or b"") + 200
    return 200
