"""HTTP/1.1 connections to one receiver: to an address that was looked at, and to no other; kept for the next.

Called by `posting`. `addresses` says which may be called, at each new connection. TLS still goes by the name:
certificates are checked against it. Proxies of the environment are not used, redirects not followed. (h11 and
not httpx: with many requests at once the pool of httpx takes ten times as long as everything else here.)
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import h11

from headwater.edges.webhooks.addresses import resolved

IDLE_S = 20.0
"""Receivers close what is idle for longer; a request on the way just then would fail."""
ANSWER_BYTES_MAX = 16 * 1024
"""Of an answer's body; of a longer one the rest is not read, and the connection closed."""
_READ_BYTES = 64 * 1024
Headers = list[tuple[str, str]]


class Closed(ConnectionError):
    """The receiver closed the connection before it had answered."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    state: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))
    used_s: float = 0.0
    is_used: bool = False

    @property
    def is_alive(self) -> bool:
        return not self.reader.at_eof() and time.monotonic() - self.used_s < IDLE_S

    def close(self) -> None:
        self.writer.transport.abort()


class Connections:
    """To the receiver at one URL. As many as are used at once; the caller bounds that."""

    def __init__(self, url: str, *, allow_private: bool) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._name = parts.netloc
        self._allow_private = allow_private
        self._tls = ssl.create_default_context() if self._is_tls else None
        self._idle: list[_Connection] = []

    async def post(self, headers: Headers, body: bytes) -> Answer:
        """Raises OSError, h11.ProtocolError and what `resolved` raises."""
        connection = self._kept() or await self._connected()
        try:
            return await self._asked(connection, headers, body)
        except Closed:
            if not connection.is_used:
                raise
        # It was closed while it waited for us: no sign of a receiver that is not well.
        return await self._asked(await self._connected(), headers, body)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_alive:
                connection.is_used = True
                return connection
            connection.close()
        return None

    async def _connected(self) -> _Connection:
        failure: OSError | None = None
        for address in await resolved(self._host, self._port, allow_private=self._allow_private):
            try:
                return _Connection(
                    *await asyncio.open_connection(
                        address,
                        self._port,
                        ssl=self._tls,
                        server_hostname=self._host if self._is_tls else None,
                    )
                )
            except OSError as error:
                failure = error
        raise failure or OSError(f"{self._host} has no address")

    async def _asked(self, connection: _Connection, headers: Headers, body: bytes) -> Answer:
        is_good = False
        try:
            state, writer = connection.state, connection.writer
            own = [("host", self._name), ("content-length", str(len(body)))]
            request = h11.Request(method="POST", target=self._target, headers=[*own, *headers])
            sent = [state.send(request), state.send(h11.Data(data=body))]
            sent.append(state.send(h11.EndOfMessage()))
            writer.write(b"".join(each for each in sent if each))
            answer, is_good = await self._answer(connection)
            return answer
        except ConnectionError as error:
            raise Closed(str(error) or "the connection was closed") from None
        finally:
            if is_good:
                connection.state.start_next_cycle()
                connection.used_s = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()

    async def _answer(self, connection: _Connection) -> tuple[Answer, bool]:
        """With whether the connection may be used again."""
        state = connection.state
        status, headers, body = 0, dict[str, str](), b""
        while True:
            event = state.next_event()
            if event is h11.NEED_DATA:
                state.receive_data(await self._some(connection))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > ANSWER_BYTES_MAX:
                    return Answer(status, headers, body), False
            elif isinstance(event, h11.EndOfMessage):
                again = state.our_state is h11.DONE and state.their_state is h11.DONE
                return Answer(status, headers, body), again
            elif not isinstance(event, h11.InformationalResponse):
                raise Closed("the connection was closed")

    async def _some(self, connection: _Connection) -> bytes:
        data = await connection.reader.read(_READ_BYTES)
        if not data and connection.state.their_state is h11.SEND_RESPONSE:
            raise Closed("closed without an answer")
        return data
