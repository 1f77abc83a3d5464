"""One client's connection: frames in, answers out, in order.

The server makes one for each socket. Bytes are read straight into one buffer that grows with the
frame that is coming in (never on a client's word alone). A complete frame is decoded at once, so that
the buffer is free again; a bounded number of decoded requests wait their turn:

    bytes → frame → request → [inbox] → handler → [answers, in order] → socket

Requests of one connection run one after the other, as Kafka does it, except that a Produce may start
while earlier ones wait for the disk: that is what lets one client fill a group commit. Whatever is
wrong with the bytes closes this connection, with the reason in the log, and harms nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from headwater.broker import wire
from headwater.broker.errors import WireError
from headwater.broker.quotas.throttle import settle, timed
from headwater.broker.registry import NO_ANSWER, Api, Context, Later, Response
from headwater.broker.security.bare import TOKEN, token_header
from headwater.broker.security.listeners import Listener
from headwater.broker.security.login import Login
from headwater.broker.security.principal import ANONYMOUS, NoPrincipal
from headwater.record.varint import Buffer

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

BUFFER_BYTES = 32 * 1024
BUFFER_KEPT_BYTES = 2 * 1024 * 1024
FAREWELL_SECONDS = 1.0
"""A client that is to go and has taken nothing for so long is cut off."""
INBOX_MAX = 16
SMALL_BYTES = 64 * 1024
"""What is taken even when the broker has too much to do: metadata, heartbeats, fetches."""
TASK = "connections"
LOGIN_SECONDS = 30.0
"""A client that has not logged in by then is dropped."""
_SIZE = struct.Struct(">i")


class _Answer:
    """A place in the order of answers."""

    __slots__ = ("api", "body", "done", "header", "seconds", "size", "task")

    def __init__(self, api: Api, header: wire.Header, size: int) -> None:
        self.api = api
        self.header = header
        self.size = size
        self.seconds = 0.0
        """Of our time that it took; measured while there are quotas."""
        self.done = False
        self.body: Response = NO_ANSWER
        self.task: asyncio.Future[Any] | Later | None = None


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one socket."""

    def __init__(self, broker: Broker, listener: Listener) -> None:
        self.broker = broker
        self.listener = listener
        self.client_host = ""
        self.client_port = 0
        self.software = ("", "")
        """Name and version of the client's library, as it says in ApiVersions."""
        self.principal = ANONYMOUS
        self.login: Login | None = None
        """How far the client has come with SASL; None where the listener does not ask for it."""
        self.close_after_answer = False
        self._login_timer: asyncio.TimerHandle | None = None
        self._muted: asyncio.TimerHandle | None = None
        """Set while a quota keeps this connection silent."""
        self.last_active = broker.clock.monotonic()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(BUFFER_BYTES)
        self._start = 0
        self._end = 0
        self._inbox: deque[tuple[Api, wire.Header, Any, int]] = deque()
        self._answers: deque[_Answer] = deque()
        self._taken = 0
        self._write_paused = False
        self._read_paused = False
        self._closing = False
        self._goes_on = False
        """What this turn had no time for is done in the next."""

    # ---- the socket ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass
        peer = transport.get_extra_info("peername")
        self.client_host, self.client_port = peer[:2] if peer else ("unknown", 0)
        self.broker.connected(self)
        if self.listener.protocol != "PLAINTEXT" and not self._closing:
            self._identify(transport)

    def _identify(self, transport: asyncio.BaseTransport) -> None:
        """Learn from TLS who the client is, or expect it to log in."""
        listener = self.listener
        if listener.policy is not None:
            now = self.broker.clock.monotonic
            self.login = Login(self.broker.credentials, listener.policy, self.client_host, now)
            reason = f"not logged in after {LOGIN_SECONDS:.0f} s"
            self._login_timer = self.broker.supervisor.later(
                LOGIN_SECONDS, TASK, self.fail, reason, logging.INFO
            )
        elif listener.rules is not None:
            certificate = transport.get_extra_info("peercert")
            if certificate:
                try:
                    self.principal = listener.rules.from_certificate(certificate["subject"])
                except NoPrincipal as error:
                    self.fail(str(error))

    @property
    def address(self) -> tuple[str, int]:
        """Where this client is told to connect to."""
        if self.listener.advertised is None and self._transport is not None:
            return self.listener.address_for(str(self._transport.get_extra_info("sockname")[0]))
        return self.listener.address

    def logged_in(self, principal: str) -> None:
        """The client has proved who it is."""
        self.principal = principal
        if self._login_timer is not None:
            self._login_timer.cancel()
            self._login_timer = None

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        if self._login_timer is not None:
            self._login_timer.cancel()
        if self._muted is not None:
            self._muted.cancel()
        self._inbox.clear()
        for answer in self._answers:
            if isinstance(answer.task, Later) and answer.task.on_cancel:
                self.broker.supervisor.call(TASK, answer.task.cancel)
            elif answer.task is not None:
                # What has begun goes on to its end, whoever listens: half a change is none. It
                # gives its memory back then.
                self._taken -= answer.size
        self._answers.clear()
        self.broker.release(self._taken)
        self._taken = 0
        self.broker.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: behind the unread ones, with room for a good deal more."""
        size = len(self._buffer)
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start and size - self._end < size // 2:
            unread, view = self._end - self._start, memoryview(self._buffer)
            view[:unread] = view[self._start : self._end]
            self._start, self._end = 0, unread
        if self._end == size:
            # Twice as large as what has really arrived, whatever size the client has announced.
            fresh = bytearray(size * 2)
            fresh[:size] = self._buffer
            self._buffer = fresh
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, count: int) -> None:
        self._end += count
        self.last_active = self.broker.clock.monotonic()
        if self._goes_on:
            return
        if self.broker.turns.has_time():
            self._read_on()
        else:
            self._go_on_soon()

    def _read_on(self) -> None:
        try:
            # Before a login is complete one frame is taken at a time: look again after each.
            while self._take_frames() and self.login is not None:
                pass
        except WireError as error:
            self.fail(str(error))
        except Exception as error:
            self._fault(TASK, error)

    def _fault(self, name: str, error: Exception) -> None:
        """An error of ours: it is counted, and this client has to come again."""
        self.broker.supervisor.failed(name, error)
        self.fail("an error of ours in answering it; please report the traceback above")

    def _take_frames(self) -> bool:
        """Take what is complete, and start it; whether there was any."""
        before = self._start
        view = memoryview(self._buffer)
        try:
            while self._end - self._start >= 4 and not self._closing:
                low, high, setting = 8, self.broker.request_bytes_max, "socket.request.max.bytes"
                if self.login is not None and not self.login.open:
                    if self.busy:
                        break
                    low = 0 if self.login.bare else 8
                    setting = "sasl.server.max.receive.size"
                    high = min(high, self.broker.settings.get(setting))
                (size,) = _SIZE.unpack_from(view, self._start)
                if not low <= size <= high:
                    raise WireError(
                        f"a request of {size} bytes ({setting} is {high})"
                        f"{_hint(view[self._start : self._end])}"
                    )
                first, end = self._start + 4, self._start + 4 + size
                if end > self._end:
                    break
                self._receive(view[first:end])
                self._start = end
                if not self.broker.turns.has_time():
                    self._go_on_soon()
                    break
        finally:
            view.release()
        took = self._start > before
        if self._start == self._end and len(self._buffer) > BUFFER_KEPT_BYTES:
            self._buffer, self._start, self._end = bytearray(BUFFER_BYTES), 0, 0
        self._pump()
        return took

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.broker.supervisor.call(TASK, self._pump)

    def fail(self, reason: str, level: int = logging.WARNING) -> None:
        """Close this connection because of what it sent."""
        logger.log(level, "closing the connection of %s: %s", self.client_host, reason)
        self.close()

    def close(self) -> None:
        """Close it once what was written has gone out; at once if the client takes nothing."""
        if self._closing:
            return
        self._closing = True
        transport = self._transport
        if transport is not None:
            transport.close()
            if transport.get_write_buffer_size():
                self._look_again(-1)

    def _abort_if_stuck(self, before: int) -> None:
        transport = self._transport
        if transport is None or self not in self.broker.connections:
            return
        unsent = transport.get_write_buffer_size()
        if unsent == before:
            transport.abort()
        else:
            self._look_again(unsent)

    def _look_again(self, unsent: int) -> None:
        self.broker.supervisor.later(FAREWELL_SECONDS, TASK, self._abort_if_stuck, unsent)

    @property
    def stuck(self) -> bool:
        """The client does not take its answers."""
        return self._write_paused

    def drain(self) -> None:
        """The broker stops: take no new requests, answer those that have begun."""
        self._inbox.clear()
        if self._transport is not None and not self._closing:
            self._read_paused = True
            self._transport.pause_reading()

    def room(self) -> None:
        """There is memory again: read on if this was why reading stopped."""
        self._balance_reading()

    @property
    def busy(self) -> bool:
        """Whether a request is still to be answered."""
        return bool(self._answers or self._inbox)

    # ---- requests ------------------------------------------------------------------------------

    def _receive(self, frame: memoryview) -> None:
        if self.login is not None and self.login.bare:
            self._put(TOKEN, token_header(), bytes(frame), len(frame))
            return
        header = wire.read_header(frame)
        if self.login is not None:
            reason = self.login.admits(header.api_key)
            if reason is not None:
                raise WireError(reason)
        api = self.broker.apis.get(header.api_key)
        if api is None:
            raise WireError(f"API {header.api_key} is not known (version {header.api_version})")
        if not api.supports(header.api_version):
            if header.api_key != wire.API_VERSIONS:
                raise WireError(f"{api.name} version {header.api_version} is not supported")
            header = header._replace(api_version=-1)  # answered in version 0: KIP-511
            request = None
        else:
            request = wire.decode(frame, header)
            if self.login is not None and header.api_key == wire.API_VERSIONS:
                self.login.asked_versions()
        self._put(api, header, request, len(frame))

    def _put(self, api: Api, header: wire.Header, request: Any, size: int) -> None:
        self._inbox.append((api, header, request, size))
        self._taken += size
        self.broker.take(size, self)

    def _pump(self) -> None:
        """Start what may start, then read on or stop reading."""
        while self._inbox and not self._write_paused and not self._closing:
            if self._muted is not None:
                break
            api = self._inbox[0][0]
            if self._answers and not (
                api.pipelined and self._answers[-1].header.api_key == api.key
            ):
                break
            self._run(*self._inbox.popleft())
            if self._inbox and not self.broker.turns.has_time():
                self._go_on_soon()
                break
        self._balance_reading()

    def _go_on_soon(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self.broker.turns.wait(self)
            self._balance_reading()

    def go_on(self) -> None:
        """It is this client's turn again."""
        self._goes_on = False
        if not self._closing and not self.broker.stopping:
            self._read_on()

    def announced(self) -> int:
        """The size of the request that is coming in, as far as it is known."""
        if self._end - self._start < 4:
            return 0
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0]
        return size

    def _balance_reading(self) -> None:
        """Read on only while there is room for what comes: here and in the broker as a whole."""
        transport = self._transport
        if transport is None or self._closing or self.broker.stopping:
            return
        no_room = self.broker.overloaded and (self._taken > 0 or self.announced() > SMALL_BYTES)
        if no_room:
            self.broker.waiting_for_room[self] = None
        full = (
            no_room
            or self._goes_on
            or self._muted is not None
            or len(self._inbox) + len(self._answers) >= INBOX_MAX
            or (self.login is not None and not self.login.open and self.busy)
        )
        if full and not self._read_paused:
            self._read_paused = True
            transport.pause_reading()
        elif not full and self._read_paused:
            self._read_paused = False
            transport.resume_reading()

    def _run(self, api: Api, header: wire.Header, request: Any, size: int) -> None:
        context = Context(header.api_version, header.client_id, self.client_host, self)
        answer = _Answer(api, header, size)
        self._answers.append(answer)
        try:
            if self.broker.quotas.active:
                result = timed(api.handle, answer, self.broker, request, context)
            else:
                result = api.handle(self.broker, request, context)
        except Exception as error:
            self._fault(api.name, error)
            return
        if isinstance(result, dict):
            self._answered(answer, result)
            return
        if isinstance(result, Later):
            answer.task = result
            result.listen(
                lambda body: self._arrived(answer, body), lambda error: self._failed(answer, error)
            )
            return
        assert isinstance(result, Awaitable)
        answer.task = self.broker.supervisor.spawn(
            api.name, result, lambda task: self._finished(answer, task)
        )

    def _arrived(self, answer: _Answer, body: Response) -> None:
        if self._is_left(answer):
            return
        try:
            self._answered(answer, body)
            if self._inbox or self._read_paused:
                self._pump()
        except Exception as error:
            self._fault(answer.api.name, error)

    def _failed(self, answer: _Answer, error: Exception) -> None:
        """A handler that had to wait found no answer."""
        if not self._is_left(answer):
            self._fault(answer.api.name, error)

    def _is_left(self, answer: _Answer) -> bool:
        """Whether nobody is there for it any more; then its memory is given back."""
        if answer in self._answers:
            return False
        self.broker.release(answer.size)
        return True

    def _finished(self, answer: _Answer, task: asyncio.Task[Any]) -> None:
        if self._is_left(answer) or task.cancelled():
            return
        if task.exception() is not None:  # which the supervisor has told
            self.fail("an error of ours in answering it; please report the traceback above")
            return
        try:
            self._answered(answer, task.result())
            self._pump()
        except Exception as error:
            self._fault(answer.api.name, error)
        if self.login is not None:
            self._read_on()  # what came behind a step of the login had to wait for it

    # ---- answers -------------------------------------------------------------------------------

    def _answered(self, answer: _Answer, body: Response) -> None:
        answer.done, answer.body = True, body
        self.broker.health.succeeded(answer.api.name)
        while self._answers and self._answers[0].done:
            self._send(self._answers.popleft())

    def _send(self, answer: _Answer) -> None:
        self._taken -= answer.size
        self.broker.release(answer.size)
        if answer.body is NO_ANSWER or self._closing or self._transport is None:
            if self.broker.quotas.active and not self._closing:
                self._settle(answer, [])
            if self.close_after_answer:
                self.close()
            return
        header = answer.header
        if header.api_key == TOKEN.key:
            self._transport.write(_SIZE.pack(len(answer.body["token"])) + answer.body["token"])
            return
        chunks = wire.encode(
            header.api_key, max(header.api_version, 0), header.correlation_id, answer.body
        )
        if self.broker.quotas.active:
            chunks = self._settle(answer, chunks)
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        else:
            self._transport.writelines(chunks)
        if self.close_after_answer:
            self.close()

    def _settle(self, answer: _Answer, chunks: list[Buffer]) -> list[Buffer]:
        """Charge for an answer; what to send instead, if that is more than a quota allows."""
        throttle_ms, chunks = settle(self.broker, self.principal, answer.header, answer, chunks)
        if throttle_ms:
            self.mute(throttle_ms / 1000)
        return chunks

    def mute(self, seconds: float) -> None:
        """Start and read nothing for so long (KIP-219)."""
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self.broker.supervisor.later(seconds, TASK, self._unmute)
        self._balance_reading()

    def _unmute(self) -> None:
        self._muted = None
        if not self._closing:
            self._pump()

    def refuse_later(self, seconds: float, reason: str) -> None:
        """Close it, but not so soon that the client tries again at once."""
        self.mute(seconds)
        self.broker.supervisor.later(seconds, TASK, self._refuse, reason)

    def _refuse(self, reason: str) -> None:
        if not self._closing:
            self.fail(reason)


def _hint(data: memoryview) -> str:
    """What a client that does not speak Kafka probably wanted."""
    first = bytes(data[:4])
    if first[:2] == b"\x16\x03":
        return "; this looks like TLS, and the listener is plain"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"):
        return "; this looks like HTTP, and the listener speaks Kafka's protocol"
    return ""
