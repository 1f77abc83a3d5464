"""uvicorn's server as the edges and the console start it: with TLS where it is asked for, and no signals."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from headwater.project.tls import Certificates


class Server(uvicorn.Server):
    """Whoever starts it says what ends it: `should_exit`."""

    def __init__(self, config: uvicorn.Config, certificates: Certificates | None) -> None:
        super().__init__(config)
        self._certificates = certificates
        if certificates is not None:
            config.load()
            config.ssl = certificates.context

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # uvicorn's own would end the process by the signal again

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._certificates is not None:
            self._certificates.watch()
