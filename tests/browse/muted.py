"""A wire to a broker that passes everything on until a certain request: that one arrives, no answer does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from headwater.project.ports import free_port

END_TXN = 26


class Muted:
    """Clients use `address`; the broker takes `settings`, so that they come back here."""

    def __init__(self, api: int) -> None:
        self._api = api
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._port = free_port()
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.settings: dict[str, object] = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
        }
        self._speaking = threading.Event()
        self._speaking.set()
        self._is_mended = False
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Muted:
        self._work(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self.mend()
        for thread in self._threads:
            thread.join()
        for each in (self._listening, *self._open):
            each.close()

    @property
    def is_silent(self) -> bool:
        """The request has arrived."""
        return not self._speaking.is_set()

    def mend(self) -> None:
        """Answers come again, on new connections."""
        self._is_mended = True
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._speaking.set()

    def _work(self, work: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=work, args=sockets)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed; or the broker is gone, and the test over
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open.append(server)
                for work in (self._requests, self._answers):
                    self._work(work, client, server)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as stream:
            while head := stream.read(4):
                body = stream.read(struct.unpack(">i", head)[0])
                if struct.unpack_from(">h", body)[0] == self._api and not self._is_mended:
                    self._speaking.clear()
                server.sendall(head + body)
        self._end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self._speaking.wait()
                client.sendall(data)
        self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
