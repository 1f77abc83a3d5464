"""A thread that owns a `Sender` and its socket: sends what it is given, answers who asks, says it lives.

    send ─▶ outbox ─▶ take ─▶ group            asks ─▶ repairs, to the one who asked
                       └─ nothing more to send: heartbeats, soon and then every BEAT_S

Where there is no secret, and others than this machine hear it, repairs go to the group, and are fewer: who
asks may have written any address on its packet, and whoever lives there would get them. Used by `bridge`. At
the end it stays for those who still lack something: until nobody has asked for QUIET_S.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from headwater.edges.multicast.addresses import Group
from headwater.edges.multicast.packets import Ask, Message, Ranges, TooLarge, Unreadable, decode
from headwater.edges.multicast.replay_window import ReplayWindow, Stamps
from headwater.edges.multicast.sender import Holding, Sender
from headwater.edges.udp.addresses import allowing

_log = logging.getLogger("headwater.edges.multicast")

BEAT_S = 0.2
FIRST_BEAT_S = 0.01
"""Who lost the last packet learns of it from the next one: that is a heartbeat, so it must not wait long."""
QUIET_S = 0.5
LINGER_S = 3.0
TURN = 64
"""Packets sent before the asks are looked at again."""
UNSEALED_BYTES_PER_S = 2 * 1024**2
"""Of repairs, where anybody on the network can ask for them in anybody's name."""
_ENDINGS = 3
Failures = list[tuple[int, str]]
"""Which messages of a batch were too large, and why."""


class Speaking:
    """One session. `made`: see `sockets.speaking`."""

    def __init__(
        self,
        name: str,
        group: Group,
        made: socket.socket,
        holding: Holding,
        previous: Ranges = (),
    ) -> None:
        if group.answers_all:
            rate = min(UNSEALED_BYTES_PER_S, holding.repair_bytes_per_s)
            holding = replace(holding, repair_bytes_per_s=rate)
        self.sender = Sender(new_session(), holding, previous, Stamps(made.getsockname()))
        self.asks = 0
        self._window = ReplayWindow()
        self._name = name
        self._group, self._socket, self._secret = group, made, holding.secret
        self._may_ask = allowing(group.allowed)
        self._outbox: deque[_Batch] = deque()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._stopped_at: float | None = None
        self._spoke_at = self._asked_at = float("-inf")
        self._beat_s = FIRST_BEAT_S
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name=f"multicast {name}", daemon=True)
        self._thread.start()

    async def send(self, messages: Sequence[Message]) -> Failures:
        """All are sent, and held for those who ask, when this returns. Raises OSError."""
        batch = _Batch(messages)
        self._outbox.append(batch)
        self._wake()
        if self._failure is not None:
            raise self._failure
        return await asyncio.wrap_future(batch.done)

    async def close(self) -> None:
        self._stopped_at = time.monotonic()
        self._wake()
        await asyncio.to_thread(self._thread.join)
        for each in (self._socket, self._wake_read, self._wake_write):
            each.close()

    def _wake(self) -> None:
        self._wake_write.send(b"x")

    # ---- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._speak_on()
        except Exception as error:  # a thread that dies in silence would leave senders waiting
            if not isinstance(error, OSError):
                _log.exception("%s: speaking failed", self._name)
                error = OSError(f"speaking failed: {error!r}")
            self._failure = error
            while self._outbox:
                self._outbox.popleft().done.set_exception(error)

    def _speak_on(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._wake_read, select.POLLIN)
        wait_s = 0.0
        while not self._is_over():
            ready.poll(max(0.0, min(wait_s, BEAT_S)) * 1000)
            self._forget_wakes()
            self._answer()
            wait_s = self._turn()
        for _ in range(_ENDINGS if self.sender.last else 0):
            self._send(self.sender.heartbeat(ends=True), self._group.place)

    def _is_over(self) -> bool:
        if self._stopped_at is None or self._outbox:
            return False
        now = time.monotonic()
        since = max(self._stopped_at, self._asked_at)
        return not self.sender.last or now - since > QUIET_S or now - self._stopped_at > LINGER_S

    def _forget_wakes(self) -> None:
        try:
            while self._wake_read.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _turn(self) -> float:
        """Send a few; how long to wait until there is something to do."""
        for _ in range(TURN):
            if not self._outbox:
                return self._beat()
            batch = self._outbox[0]
            message = batch.next
            if message is None:
                self._outbox.popleft()
                batch.done.set_result(batch.refused)
                continue
            wait_s = self.sender.wait_s(len(message.value or b"") + 200, time.monotonic())
            if wait_s > 0:
                return min(wait_s, self._beat())
            self._take(batch, message)
        return 0.0

    def _take(self, batch: _Batch, message: Message) -> None:
        now = time.monotonic()
        try:
            self._send(self.sender.take(message, now), self._group.place)
            self._spoke_at, self._beat_s = now, FIRST_BEAT_S
        except TooLarge as error:
            batch.refused.append((batch.sent, str(error)))
        batch.sent += 1

    def _beat(self) -> float:
        """A heartbeat where one is due; how long until the next."""
        now = time.monotonic()
        if now - self._spoke_at >= self._beat_s:
            self._send(self.sender.heartbeat(), self._group.place)
            self._spoke_at = now
            self._beat_s = min(BEAT_S, self._beat_s * 2)
        return self._spoke_at + self._beat_s - now

    def _answer(self) -> None:
        for _ in range(TURN):
            try:
                datagram, source = self._socket.recvfrom(65_536)
            except (BlockingIOError, ConnectionRefusedError):
                return
            if self._may_ask is not None and not self._may_ask(source[0]):
                continue
            try:
                ask = decode(datagram, self._secret)
            except Unreadable:
                continue
            if isinstance(ask, Ask) and (
                not self._secret or self._window.is_new(ask.stamp, source)
            ):
                self.asks += 1
                self._asked_at = time.monotonic()
                to = self._group.place if self._group.answers_all else source
                for packet in self.sender.asked(ask, self._asked_at, source[0]):
                    self._send(packet, to)

    def _send(self, packet: bytes, to: tuple[str, int]) -> None:
        while True:
            try:
                self._socket.sendto(packet, to)
                return
            except BlockingIOError:  # the network card does not keep up
                waiting = select.poll()  # select() takes no descriptor above 1,023
                waiting.register(self._socket, select.POLLOUT)
                waiting.poll(BEAT_S * 1000)
            except ConnectionRefusedError:
                pass  # somebody to whom we sent a repair is gone: Linux tells the next caller


class _Batch:
    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.sent = 0
        self.refused: Failures = []
        self.done: Future[Failures] = Future()
        self.done.set_running_or_notify_cancel()  # who no longer waits does not stop it

    @property
    def next(self) -> Message | None:
        return self.messages[self.sent] if self.sent < len(self.messages) else None


def new_session() -> int:
    """Later ones are larger, and no two are the same: milliseconds << 20 | random."""
    return time.time_ns() // 1_000_000 << 20 | int.from_bytes(os.urandom(3), "big") >> 4
