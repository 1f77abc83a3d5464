"""One listening socket: who comes is counted and judged before anything is made for it but its descriptor.

The broker's `socket_server` has one for each address, and so have the web services. The event loop's own
server knows of no limit until a handshake is done, and uvloop's stops listening for good, without a word,
when the kernel has no memory for one more socket. Here no error of `accept` ends anything: it is told, and
after REST_S it is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headwater.broker.security.handshakes import Handshakes
from headwater.broker.security.tls_session import TlsSession

ACCEPTED_MAX = 32
"""In one turn of the event loop."""
REST_S = 0.5
FULL_S = 0.05
"""How soon to look again whether there is room for a handshake."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody who may come in."""

    make: Callable[[], asyncio.BaseProtocol]
    """What it talks to, made when it can."""
    left: Callable[[], None]
    """Called if it goes before that."""


@dataclass(frozen=True, slots=True, eq=False)
class Entrance:
    """What a listening socket is for; one for all the sockets of a listener."""

    admit: Callable[[socket.socket, str], Arrival | None]
    """By the client's address. None: it is not to come in, and its socket is no more the acceptor's."""
    failed: Callable[[OSError | None], None]
    """Told of each `accept` that did not work, and (None) of the first that did again."""
    context: Callable[[], ssl.SSLContext | None]
    """What it speaks TLS with, from now on; None: it does not."""


class Acceptor:
    """From when it is opened until it is closed."""

    def __init__(self, sock: socket.socket, entrance: Entrance, handshakes: Handshakes) -> None:
        self._socket = sock
        self._entrance = entrance
        self._handshakes = handshakes
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_failing = False
        self._is_closed = False

    def open(self, backlog: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        if self._entrance.context() is not None:
            self._handshakes.listen(self._entrance)
        self._listen()

    def _listen(self) -> None:
        self._timer = None
        try:
            self._loop.add_reader(self._socket.fileno(), self._accept)
        except OSError as error:  # the kernel has no memory to watch one more
            self._failed(error)

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._timer = self._loop.call_later(seconds, self._listen)

    def close(self) -> None:
        """Nobody more is accepted; who has been goes on."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    async def wait_closed(self) -> None:
        """Until everybody who was accepted has been handed over."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    # ---- one after the other ---------------------------------------------------------------------

    def _accept(self) -> None:
        context = self._entrance.context()
        for _ in range(ACCEPTED_MAX):
            if context is not None and not self._handshakes.has_room(self._entrance):
                self._rest(FULL_S)
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # it has gone again
                continue
            except OSError as error:
                self._failed(error)
                return
            sock.setblocking(False)
            if self._is_failing:
                self._is_failing = False
                self._entrance.failed(None)
            self._arrived(sock, str(address[0]), context)

    def _failed(self, error: OSError) -> None:
        self._rest(REST_S)
        self._handshakes.make_room()
        self._is_failing = True
        self._entrance.failed(error)

    def _arrived(self, sock: socket.socket, host: str, context: ssl.SSLContext | None) -> None:
        arrival = self._entrance.admit(sock, host)
        if arrival is None:
            return
        make, left = arrival.make, arrival.left
        if context is not None:
            session = TlsSession(context, make, (self._entrance, host), self._handshakes, left)
            make, left = lambda: session, partial(session.connection_lost, None)
        task = self._loop.create_task(self._attach(sock, make, left))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attach(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        left: Callable[[], None],
    ) -> None:
        is_attached = False
        try:
            with contextlib.suppress(OSError):  # it has gone again
                await self._loop.connect_accepted_socket(make, sock)
                is_attached = True
        finally:
            if not is_attached:
                sock.close()
                left()
