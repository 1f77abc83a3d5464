"""The requests of one connection that wait or are being answered; each `Connection` has one.

    request → [inbox] → handler → [answers, in order] → socket

Requests of one connection run one after the other, as Kafka does it, except that a Produce may start
while earlier ones wait for the disk: that is what lets one client fill a group commit (but not while
`held`: the batches of an earlier one are still being checked). What they hold is counted in the
broker's memory budget until they are answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from headwater.broker.answer import Answer
from headwater.broker.frame_buffer import SIZE
from headwater.broker.outbound import TASK
from headwater.broker.quotas.throttle import settle, timed
from headwater.broker.registry import NO_ANSWER, Api, Context, Later, Response
from headwater.broker.security.login import SASL_HANDSHAKE
from headwater.broker.security.sasl_tokens import TOKEN
from headwater.record.varint import Buffer
from headwater.wire import messages

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.connection import Connection


class _Gone:
    """What is left of a connection whose socket is lost."""

    is_closing = True
    login = None


_GONE = _Gone()


def gone() -> Connection:
    """Instead of the connection, for its parts: a ring of objects would stay in memory for long."""
    return cast("Connection", _GONE)


class Exchange:
    """Requests wait here for their turn, and answers for those before them."""

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self._inbox: deque[tuple[Api, messages.Header, Any, int]] = deque()
        self._answers: deque[Answer] = deque()
        self.held_bytes = 0
        """Counted for requests that are not answered."""
        self._reading = 0
        """Counted for what is read for the answer that is being made."""
        self._is_lost = False
        self._holds = 0

    def __len__(self) -> int:
        return len(self._inbox) + len(self._answers)

    @property
    def waits_since(self) -> float | None:
        """Since when the first waits for something that others are to do, if it does."""
        first = self._answers[0] if self._answers else None
        return first.since if first is not None and first.waits_for_others else None

    @property
    def renews_login(self) -> bool:
        """Whether the client has asked to log in again, behind what it waits for."""
        return any(api.key == SASL_HANDSHAKE for api, *_ in self._inbox)

    def put(self, api: Api, header: messages.Header, request: Any, size: int) -> None:
        self._inbox.append((api, header, request, size))
        self.held_bytes += size
        self._broker.memory.take("requests", size)

    def hold(self) -> None:
        """Start nothing more until `proceed`: what has begun must be stored first."""
        self._holds += 1

    def proceed(self) -> None:
        self._holds -= 1

    def drain(self) -> None:
        """Start nothing more at all."""
        self._inbox.clear()

    def lost(self) -> None:
        """The client is gone. What has begun goes on to its end, whoever listens: half a change is
        none. It gives its memory back then."""
        self._is_lost = True
        self._inbox.clear()
        for answer in self._answers:
            if isinstance(answer.task, Later) and answer.task.on_cancel:
                self._broker.supervisor.call(TASK, answer.task.cancel)
            elif answer.task is not None:
                self.held_bytes -= answer.size
                is_over = answer.api.only_looks or answer.api.waits
                if is_over and isinstance(answer.task, asyncio.Task):
                    answer.task.cancel()
        self._answers.clear()
        size, self.held_bytes = self.held_bytes, 0
        self._broker.memory.release("requests", size)
        self._release_reading()
        self._connection = gone()

    def is_kept(self) -> None:
        """See `Context`; one request is worked on."""
        for answer in self._answers:
            size, answer.size = answer.size, 0
            self.held_bytes -= size
            self._broker.memory.release("requests", size)

    def reads(self, size: int) -> None:
        """See `Context`."""
        if not self._is_lost:
            self._reading += size
            self._broker.memory.take("answers", size)

    def _release_reading(self) -> None:
        size, self._reading = self._reading, 0
        self._broker.memory.release("answers", size)

    # ---- requests ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start what may start now."""
        connection, memory = self._connection, self._broker.memory
        while self._inbox and not self._holds and connection.may_start:
            api, _, request, _ = self._inbox[0]
            login = connection.login
            if login is not None and api.key != SASL_HANDSHAKE and (reason := login.ended):
                connection.fail(
                    reason, logging.INFO
                )  # it was sent in time, and its turn came too late
                break
            if self._answers and not (
                api.pipelined and self._answers[-1].header.api_key == api.key
            ):
                break
            if api.answer_is_large and not memory.may_answer(connection):
                break
            if api.lists(self._broker, request) and not memory.may_list(connection):
                break
            self._run(*self._inbox.popleft())
            if self._inbox and not self._broker.turns.has_time():
                connection.inbound.go_on_soon()
                break

    def _run(self, api: Api, header: messages.Header, request: Any, size: int) -> None:
        connection, broker = self._connection, self._broker
        context = Context(header.api_version, header.client_id, connection.client_host, connection)
        answer = Answer(api, header, size, broker.clock.monotonic())
        self._answers.append(answer)
        try:
            if broker.quotas.active:
                result = timed(api.handle, answer, broker, request, context)
            else:
                result = api.handle(broker, request, context)
        except Exception as error:
            connection.fault(api.name, error)
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
        answer.task = broker.supervisor.spawn(
            api.name, result, lambda task: self._finished(answer, task)
        )

    def _arrived(self, answer: Answer, body: Response) -> None:
        if self._is_left(answer):
            return
        try:
            self._answered(answer, body)
            if self._inbox or self._connection.inbound.is_paused:
                self._connection.pump()
        except Exception as error:
            self._connection.fault(answer.api.name, error)

    def _failed(self, answer: Answer, error: Exception) -> None:
        """A handler that had to wait found no answer."""
        if not self._is_left(answer):
            self._connection.fault(answer.api.name, error)

    def _is_left(self, answer: Answer) -> bool:
        """It has ended. Whether nobody is there for it any more; then its memory is given back."""
        if answer in self._answers:
            answer.task = None
            return False
        self._broker.memory.release("requests", answer.size)
        return True

    def _finished(self, answer: Answer, task: asyncio.Task[Any]) -> None:
        connection = self._connection
        if self._is_left(answer):
            return
        if task.cancelled() or task.exception() is not None:  # which the supervisor has told
            connection.fail_for_us()  # else nothing behind it would ever begin
            return
        try:
            self._answered(answer, task.result())
            connection.pump()
        except Exception as error:
            connection.fault(answer.api.name, error)
        if connection.login is not None:
            connection.inbound.read_on()  # what came behind a step of the login had to wait for it

    # ---- answers -------------------------------------------------------------------------------

    def _answered(self, answer: Answer, body: Response) -> None:
        answer.body = body
        self._broker.health.succeeded(answer.api.name)
        if messages.is_much(body, answer.api.rows_depth):
            self._write_aside(answer)
            return
        self._ready(answer)

    def _write_aside(self, answer: Answer) -> None:
        """Have an answer of many rows written in a thread; those behind it wait for it."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[list[Buffer]] = loop.run_in_executor(
            self._broker.executor, answer.encoded
        )

        def done(future: asyncio.Future[list[Buffer]]) -> None:
            if self._is_left(answer):
                return
            try:
                answer.chunks = future.result()
                self._ready(answer)
                self._connection.pump()
            except Exception as error:
                self._connection.fault(answer.api.name, error)

        answer.task = written
        written.add_done_callback(done)

    def _ready(self, answer: Answer) -> None:
        answer.done = True
        while self._answers and self._answers[0].done:
            self._send(self._answers.popleft())
        self._release_reading()
        self._broker.memory.listed(self._connection)

    def _send(self, answer: Answer) -> None:
        self.held_bytes -= answer.size
        self._broker.memory.release("requests", answer.size)
        connection, outbound = self._connection, self._connection.outbound
        if answer.body is NO_ANSWER or connection.is_closing or outbound is None:
            if self._broker.quotas.active and not connection.is_closing:
                self._settle(answer, [])
            if connection.close_after_answer:
                connection.close()
            return
        if answer.header.api_key == TOKEN.key:
            token = answer.body["token"]
            outbound.transport.write(SIZE.pack(len(token)) + token)
            return
        chunks = answer.encoded() if answer.chunks is None else answer.chunks
        if self._broker.quotas.active:
            chunks = self._settle(answer, chunks)
        outbound.write(chunks)
        if connection.close_after_answer:
            connection.close()

    def _settle(self, answer: Answer, chunks: list[Buffer]) -> list[Buffer]:
        """Charge for an answer; what to send instead, if that is more than a quota allows."""
        throttle_ms, chunks = settle(
            self._broker, self._connection.principal, answer.header, answer, chunks
        )
        if throttle_ms:
            self._connection.inbound.mute(throttle_ms / 1000)
        return chunks
