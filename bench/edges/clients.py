"""HTTP on bare sockets: requests one after the other on a connection, and event streams that are only timed.

A request is bytes that were made before; an answer is read no further than is needed to know that it is
complete. Otherwise, on two cores, the client would be half of what is measured.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any

_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
STAMP = b'"at_ns":'
"""Stands in every record of the fan-out: when it was produced, on the clock of the machine."""


def request(port: int, path: str, kind: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Asked:
    """What a run of requests gave."""

    requests: int
    seconds: float
    times_ms: list[float] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    """Status → how often, of answers that were not 200."""


class Asking(asyncio.Protocol):
    """One connection: the same request again, as soon as the one before is answered, until told to stop."""

    def __init__(self, message: bytes, until: float, asked: Asked) -> None:
        self._message, self._until, self._asked = message, until, asked
        self._buffer = b""
        self._began = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end]
        length = _LENGTH.search(head)
        if length is None or len(self._buffer) < end + 4 + int(length[1]):
            return
        self._count(int(head[9:12]))
        self._buffer = b""
        if time.perf_counter() < self._until:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._message)

    def _count(self, status: int) -> None:
        if status == 200:
            self._asked.requests += 1
            self._asked.times_ms.append((time.perf_counter() - self._began) * 1e3)
        else:
            self._asked.refused[status] = self._asked.refused.get(status, 0) + 1


async def ask(port: int, message: bytes, connections: int, seconds: float) -> Asked:
    loop = asyncio.get_running_loop()
    asked = Asked(0, 0.0)
    began = time.perf_counter()
    until = began + seconds
    made = [
        await loop.create_connection(lambda: Asking(message, until, asked), "127.0.0.1", port)
        for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.done for _, protocol in made))
    asked.seconds = time.perf_counter() - began
    return asked


class Listening(asyncio.Protocol):
    """One event stream: notes how long each stamped record was on its way."""

    def __init__(self, message: bytes, times_ns: list[int]) -> None:
        self._message, self._times_ns = message, times_ns
        self._rest = b""
        self.status = 0
        self.events = 0
        self.is_open = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        if not self.status:
            self.status = int(data[9:12])
        now = time.monotonic_ns()
        data = self._rest + data
        place = data.find(STAMP)
        while place >= 0:
            end = data.find(b"}", place)
            if end < 0:
                break
            self._times_ns.append(now - int(data[place + len(STAMP) : end]))
            self.events += 1
            data = data[end:]
            place = data.find(STAMP)
        self._rest = data[place:] if place >= 0 else data[-len(STAMP) :]

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False


async def listen(port: int, path: str, count: int, times_ns: list[int]) -> list[Listening]:
    """So many clients, connected a few at a time, as browsers would come."""
    loop = asyncio.get_running_loop()
    message = (
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n\r\n"
    ).encode()
    found: list[Listening] = []
    for begin in range(0, count, 50):
        some = await asyncio.gather(
            *(
                loop.create_connection(lambda: Listening(message, times_ns), "127.0.0.1", port)
                for _ in range(min(50, count - begin))
            )
        )
        found += [protocol for _, protocol in some]
        await _answered(found)
    return found


async def _answered(clients: list[Listening]) -> None:
    deadline = time.monotonic() + 30
    while not all(each.status for each in clients):
        if time.monotonic() > deadline:
            raise RuntimeError("an event stream was not answered within 30 s")
        await asyncio.sleep(0.01)
    if refused := {each.status for each in clients} - {200}:
        raise RuntimeError(f"event streams were answered with {refused}")
