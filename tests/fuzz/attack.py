"""Clients that send what no client should, on several connections at once.

Each sends a few requests and then one that is right (ApiVersions), and reads until that is answered, the
broker closes the connection, or nothing comes for a moment (a request may make the broker wait, and
that is its right). What was sent for each API is kept for a while, so that a failure can be told with
its bytes.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence

from tests.fuzz.mutations import flipped, framed, mutated
from tests.fuzz.requests import Known, Requests

WINDOW = 6
PRODUCE_ODDS = 0.05
"""Lies in records are told more often than by chance."""
SILENCE_SECONDS = 0.25
_KEPT = 200
Prologue = Callable[[socket.socket], None]


class Attack:
    """Sends mutated requests until the broker has looked at `count` of them."""

    def __init__(
        self,
        bootstrap: str,
        corpus: Sequence[bytes],
        known: Known,
        seed: int,
        count: int,
        prologue: Prologue | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.apis: Counter[tuple[int, int]] = Counter()
        self.sent: dict[tuple[int, int], deque[bytes]] = {}
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._corpus = corpus
        self._known = known
        self._first = [
            *{(key, version) for key, version in (struct.unpack_from(">hh", c) for c in corpus)}
        ]
        """Each version of each API is sent at least once; the rest is chance."""
        self._seed = seed
        self.wanted = count
        self._prologue = prologue
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._stop = threading.Event()

    @property
    def looked_at(self) -> int:
        """Requests that were answered, were waited for, or had their connection closed for them."""
        return self.counts["answered"] + self.counts["closed"] + self.counts["silent"]

    def run(self, connections: int, meanwhile: Callable[[], None]) -> None:
        """Attack with this many connections; `meanwhile` is called again and again until the end."""
        threads = [
            threading.Thread(target=self._client, args=(number,), name=f"attack-{number}")
            for number in range(connections)
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(0.2)
                meanwhile()
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error

    def _client(self, number: int) -> None:
        dice = random.Random(f"{self._seed}-{number}")
        wild = Requests(self._known, dice, wild=True)
        connection: socket.socket | None = None
        try:
            while self.looked_at < self.wanted and not self._stop.is_set():
                if connection is None:
                    connection = self._connect()
                if not self._window(connection, dice, wild):
                    connection.close()
                    connection = None
        except BaseException as error:
            self._error = error
        finally:
            if connection is not None:
                connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, timeout=60)
        if self._prologue is not None:
            self._prologue(connection)
        connection.settimeout(SILENCE_SECONDS)
        return connection

    def _window(self, connection: socket.socket, dice: random.Random, wild: Requests) -> bool:
        """Whether the connection is still of use afterwards."""
        sentinel = dice.getrandbits(31)
        frames = [self._request(dice, wild) for _ in range(dice.randint(1, WINDOW))]
        self._remember(frames)
        data = b"".join(framed(each, dice) for each in frames)
        data += struct.pack(">ihhih", 10, 18, 0, sentinel, -1)
        try:
            connection.sendall(data)
            outcome, answers = _read_until(connection, sentinel)
        except OSError:  # it was closed while we were sending
            outcome, answers = "closed", 0
        with self._lock:
            self.counts["sent"] += len(frames)
            self.counts["answered"] += min(answers, len(frames))
            if outcome != "complete":
                self.counts[outcome] += 1
        return outcome == "complete"

    def _request(self, dice: random.Random, wild: Requests) -> bytes:
        """Wrong in its bytes, or (so that handlers are entered, too) only in its values."""
        with self._lock:
            first = self._first.pop() if self._first else None
        if first is not None:
            return wild.frame(*first)
        if dice.random() < PRODUCE_ODDS:
            return wild.produce()
        like = dice.choice(self._corpus)
        if dice.random() < 0.4:
            return mutated(like, dice, self._corpus)
        key, version = struct.unpack_from(">hh", like)
        frame = wild.frame(key, version)
        return flipped(frame, dice) if dice.random() < 0.1 else frame

    def _remember(self, frames: Sequence[bytes]) -> None:
        with self._lock:
            for frame in frames:
                if len(frame) >= 4:
                    name: tuple[int, int] = struct.unpack_from(">hh", frame)
                    self.apis[name] += 1
                    self.sent.setdefault(name, deque(maxlen=_KEPT)).append(frame)


def _read_until(connection: socket.socket, sentinel: int) -> tuple[str, int]:
    """How it ended, and how many answers came before that."""
    buffer, answers = bytearray(), 0
    while True:
        try:
            data = connection.recv(1 << 16)
        except TimeoutError:
            return "silent", answers
        if not data:
            return "closed", answers
        buffer += data
        start = 0
        while len(buffer) - start >= 8:
            size, correlation = struct.unpack_from(">ii", buffer, start)
            assert 4 <= size < 1 << 28, f"an answer of {size} bytes"
            if len(buffer) - start < 4 + size:
                break
            start += 4 + size
            if correlation == sentinel:
                return "complete", answers
            answers += 1
        del buffer[:start]
