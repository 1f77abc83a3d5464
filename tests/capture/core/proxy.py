"""A wire between a capture and its database that can be cut, or that swallows everything."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset, as a cut connection looks


class Proxy:
    """Passes bytes on between `port` and the server's, both ways."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._passing = threading.Event()
        self._passing.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection breaks; new ones are possible."""
        with self._lock:
            doomed, self._open = self._open, set()
        for one in doomed:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def swallow(self) -> None:
        """Nothing arrives any more, and nobody is told; new connections are accepted, and silent."""
        self._passing.clear()

    def mend(self) -> None:
        """As before; what was open while everything was swallowed is gone."""
        self.cut()
        self._passing.set()

    def close(self) -> None:
        self._listening.close()
        self.cut()
        self._passing.set()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(one,), daemon=True).start()

    def _connect(self, one: socket.socket) -> None:
        with self._lock:
            self._open.add(one)
        self._passing.wait()
        try:
            other = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            one.close()
            return
        with self._lock:
            self._open.add(other)
        threading.Thread(target=self._pump, args=(one, other), daemon=True).start()
        self._pump(other, one)

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                self._passing.wait()
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
