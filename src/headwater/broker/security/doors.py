"""The listeners, opened: their sockets, certificates and login policies. The broker owns one `Doors`.

Everything that can be wrong with the settings is found in the constructor, before the broker reads its
logs. Addresses are taken and judged before anybody is let in. New certificates need new servers on the
same sockets, so that no client finds the address closed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.broker.security import tls
from headwater.broker.security.bearer import OAUTHBEARER
from headwater.broker.security.credentials import jaas_users
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
from headwater.oidc.claims import Rules
from headwater.oidc.errors import BadIssuer

if TYPE_CHECKING:
    from headwater.oidc.validator import Validator

logger = logging.getLogger("headwater.security")

BACKLOG_MIN = 1024
"""One loop is busy for longer than an acceptor thread would be: queue more for it."""

Factory = Callable[[Listener], asyncio.BaseProtocol]
_FILES = ("ssl.keystore.location", "ssl.truststore.location")


class Doors:
    """Where clients come in."""

    def __init__(
        self, listeners: list[Listener], settings: Settings, supervisor: Supervisor
    ) -> None:
        """Raises `BadListener`."""
        self.listeners = listeners
        self._settings = settings
        self._supervisor = supervisor
        self._servers: list[asyncio.Server] = []
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._factory: Factory | None = None
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

    async def open(self, factory: Factory) -> None:
        """Take the addresses and let clients in. Raises `BadListener`."""
        self._factory = factory
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for listener in self.listeners:
                bind(listener)
            check_exposure(self.listeners, self._settings.get("headwater.insecure"))
            await self._serve()
            undo.pop_all()
        for name in _FILES:
            self._settings.on_change(name, lambda _: self.reload())

    async def _serve(self) -> None:
        for listener in self.listeners:
            for each in listener.sockets:
                self._servers.append(await self._server(listener, each.dup()))

    async def _server(self, listener: Listener, sock: socket.socket) -> asyncio.Server:
        factory = self._factory
        assert factory is not None
        context = self._contexts.get(listener.name)
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: factory(listener),
            sock=sock,
            ssl=context,
            ssl_handshake_timeout=tls.HANDSHAKE_SECONDS if context else None,
            backlog=max(self._settings.get("socket.listen.backlog.size"), BACKLOG_MIN),
        )

    def reload(self) -> None:
        """Read the certificates again (SIGHUP, or a file's name was changed), for new connections."""
        try:
            self._contexts = self._read_certificates()
        except BadListener as error:
            logger.error("the old certificates stay in use: %s", error)
            return
        self._supervisor.spawn("certificates", self._serve_again())

    async def _serve_again(self) -> None:
        before, self._servers = self._servers, []
        try:
            await self._serve()
        except BaseException:  # the old ones go on
            for server in self._servers:
                server.close()
            self._servers = before
            raise
        for server in before:
            server.close()
        logger.info("certificates were read again")

    async def shut(self) -> None:
        """Let nobody in any more; those who are inside stay."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            # Whom asyncio has accepted and not yet let in when its server closes, it forgets, and
            # the socket stays open: accept nobody, let in those who are at the door, then close.
            for each in (sock for server in self._servers for sock in server.sockets):
                loop.remove_reader(each.fileno())
            for _ in range(3):
                await asyncio.sleep(0)
        self.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for listener in self.listeners:
            release(listener)


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
