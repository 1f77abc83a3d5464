"""One record as a signed POST, and what the answer means. The sender of webhooks out.

Signed as Standard Webhooks has it, so that receivers have a library for it: HMAC-SHA256 over
`{webhook-id}.{webhook-timestamp}.{body}`, one signature per secret. The id stays the same at every attempt;
the time is that of the attempt.

    webhook-id, webhook-timestamp, webhook-signature
    headwater-topic, headwater-partition, headwater-offset, headwater-attempt, headwater-key (percent-encoded)
    content-type, traceparent, tracestate, ce-… as the record has them
    headwater-tombstone: true, where the record has no value

HTTP/1.1 connections to one receiver: to an address that was looked at, and to no other; kept for the next.
`addresses` says which may be called, at each new connection. TLS still goes by the name:
certificates are checked against it. Proxies of the environment are not used, redirects not followed. (h11 and
not httpx: with many requests at once the pool of httpx takes ten times as long as everything else here.)
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote, quote_from_bytes, urlsplit

import h11

from headwater import __version__
from headwater.client.records import Record
from headwater.edges.hooks.presets import STANDARD
from headwater.edges.hooks.signatures import sign
from headwater.edges.webhooks.addresses import resolved
from headwater.edges.webhooks.delivery import Delivery, Outcome
from headwater.edges.webhooks.retry import retry_after_s
from headwater.edges.webhooks.subscription import Posting
from headwater.errors import HeadwaterError

_SHOWN, _GONE = 200, 410
_HANDED_ON = ("traceparent", "tracestate")
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


class Poster:
    """For one event loop."""

    def __init__(self, posting: Posting, now_s: Callable[[], float] = time.time) -> None:
        self._posting, self._now_s = posting, now_s
        self._connections = Connections(posting.url, allow_private=posting.allow_private)

    async def close(self) -> None:
        self._connections.close()

    async def send(self, delivery: Delivery) -> Outcome:
        body = delivery.record.value or b""
        headers = request_headers(self._posting, delivery, int(self._now_s()))
        try:
            async with asyncio.timeout(self._posting.timeout_s):
                return self._meaning(await self._connections.post(headers, body))
        except TimeoutError:
            return Outcome(False, f"no answer within {self._posting.timeout_s:g} s")
        except HeadwaterError as error:
            return Outcome(False, str(error))
        except (OSError, h11.ProtocolError) as error:
            return Outcome(False, f"{type(error).__name__}: {error}".rstrip(": "))

    def _meaning(self, answer: Answer) -> Outcome:
        if 200 <= answer.status < 300:
            return Outcome(True)
        words = answer.body[:_SHOWN].decode("utf-8", "replace").strip()
        reason = f"answered {answer.status}" + (f": {words}" if words else "")
        if 300 <= answer.status < 400:
            reason = f"answered {answer.status}, and redirects are not followed"
        wait = retry_after_s(answer.headers.get("retry-after"), self._now_s())
        return Outcome(False, reason, wait, is_final=answer.status == _GONE)


def request_headers(posting: Posting, delivery: Delivery, now_s: int) -> list[tuple[str, str]]:
    """All of them but Host and Content-Length, which the client adds."""
    record, body = delivery.record, delivery.record.value or b""
    name = quote(delivery.id, safe="._-")
    signatures = [sign(STANDARD, each, name, now_s, body) for each in posting.secrets]
    headers = {
        "user-agent": f"headwater/{__version__}",
        **posting.headers,
        **_of_record(record),
        "webhook-id": name,
        "webhook-timestamp": str(now_s),
        "webhook-signature": " ".join(signatures),
        "headwater-topic": record.topic,
        "headwater-partition": str(record.partition),
        "headwater-offset": str(record.offset),
        "headwater-attempt": str(delivery.attempt),
    }
    if record.key is not None:
        headers["headwater-key"] = quote_from_bytes(record.key)
    if record.value is None:
        headers["headwater-tombstone"] = "true"
    return list(headers.items())


def _of_record(record: Record) -> dict[str, str]:
    is_json = (record.value or b"").lstrip()[:1] in (b"{", b"[")
    found = {"content-type": "application/json" if is_json else "application/octet-stream"}
    for name, value in record.headers:
        if value is None:
            continue
        low = name.lower()
        if low == "content-type" or low in _HANDED_ON:
            found[low] = _safe(value)
        elif low.startswith("ce_") and low[3:].isalnum() and low.isascii():
            found[f"ce-{low[3:]}"] = _safe(value)
    return found


def _safe(value: bytes) -> str:
    """A header's value holds printable ASCII; the rest is percent-encoded, as CloudEvents has it."""
    return quote(value.strip(), safe=_PRINTABLE.replace("%", ""))


IDLE_S = 20.0
"""Receivers close what is idle for longer; a request on the way just then would fail."""
ANSWER_BYTES_MAX = 16 * 1024
"""Of an answer's body; of a longer one the rest is not read, and the connection closed."""
PIECES_MAX, INFORMATION_MAX = 1000, 10
"""Of its body, and answers before it that say that there will be one: each takes everybody's time."""
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
        for address in await resolved(self._host, allow_private=self._allow_private):
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
        status, headers, body, pieces, informed = 0, dict[str, str](), b"", 0, 0
        while True:
            event = state.next_event()
            if event is h11.NEED_DATA:
                state.receive_data(await self._some(connection))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in event.headers}
            elif isinstance(event, h11.Data):
                body, pieces = body + event.data, pieces + 1
                if len(body) > ANSWER_BYTES_MAX or pieces > PIECES_MAX:
                    return Answer(status, headers, body), False
            elif isinstance(event, h11.EndOfMessage):
                again = state.our_state is h11.DONE and state.their_state is h11.DONE
                return Answer(status, headers, body), again
            elif not isinstance(event, h11.InformationalResponse):
                raise Closed("the connection was closed")
            elif (informed := informed + 1) > INFORMATION_MAX:
                raise h11.RemoteProtocolError("it only ever says that there will be an answer")

    async def _some(self, connection: _Connection) -> bytes:
        data = await connection.reader.read(64 * 1024)
        if not data and connection.state.their_state is h11.SEND_RESPONSE:
            raise Closed("closed without an answer")
        return data
