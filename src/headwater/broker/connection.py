"""One client's connection: frames in, answers out, in order.

The server makes one for each socket. It knows who the client is, and when it has to go; what goes through
it is the work of three others:

    bytes → `Inbound` → request → `Exchange` → answer → `Outbound` → socket

Whatever is wrong with the bytes closes this connection, with the reason in the log, and harms nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from headwater.broker.exchange import Exchange
from headwater.broker.inbound import Inbound
from headwater.broker.memory import HOLD_SECONDS, SMALL_BYTES, STALL_SECONDS
from headwater.broker.outbound import TASK, Outbound
from headwater.broker.security.admission import Place
from headwater.broker.security.listeners import Listener
from headwater.broker.security.login import Login
from headwater.broker.security.principal import ANONYMOUS, NoPrincipal

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

LOGIN_SECONDS = 30.0
"""A client that has not logged in by then is dropped."""


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one socket."""

    def __init__(self, broker: Broker, listener: Listener, place: Place) -> None:
        self.broker = broker
        self.listener = listener
        self.place = place
        self.client_host = place.host
        self.client_port = 0
        self.software = ("", "")
        """Name and version of the client's library, as it says in ApiVersions."""
        self.principal = ANONYMOUS
        self.login: Login | None = None
        """How far the client has come with SASL; None where the listener does not ask for it."""
        self.close_after_answer = False
        self.inbound = Inbound(broker, self)
        self.exchange = Exchange(broker, self)
        self.outbound: Outbound | None = None
        """None until the socket is there."""
        self.is_closing = self._is_pumping = False
        self._login_timer: asyncio.TimerHandle | None = None

    # ---- the socket ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.outbound = Outbound(self.broker, transport)
        peer = transport.get_extra_info("peername")
        self.client_port = peer[1] if peer else 0
        self.broker.connected(self)
        if self.listener.protocol != "PLAINTEXT":
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
        elif listener.rules and (certificate := transport.get_extra_info("peercert")):
            try:
                self.principal = listener.rules.from_certificate(certificate["subject"])
            except NoPrincipal as error:
                self.fail(str(error))

    @property
    def address(self) -> tuple[str, int]:
        """Where this client is told to connect to."""
        if self.listener.advertised is None and self.outbound is not None:
            own = self.outbound.transport.get_extra_info("sockname")[0]
            return self.listener.address_for(str(own))
        return self.listener.address

    def logged_in(self, principal: str) -> None:
        """The client has proved who it is, for the first time or again."""
        self.principal = principal
        if self._login_timer is not None:
            self._login_timer.cancel()
        if self.login is not None and self.login.session_ms:
            self._login_timer = self.broker.supervisor.later(
                self.login.session_ms / 1000, TASK, self._login_ends, LOGIN_SECONDS
            )

    def _login_ends(self, patience: float) -> None:
        """Nothing is read for whoever has not renewed it; what is being stored is still answered.
        `patience`: so long may a renewal wait behind a fetch; requests of one connection run in order."""
        reason = None if self.login is None else self.login.ended
        if reason is None or self.is_closing or self.exchange.waits_since is None:
            return  # `Exchange` and `Inbound` let nothing begin after the end
        if patience and self.exchange.renews_login:
            self._login_timer = self.broker.supervisor.later(patience, TASK, self._login_ends, 0.0)
        else:
            self.fail(reason, logging.INFO)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        if self._login_timer is not None:
            self._login_timer.cancel()
        self.broker.memory.forget(self)
        self.exchange.lost()
        if self.outbound is not None:
            self.outbound.lost()
        self.inbound.lost()
        self.broker.disconnected(self)

    def pause_writing(self) -> None:
        assert self.outbound is not None
        self.outbound.is_paused = True

    def resume_writing(self) -> None:
        assert self.outbound is not None
        self.outbound.is_paused = False
        self.broker.supervisor.call(TASK, self.outbound.count)
        self.broker.supervisor.call(TASK, self.pump)

    # ---- requests ------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.inbound.frames.free()

    def buffer_updated(self, count: int) -> None:
        self.inbound.filled(count)

    def pump(self) -> None:
        """Start what may start, then read on or stop reading. An answer that is there at once asks for it
        again: the same loop goes on, or requests that came together would lie on each other's stack."""
        if not self._is_pumping:
            self._is_pumping = True
            try:
                self.exchange.start()
            finally:
                self._is_pumping = False
            self.inbound.balance()

    @property
    def may_start(self) -> bool:
        """Whether the next request may be begun, as far as the client and its quotas go."""
        return not (self.is_closing or self.stuck) and not self.inbound.is_muted

    def room(self) -> None:
        """There is memory again. An error here is no concern of whoever gave it back."""
        self.broker.supervisor.call(TASK, self.pump)

    def hold(self) -> None:
        """See `Exchange`; until `proceed`."""
        self.exchange.hold()

    def is_kept(self) -> None:
        """See `Context`."""
        self.exchange.is_kept()

    def reads(self, size: int) -> None:
        """See `Context`."""
        self.exchange.reads(size)

    def proceed(self) -> None:
        self.exchange.proceed()
        if not self.is_closing:
            self.pump()

    @property
    def is_stranger(self) -> bool:
        """Who has still to log in."""
        return self.login is not None and not self.login.open

    @property
    def busy(self) -> bool:
        """Whether a request is still to be answered."""
        return len(self.exchange) > 0

    @property
    def stuck(self) -> bool:
        """The client does not take its answers."""
        return self.outbound is not None and self.outbound.is_paused

    # ---- the end -------------------------------------------------------------------------------

    def fail(self, reason: str, level: int = logging.WARNING, *, at_once: bool = False) -> None:
        """Close this connection because of what it sent; `at_once`, whatever is still to go out."""
        logger.log(level, "closing the connection of %s: %s", self.client_host, reason)
        self.close()
        if at_once and self.outbound is not None:
            self.outbound.transport.abort()

    def fault(self, name: str, error: Exception) -> None:
        """An error of ours: it is counted, and this client has to come again."""
        self.broker.supervisor.failed(name, error)
        self.fail_for_us()

    def fail_for_us(self) -> None:
        """Close it because of an error that has been told, or because the broker stops."""
        level = logging.DEBUG if self.broker.stopping else logging.WARNING
        self.fail("an error of ours in answering it; please report the traceback above", level)

    def drop_if_stalled(self, now: float) -> None:
        """Others wait for memory: go, if some is held here and nothing moves."""
        if self.outbound is None or self.is_closing:
            return
        self.outbound.count()
        waits_since = self.exchange.waits_since
        if self.outbound.unsent:
            still, since = self.outbound.stall(now)
            what = f"{self.outbound.unsent} bytes of its answers are not taken"
        elif self.inbound.frames.is_awaited and not self.inbound.is_paused:
            still, since = now - self.inbound.last_active, now - self.inbound.frames.since
            what = f"a request of {self.inbound.frames.announced()} bytes does not arrive"
        elif self.exchange.held_bytes > SMALL_BYTES and waits_since is not None:
            still = since = now - waits_since
            held = self.exchange.held_bytes
            what = f"its requests hold {held} bytes and wait for something to happen"
        else:
            return
        patience = STALL_SECONDS if self.is_stranger else HOLD_SECONDS
        if still > STALL_SECONDS or since > patience:
            self.fail(f"{what}, and others wait for the memory", at_once=True)

    def drain(self) -> None:
        """The broker stops: take no new requests, answer those that have begun."""
        self.exchange.drain()
        if self.outbound is not None and not self.is_closing:
            self.inbound.is_paused = True
            self.outbound.transport.pause_reading()

    def finish(self) -> None:
        """The broker stops and everything is answered: let the client take its answers, and go."""
        outbound = self.outbound
        if outbound is None or self.is_closing:
            self.close()
            return
        self.is_closing = True
        self.broker.memory.forget(self)
        outbound.finish(self.connection_lost)
        if self.inbound.is_paused:
            outbound.transport.resume_reading()

    def close(self) -> None:
        """Close it once what was written has gone out; at once if the client takes nothing."""
        if self.is_closing:
            return
        self.is_closing = True
        self.broker.memory.forget(self)
        if self.outbound is not None:
            self.outbound.close()
