"""What goes out on one connection, until its client has taken it or is gone; each `Connection` has one.

Large answers are counted in the broker's memory budget until they are gone, for the transport keeps all
of one to its last byte. A client that is to go and takes nothing is cut off.

When the broker stops, more care is needed: a socket that is closed with unread bytes in it resets the
connection, and a client that was just sending may then never see the answers that were on their way:
stored, and never acknowledged. So the answers end with an end of stream, what the client still sends is
read and thrown away (`Discard`), and the socket is closed when the client has closed its side, as
clients do at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from headwater.broker.memory import SMALL_BYTES
from headwater.record.varint import Buffer

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

TASK = "connections"
STUCK_SECONDS = 1.0
"""A client that is to go and has taken nothing for so long is cut off."""
LAST_SECONDS = 3.0
"""For clients to go when the broker stops; they do so at once, unless they are frozen."""
UNSENT_SECONDS = 0.02
"""How soon to look again whether an answer has gone out to its end."""


class Outbound:
    """The writing side of a socket, from when it is there until it is lost."""

    def __init__(self, broker: Broker, transport: asyncio.BaseTransport) -> None:
        self._broker = broker
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass
        self.is_paused = False
        """The client does not take its answers."""
        self.unsent = 0
        """Counted for answers that the client has not taken."""
        self._left = 0
        self._since = self._moved = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_lost = False

    def write(self, chunks: list[Buffer]) -> None:
        if len(chunks) == 1:
            self.transport.write(chunks[0])
            size = len(chunks[0])
        else:
            self.transport.writelines(chunks)
            size = sum(map(len, chunks))
        if size > SMALL_BYTES:
            self.count(size)

    def count(self, written: int = 0) -> None:
        """Count large answers until they are gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_lost:
            return
        memory = self._broker.memory
        left, now = self.transport.get_write_buffer_size(), self._broker.clock.monotonic()
        if left != self._left:
            self._left, self._moved = left, now
        if written:
            self._since = self._since if self.unsent else now
            self.unsent += written
            memory.take("answers", written)
        if not left:
            size, self.unsent = self.unsent, 0
            memory.release("answers", size)
        elif self.unsent and not self.is_paused:
            self._timer = self._broker.supervisor.later(UNSENT_SECONDS, TASK, self.count)

    def stall(self, now: float) -> tuple[float, float]:
        """For how long nothing has moved, and for how long something is held."""
        return now - self._moved, now - self._since

    def close(self) -> None:
        """Close it once what was written has gone out; at once if the client takes nothing."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._look_again(-1)

    def finish(self, lost: Callable[[Exception | None], None]) -> None:
        """Let the client take its answers, and go; `lost` is called when it has."""
        self.transport.set_protocol(Discard(lost))
        try:
            self.transport.write_eof()
        except OSError:  # it has gone already; the others are still to be answered
            self.transport.abort()
        self._broker.supervisor.later(LAST_SECONDS, TASK, self._abort_if_stuck, 0)

    def _abort_if_stuck(self, before: int) -> None:
        if self._is_lost:
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent == before:
            self.transport.abort()
        else:
            self._look_again(unsent)

    def _look_again(self, unsent: int) -> None:
        self._broker.supervisor.later(STUCK_SECONDS, TASK, self._abort_if_stuck, unsent)

    def lost(self) -> None:
        """The socket is gone, and all that was to go out on it."""
        self._is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        size, self.unsent = self.unsent, 0
        self._broker.memory.release("answers", size)


class Discard(asyncio.Protocol):
    """Takes a connection's place: reads and forgets, until the client goes."""

    def __init__(self, lost: Callable[[Exception | None], None]) -> None:
        self._lost = lost

    def eof_received(self) -> None:
        """The client has gone: close, too."""

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(error)
