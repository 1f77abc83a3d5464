"""uvicorn as the edges, the registry and the console run it: with TLS where asked for, until told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import uvicorn

from headwater.broker.security.acceptor import Acceptor, Arrival, Entrance
from headwater.broker.security.admission import Admission, Bound, Place
from headwater.broker.security.handshakes import Handshakes
from headwater.fair_queue import network
from headwater.log_limit import limit_logs
from headwater.project import http_protocol, ports, websocket_protocol
from headwater.project.ports import CONNECTIONS_PER_ADDRESS
from headwater.project.tls import Certificates
from headwater.project.web_service import BACKLOG
from headwater.project.websocket_protocol import Bounds

_log = logging.getLogger("headwater.http")


def config(
    app: Callable[..., object],
    *,
    slow_s: float,
    stop_s: int,
    keep_alive_s: int = 5,
    sockets: Bounds = websocket_protocol.LISTENERS,
) -> uvicorn.Config:
    """`slow_s`: for a request's head; `stop_s`: for requests that are under way when it ends; `sockets`: of
    what clients send by WebSocket.
    """
    return uvicorn.Config(
        app,
        http=http_protocol.protocol(slow_s),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=stop_s,
        timeout_keep_alive=keep_alive_s,
        ws=websocket_protocol.protocol(sockets),
        ws_max_size=sockets.message_bytes,
        ws_per_message_deflate=sockets.is_packed,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # anybody could say who he is
    )


class Server(uvicorn.Server):
    """Whoever starts it says what ends it: `should_exit`."""

    def __init__(
        self,
        config: uvicorn.Config,
        certificates: Certificates | None,
        connections_per_address: int = CONNECTIONS_PER_ADDRESS,
    ) -> None:
        """`connections_per_address`: 0 for no limit."""
        super().__init__(config)
        self._certificates = certificates
        self._handshakes = Handshakes()
        most = http_protocol.most_connections()
        own = min(connections_per_address, most * 3 // 4) or most  # others are to come in, too
        self.admission = Admission(
            Bound("as many connections as there are files for", lambda: most),
            Bound("connections_per_address", lambda: own),
            counted_as=network,
        )

    def run_at(self, listener: socket.socket, say: Callable[[str], None]) -> None:
        """Until SIGTERM or SIGINT; `say` is told the address."""
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        limit_logs()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: setattr(self, "should_exit", True))
        host, port = listener.getsockname()[:2]
        say(ports.url_of(host, port, is_secure=self._certificates is not None))
        self.run(sockets=[listener])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # uvicorn's own would end the process by the signal again

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's own listening would let in first and count then: TLS would have no bound, and an error of
        `accept` could be the last that is heard of it."""
        await super().startup([])
        entrance = Entrance(self._admit, _tell, self._context)
        found = [Acceptor(each, entrance, self._handshakes) for each in sockets or ()]
        for each in found:
            each.open(BACKLOG)
        self.servers = cast("list[asyncio.Server]", found)
        if self._certificates is not None:
            self._certificates.watch()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        self._handshakes.close()
        await super().shutdown(sockets)

    def _context(self) -> ssl.SSLContext | None:
        return None if self._certificates is None else self._certificates.context

    def _admit(self, sock: socket.socket, host: str) -> Arrival | None:
        place = self.admission.enter(host)
        if isinstance(place, Place):
            return Arrival(lambda: self._protocol(place), place.leave)
        _log.warning("closing the connection of %s: %s", host, place)
        sock.close()
        return None

    def _protocol(self, place: Place) -> asyncio.Protocol:
        make = cast(Callable[..., http_protocol.Bounded], self.config.http_protocol_class)
        state = self.lifespan.state
        made = make(config=self.config, server_state=self.server_state, app_state=state)
        made.left = place.leave
        return made


def _tell(error: OSError | None) -> None:
    if error is None:
        _log.warning("clients are accepted again")
    else:
        _log.warning("a client could not be accepted, which is tried again: %s", error.strerror)
