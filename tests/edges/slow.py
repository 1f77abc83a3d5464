"""A client that asks, reads the head of its answer, and takes the rest when told."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Slow:
    """A client that has read the head of its answer and takes the rest when told."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        found = b""
        while b"\r\n\r\n" not in found:
            found += sock.recv(1000)
        self.head, _, first = found.partition(b"\r\n\r\n")
        self.taken = len(first)

    @property
    def length(self) -> int:
        found = re.search(rb"content-length: (\d+)", self.head)
        assert found is not None, self.head
        return int(found[1])

    def take_all(self) -> int:
        """Until the answer or the connection ends."""
        try:
            while self.taken < self.length and (piece := self._sock.recv(1024**2)):
                self.taken += len(piece)
        except ConnectionResetError:
            pass
        return self.taken


@contextmanager
def slow_client(url: str) -> Iterator[Slow]:
    parts = urlsplit(url)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(60)
        sock.connect((parts.hostname, parts.port))
        path = f"{parts.path}?{parts.query}"
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        yield Slow(sock)
