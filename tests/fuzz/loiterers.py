"""Clients that hold what they get: half requests that never end, answers that are never taken."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

from tests.compat.asking import fetch_request, produce
from tests.compat.batches import batch
from tests.compat.wire import ConnectionClosed, Wire, connected

COUNT = 12
ANNOUNCED = 40 * 1024 * 1024


class Loiterers:
    """Come back whenever they are thrown out, until the end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.rounds = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(COUNT)
        ]

    def __enter__(self) -> Loiterers:
        with connected(self._bootstrap) as wire:
            for _ in range(10):
                produce(wire, self._topic, batch([(None, bytes(900_000))]))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(OSError, ConnectionClosed):
                if number % 2:
                    self._hold_an_answer()
                else:
                    self._hold_half_a_request()
            self.rounds += 1

    def _hold_half_a_request(self) -> None:
        host, _, port = self._bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=0.5) as connection:
            connection.sendall(struct.pack(">ihhih", ANNOUNCED, 0, 9, 1, -1))
            piece = bytes(1 << 20)
            for _ in range(ANNOUNCED // len(piece) // 2):
                connection.sendall(piece)
                if self._stop.wait(0.05):
                    return
            self._stop.wait(5)

    def _hold_an_answer(self) -> None:
        wire = Wire(self._bootstrap, timeout=5)
        try:
            request = fetch_request(self._topic, partition_max_bytes=20_000_000)
            for _ in range(3):
                wire.send("fetch", 12, **request)
            self._stop.wait(5)
        finally:
            wire.close()
