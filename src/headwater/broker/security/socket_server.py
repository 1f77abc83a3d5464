"""The listeners, opened: their sockets, certificates and login policies. The broker owns one `SocketServer`.

Everything that can be wrong with the settings is found in the constructor, before the broker reads its
logs. Addresses are taken and judged before anybody is let in, and each client is counted and judged before
TLS begins (`admission`). New certificates are for whoever is accepted from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headwater.broker.security import tls
from headwater.broker.security.acceptor import Acceptor, Arrival, Entrance
from headwater.broker.security.admission import Admission, Place
from headwater.broker.security.bearer import OAUTHBEARER
from headwater.broker.security.credentials import jaas_users
from headwater.broker.security.handshakes import Handshakes
from headwater.broker.security.listeners import (
    BadListener,
    Listener,
    bind,
    check_exposure,
    option,
    release,
)
from headwater.broker.security.login import Policy
from headwater.broker.security.principal import BadRule, PrincipalRules
from headwater.broker.settings import Settings
from headwater.broker.supervisor import Supervisor
from headwater.log.descriptors import RUN_OUT
from headwater.oidc.claims import Rules
from headwater.oidc.errors import BadIssuer

if TYPE_CHECKING:
    from headwater.oidc.validator import Validator

logger = logging.getLogger("headwater.security")

BACKLOG_MIN = 1024
"""One loop is busy for longer than an acceptor thread would be: queue more for it."""

LISTENERS = "listeners"
Factory = Callable[[Listener, Place], asyncio.BaseProtocol]
_FILES = ("ssl.keystore.location", "ssl.truststore.location")


class SocketServer:
    """Where clients come in."""

    def __init__(
        self, listeners: list[Listener], settings: Settings, supervisor: Supervisor
    ) -> None:
        """Raises `BadListener`."""
        self.listeners = listeners
        self._settings = settings
        self._supervisor = supervisor
        self.handshakes = Handshakes()
        self.admission: Admission | None = None
        self._acceptors: list[Acceptor] = []
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        for listener in listeners:
            if listener.logs_in:
                listener.policy = self._policy(listener)
            if listener.encrypted:
                listener.rules = self._rules(listener)
        self._contexts = self._read_certificates()

    def _policy(self, listener: Listener) -> Policy:
        mechanisms = option(self._settings, listener, "sasl.enabled.mechanisms")
        if not mechanisms:
            raise BadListener(
                f"nobody could log in at {listener.name}: sasl.enabled.mechanisms is empty",
                hint="use SCRAM-SHA-256,SCRAM-SHA-512",
            )
        line = self._settings.of_listener(listener.name).get("plain.sasl.jaas.config") or ""
        session_ms = option(self._settings, listener, "connections.max.reauth.ms")
        bearers = _bearers(self._settings, listener) if OAUTHBEARER in mechanisms else None
        return Policy(tuple(mechanisms), max(session_ms, 0), jaas_users(line), bearers)

    def _rules(self, listener: Listener) -> PrincipalRules:
        try:
            return PrincipalRules(option(self._settings, listener, "ssl.principal.mapping.rules"))
        except BadRule as error:
            raise BadListener(str(error), hint="write RULE:pattern/replacement/") from None

    def _read_certificates(self) -> dict[str, ssl.SSLContext]:
        found = {}
        for listener in self.listeners:
            if listener.encrypted:
                found[listener.name] = made = tls.context(self._settings, listener)
                listener.demands_certificate = made.verify_mode is ssl.CERT_REQUIRED
        return found

    def open(self, make: Factory, admission: Admission) -> None:
        """Take the addresses and let clients in. Raises `BadListener`."""
        self._make, self.admission = make, admission
        self._supervisor.health.connections = self._counts
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for listener in self.listeners:
                bind(listener)
            check_exposure(self.listeners, self._settings.get("headwater.insecure"))
            self._serve()
            undo.pop_all()
        for name in _FILES:
            self._settings.on_change(name, lambda _: self.reload())

    def _serve(self) -> None:
        backlog = max(self._settings.get("socket.listen.backlog.size"), BACKLOG_MIN)
        for listener in self.listeners:
            entrance = Entrance(
                partial(self._admit, listener),
                self._accept_failed,
                partial(self._context, listener),
            )
            for each in listener.sockets:
                self._acceptors.append(Acceptor(each.dup(), entrance, self.handshakes))
                self._acceptors[-1].open(backlog)

    def _accept_failed(self, error: OSError | None) -> None:
        if error is None:
            self._supervisor.health.succeeded(LISTENERS)
        else:
            if error.errno in RUN_OUT and self.admission is not None:
                self.admission.make_room()
            self._supervisor.failed(LISTENERS, error, "a client could not be accepted")

    def _counts(self) -> dict[str, int]:
        refused = 0 if self.admission is None else self.admission.refused
        return {"refused": refused, "handshakes_failed": self.handshakes.failed}

    def _context(self, listener: Listener) -> ssl.SSLContext | None:
        return self._contexts[listener.name] if listener.encrypted else None

    def _admit(self, listener: Listener, sock: socket.socket, host: str) -> Arrival | None:
        assert self.admission is not None
        place = self.admission.enter(host)
        if isinstance(place, str):
            _refuse(sock, host, place)
        elif wait := self.admission.wait(host):  # not so soon that it tries again at once
            held = self._supervisor.later(wait, LISTENERS, self._end_hold, sock, place)
            self._held[sock] = held
        else:
            return Arrival(partial(self._make, listener, place), place.leave)
        return None

    def _end_hold(self, sock: socket.socket, place: Place) -> None:
        self._held.pop(sock).cancel()
        place.leave()
        _refuse(sock, place.host, "its connection_creation_rate is exceeded")

    def reload(self) -> None:
        """Read the certificates again (SIGHUP, or a file's name was changed), for new connections."""
        try:
            self._contexts = self._read_certificates()
        except BadListener as error:
            logger.error("the old certificates stay in use: %s", error)
            return
        logger.info("certificates were read again")

    async def shut(self) -> None:
        """Let nobody in any more; those who are inside stay, those in the middle of a handshake go."""
        self.close()
        for acceptor in self._acceptors:
            await acceptor.wait_closed()
        self.handshakes.close()  # of those who were just handed over

    def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        for sock, held in self._held.items():
            held.cancel()
            sock.close()
        self._held.clear()
        self.handshakes.close()
        for listener in self.listeners:
            release(listener)


def _refuse(sock: socket.socket, host: str, reason: str) -> None:
    logger.warning("closing the connection of %s: %s", host, reason)
    sock.close()


def _bearers(settings: Settings, listener: Listener) -> Validator:
    """What judges the tokens that are shown at this listener (KIP-768). Raises BadListener.

    The library is loaded here, and only where OAUTHBEARER is offered: the broker's process stays light.
    Unlike in Kafka, issuer and audience must be named: a token for anything else would open the log.
    """
    try:
        from headwater.oidc.keys import Keys
        from headwater.oidc.validator import Validator
    except ImportError as error:
        raise BadListener(
            f"OAUTHBEARER at {listener.name} needs the library {error.name}, which is not installed",
            hint="pip install 'headwater[oidc]'",
        ) from None

    def said(name: str) -> str:
        return str(option(settings, listener, name) or "")

    rules = Rules(
        issuer=said("sasl.oauthbearer.expected.issuer"),
        audiences=tuple(option(settings, listener, "sasl.oauthbearer.expected.audience")),
        principal_claim=said("sasl.oauthbearer.sub.claim.name"),
        scope_claim=said("sasl.oauthbearer.scope.claim.name"),
        skew_s=option(settings, listener, "sasl.oauthbearer.clock.skew.seconds"),
    )
    wait_ms = option(settings, listener, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
    refresh_ms = option(settings, listener, "sasl.oauthbearer.jwks.endpoint.refresh.ms")
    url = said("sasl.oauthbearer.jwks.endpoint.url")
    try:
        keys = Keys(rules.issuer, url, refresh_s=refresh_ms / 1000, retry_s=wait_ms / 1000)
        return Validator(rules, keys)
    except BadIssuer as error:
        raise BadListener(
            f"nobody could log in at {listener.name} by OAUTHBEARER: {error.sentence}",
            hint="set sasl.oauthbearer.expected.issuer, sasl.oauthbearer.expected.audience, and "
            "sasl.oauthbearer.jwks.endpoint.url (https) where there is no discovery document",
        ) from None
