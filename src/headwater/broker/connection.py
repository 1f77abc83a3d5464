"""One client's connection: frames in, answers out, in order.

The server makes one for each socket. Bytes are read straight into one buffer that grows with the
frame that is coming in, once the broker's memory budget has room for it (and beyond 1 MiB never on a
client's word alone). A complete frame is decoded at once, so that the buffer is free again; a bounded
number of decoded requests wait their turn:

    bytes → frame → request → [inbox] → handler → [answers, in order] → socket

Requests of one connection run one after the other, as Kafka does it, except that a Produce may start
while earlier ones wait for the disk: that is what lets one client fill a group commit (but not while
`held`: the batches of an earlier one are still being checked). Whatever is
wrong with the bytes closes this connection, with the reason in the log, and harms nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import struct
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from headwater.broker import wire
from headwater.broker.errors import WireError
from headwater.broker.memory import HOLD_SECONDS, LARGE_BYTES, SMALL_BYTES, STALL_SECONDS
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
FAREWELL_SECONDS = 1.0
"""A client that is to go and has taken nothing for so long is cut off."""
INBOX_MAX = 16
UNSENT_SECONDS = 0.02
"""How soon to look again whether an answer has gone out to its end."""
TASK = "connections"
LOGIN_SECONDS = 30.0
"""A client that has not logged in by then is dropped."""
_SIZE = struct.Struct(">i")


class _Answer:
    """A place in the order of answers."""

    __slots__ = ("api", "body", "done", "header", "seconds", "since", "size", "task")

    def __init__(self, api: Api, header: wire.Header, size: int, since: float) -> None:
        self.api = api
        self.header = header
        self.size = size
        self.since = since
        self.seconds = 0.0
        """Of our time that it took; measured while there are quotas."""
        self.done = False
        self.body: Response = NO_ANSWER
        self.task: asyncio.Future[Any] | Later | None = None

    @property
    def waits_for_others(self) -> bool:
        """For data to come, as long as the client says; what we work on ourselves comes to an end."""
        return isinstance(self.task, Later) and self.task.on_cancel is not None


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
        self._buffer: bytearray | mmap.mmap = bytearray(BUFFER_BYTES)
        self._start = 0
        self._end = 0
        self._inbox: deque[tuple[Api, wire.Header, Any, int]] = deque()
        self._answers: deque[_Answer] = deque()
        self._taken = 0
        self._frame_bytes = 0
        """Counted for the frame that is coming in, if it is not a small one."""
        self._frame_since = 0.0
        self._unsent = 0
        """Counted for answers that the client has not taken."""
        self._unsent_left = 0
        self._unsent_since = self._unsent_moved = 0.0
        self._unsent_timer: asyncio.TimerHandle | None = None
        self._held = 0
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
        if self._unsent_timer is not None:
            self._unsent_timer.cancel()
        self._inbox.clear()
        for answer in self._answers:
            if isinstance(answer.task, Later) and answer.task.on_cancel:
                self.broker.supervisor.call(TASK, answer.task.cancel)
            elif answer.task is not None:
                # What has begun goes on to its end, whoever listens: half a change is none. It
                # gives its memory back then.
                self._taken -= answer.size
        self._answers.clear()
        memory = self.broker.memory
        memory.forget(self)
        memory.release("requests", self._taken)
        memory.release("answers", self._unsent)
        self._taken = self._unsent = 0
        self._shrink()
        self.broker.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: behind the unread ones.

        Of a frame for which the buffer is too small, not a byte more than the frame: so the buffer is
        empty afterwards, and nothing is held that was not asked for.
        """
        if self._start == self._end:
            self._start = self._end = 0
        size, whole = len(self._buffer), self.announced() + 4
        if whole > BUFFER_BYTES:
            if whole > size and (self._end == size or self._start):
                self._grow(whole)
            return memoryview(self._buffer)[self._end : self._start + whole]
        if self._start and size - self._end < size // 2:
            unread, view = self._end - self._start, memoryview(self._buffer)
            view[:unread] = view[self._start : self._end]
            self._start, self._end = 0, unread
        return memoryview(self._buffer)[self._end :]

    def _grow(self, whole: int) -> None:
        """Room for the frame. Of a large one the system gives memory only for what really arrives."""
        unread = self._end - self._start
        fresh = bytearray(whole) if whole <= LARGE_BYTES else mmap.mmap(-1, whole)
        fresh[:unread] = memoryview(self._buffer)[self._start : self._end]
        self._buffer, self._start, self._end = fresh, 0, unread

    def buffer_updated(self, count: int) -> None:
        self.last_active = self.broker.clock.monotonic()
        if self._start == self._end:
            self._frame_since = self.last_active
        self._end += count
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
        if took:
            self._frame_since = self.last_active
        if self._start == self._end and len(self._buffer) > BUFFER_BYTES:
            self._shrink()
        self._pump()
        return took

    def _shrink(self) -> None:
        """Give back what the buffer has beyond its usual size; nothing must be in it."""
        if len(self._buffer) > BUFFER_BYTES:
            self._buffer = bytearray(BUFFER_BYTES)
        self._start = self._end = 0
        size, self._frame_bytes = self._frame_bytes, 0
        self.broker.memory.release_frame(size)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.broker.supervisor.call(TASK, self._count_unsent)
        self.broker.supervisor.call(TASK, self._pump)

    def _count_unsent(self, written: int = 0) -> None:
        """Count large answers until they are gone: the transport keeps all of one to its last byte."""
        if self._unsent_timer is not None:
            self._unsent_timer.cancel()
            self._unsent_timer = None
        transport, memory = self._transport, self.broker.memory
        if transport is None or self not in self.broker.connections:
            return
        left, now = transport.get_write_buffer_size(), self.broker.clock.monotonic()
        if left != self._unsent_left:
            self._unsent_left, self._unsent_moved = left, now
        if written:
            self._unsent_since = self._unsent_since if self._unsent else now
            self._unsent += written
            memory.take("answers", written)
        if not left:
            size, self._unsent = self._unsent, 0
            memory.release("answers", size)
        elif self._unsent and not self._write_paused:
            later = self.broker.supervisor.later
            self._unsent_timer = later(UNSENT_SECONDS, TASK, self._count_unsent)

    def fail(self, reason: str, level: int = logging.WARNING) -> None:
        """Close this connection because of what it sent."""
        logger.log(level, "closing the connection of %s: %s", self.client_host, reason)
        self.close()

    def close(self) -> None:
        """Close it once what was written has gone out; at once if the client takes nothing."""
        if self._closing:
            return
        self._closing = True
        self.broker.memory.forget(self)
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
        """There is memory again: go on if this was why reading or answering stopped. An error here
        is no concern of whoever gave the memory back."""
        self.broker.supervisor.call(TASK, self._pump)

    def drop_if_stalled(self, now: float) -> None:
        """Others wait for memory: go, if some is held here and nothing moves."""
        self._count_unsent()
        frame = self._frame_bytes and self.announced() + 4 > self._end - self._start
        if self._unsent:
            still, since = now - self._unsent_moved, now - self._unsent_since
            what = f"{self._unsent} bytes of its answers are not taken"
        elif frame and not self._read_paused:
            still, since = now - self.last_active, now - self._frame_since
            what = f"a request of {self.announced()} bytes does not arrive"
        elif self._taken > SMALL_BYTES and self._answers and self._answers[0].waits_for_others:
            still = since = now - self._answers[0].since
            what = f"its requests hold {self._taken} bytes and wait for something to happen"
        else:
            return
        if still > STALL_SECONDS or since > HOLD_SECONDS:
            self.fail(f"{what}, and others wait for the memory")
            if self._transport is not None:
                self._transport.abort()

    def hold(self) -> None:
        """Start nothing more until `proceed`: what has begun must be stored first."""
        self._held += 1

    def proceed(self) -> None:
        self._held -= 1
        if not self._closing:
            self._pump()

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
        size = len(frame)
        if not api.supports(header.api_version):
            if header.api_key != wire.API_VERSIONS:
                raise WireError(f"{api.name} version {header.api_version} is not supported")
            header = header._replace(api_version=-1)  # answered in version 0: KIP-511
            request = None
        else:
            request, size = wire.weighed(frame, header)
            if self.login is not None and header.api_key == wire.API_VERSIONS:
                self.login.asked_versions()
        self._put(api, header, request, size)

    def _put(self, api: Api, header: wire.Header, request: Any, size: int) -> None:
        self._inbox.append((api, header, request, size))
        self._taken += size
        self.broker.memory.take("requests", size)

    def _pump(self) -> None:
        """Start what may start, then read on or stop reading."""
        while self._inbox and not self._write_paused and not self._closing:
            if self._muted is not None or self._held:
                break
            api = self._inbox[0][0]
            if self._answers and not (
                api.pipelined and self._answers[-1].header.api_key == api.key
            ):
                break
            if api.answer_is_large and not self.broker.memory.may_answer(self):
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
        full = (
            self._goes_on
            or not self._has_room()
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

    def _has_room(self) -> bool:
        """Whether the broker has memory for what comes next, as far as that is known."""
        memory, whole = self.broker.memory, self.announced() + 4
        if whole > SMALL_BYTES and not self._frame_bytes:
            if not memory.reserve_frame(self, whole):
                return False
            self._frame_bytes = whole
        return not self._taken or memory.may_read(self)

    def _run(self, api: Api, header: wire.Header, request: Any, size: int) -> None:
        context = Context(header.api_version, header.client_id, self.client_host, self)
        answer = _Answer(api, header, size, self.broker.clock.monotonic())
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
        self.broker.memory.release("requests", answer.size)
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
        self.broker.memory.release("requests", answer.size)
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
            size = len(chunks[0])
        else:
            self._transport.writelines(chunks)
            size = sum(map(len, chunks))
        if size > SMALL_BYTES:
            self._count_unsent(size)
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
