"""One connection's way through SASL (KIP-12, KIP-43, KIP-152, KIP-368), without its socket.

    START ──ApiVersions──▶ VERSIONS ──SaslHandshake──▶ TOKENS ──SaslAuthenticate…──▶ OPEN
      └────────────SaslHandshake──────────────────────▲                │ SaslHandshake, if sessions end
                                                      └────────────────┘ (the same user again)

The connection asks `admits` for each request before it decodes it, and `ended` before it begins one that
had to wait; the handlers of SaslHandshake and SaslAuthenticate do the rest. After a handshake of version 0
the tokens come bare, without Kafka's header. One exchange at a time; whatever goes wrong ends in CLOSED,
and says to the client only that it went wrong.
"""

from __future__ import annotations

import logging
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from headwater.broker.security import bearer, plain, scram
from headwater.broker.security.bearer import OAUTHBEARER
from headwater.broker.security.credentials import Credentials, Key
from headwater.broker.security.plain import PLAIN, PlainError
from headwater.broker.security.principal import ANONYMOUS
from headwater.broker.security.scram import Credential, Exchange
from headwater.fair_queue import Busy
from headwater.oidc.errors import IssuerUnreachable, TokenRefused

if TYPE_CHECKING:
    from headwater.oidc.validator import Validator

logger = logging.getLogger("headwater.security")

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
AGAIN_SECONDS = 1.0
"""Kafka lets nobody log in again more often than this."""


class State(Enum):
    START = auto()
    VERSIONS = auto()
    TOKENS = auto()
    OPEN = auto()
    CLOSED = auto()


class LoginFailed(Exception):
    """The message is for the client, and the same for every reason."""


class Policy(NamedTuple):
    """What a listener asks of its clients."""

    mechanisms: tuple[str, ...]
    session_ms: int
    """How long a login holds; 0: as long as the connection."""
    users: Mapping[Key, Credential]
    """Those of the listener's own PLAIN line."""
    bearers: Validator | None = None
    """What judges the tokens of OAUTHBEARER."""


class Login:
    """What one connection has shown of who it is."""

    def __init__(
        self, credentials: Credentials, policy: Policy, host: str, now: Callable[[], float]
    ) -> None:
        self.state = State.START
        self.principal = ANONYMOUS
        self.bare = False
        """Whether tokens come without Kafka's header (after a handshake of version 0)."""
        self._credentials = credentials
        self._policy = policy
        self._host = host
        self._now = now
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._bad_token = ""
        self._again = False
        self.session_ms = 0
        """What an opened login tells the client; 0: no end."""
        self._expires = 0.0
        self._began = 0.0

    @property
    def open(self) -> bool:
        return self.state is State.OPEN

    @property
    def ended(self) -> str | None:
        """What to say of a login whose time is over and that nobody renews at this moment, or None."""
        if self.state is State.OPEN and self._expires and self._now() >= self._expires:
            return f"the login of {self.principal} has ended, and was not renewed"
        return None

    def admits(self, api_key: int) -> str | None:
        """Why a request may not come now, or None."""
        if self.state is State.OPEN:
            return None if api_key == SASL_HANDSHAKE else self.ended
        if api_key in _EXPECTED[self.state]:
            return None
        return f"API {api_key} must wait until the client has logged in"

    def asked_versions(self) -> None:
        """ApiVersions was answered; a second one before the login is refused, as in Kafka."""
        if self.state is State.START:
            self.state = State.VERSIONS

    # ---- SaslHandshake -----------------------------------------------------------------------------

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._policy.mechanisms

    def may_begin(self) -> bool:
        """Whether a handshake is in order now (the other case is ILLEGAL_SASL_STATE)."""
        if self.state is not State.OPEN:
            return self.state in (State.START, State.VERSIONS)
        return bool(self._expires) and self._now() - self._began >= AGAIN_SECONDS

    def begin(self, mechanism: str, bare: bool) -> bool:
        """The client has chosen; False where it may not have that, and must go."""
        self._again = self.state is State.OPEN
        if mechanism not in self._policy.mechanisms or (
            self._again and mechanism != self._mechanism
        ):
            self._refused(f"mechanism {mechanism[:64]!r} is not offered")
            return False
        self.state = State.TOKENS
        self.bare = bare
        self._mechanism = mechanism
        self._exchange = None
        self._bad_token = ""
        self._began = self._now()
        return True

    # ---- SaslAuthenticate --------------------------------------------------------------------------

    async def token(self, data: bytes) -> bytes:
        """The answer to one token; `open` afterwards if it was the last.

        Raises `LoginFailed`; `Busy`, which is no word about the password: clients take a refusal for final,
        and come again after a connection that just ends.
        """
        assert self.state is State.TOKENS
        try:
            if self._mechanism == PLAIN:
                return await self._plain(data)
            if self._mechanism == OAUTHBEARER:
                return await self._bearer(data)
            return self._scram(data)
        except (PlainError, scram.ScramError, TokenRefused) as error:
            self._refused(str(error))
            raise LoginFailed(_sentence(self._mechanism)) from None
        except Busy:
            self._refused("too many logins wait to be checked")
            raise
        except IssuerUnreachable as error:
            self._refused(str(error))
            raise Busy from error

    async def _plain(self, data: bytes) -> bytes:
        claim = plain.parse(data)
        users, host = self._policy.users, self._host
        known = await self._credentials.knows(claim.user, claim.password, users, host)
        if not known:
            raise PlainError(f"wrong password, or no such user: {claim.user[:64]!r}")
        self._opened(claim.user)
        return b""

    async def _bearer(self, data: bytes) -> bytes:
        """A refused token is told in a first answer, and refused in a second (RFC 7628, 3.2.3)."""
        assert self._policy.bearers is not None
        if self._bad_token:
            raise TokenRefused(self._bad_token)
        try:
            token, wanted = bearer.parse(data)
            found = await self._policy.bearers.identity(token)
            if wanted not in ("", found.principal):
                raise TokenRefused("a user may only act as itself")
        except TokenRefused as error:
            self._bad_token = str(error)
            return bearer.STATUS.encode()
        self._opened(found.principal, max(int(found.lifetime_s * 1000), 1))
        return b""

    def _scram(self, data: bytes) -> bytes:
        mechanism = scram.MECHANISMS[self._mechanism]
        if self._exchange is None:
            self._exchange = Exchange(mechanism)
            self._exchange.begin(data)
            kept = self._credentials.find(mechanism, self._exchange.user)
            return self._exchange.challenge(kept, b64encode(os.urandom(24)))
        try:
            answer = self._exchange.finish(data)
        except scram.ScramError as error:
            raise scram.ScramError(f"{error}, user {self._exchange.user[:64]!r}") from None
        self._opened(self._exchange.user)
        return answer

    def _opened(self, user: str, token_ms: int = 0) -> None:
        """`token_ms`: how long what was shown is good for; 0: for ever."""
        principal = f"User:{user}"
        if self._again and principal != self.principal:
            raise scram.ScramError(f"{self.principal} may not become {principal}")
        self.principal = principal
        self.state = State.OPEN
        self.bare = False
        self._exchange = None
        self.session_ms = min(filter(None, (self._policy.session_ms, token_ms)), default=0)
        if self.session_ms:
            self._expires = self._now() + self.session_ms / 1000

    def _refused(self, reason: str) -> None:
        self.state = State.CLOSED
        logger.info("login refused, client %s: %s", self._host, reason)


_EXPECTED = {
    State.START: (API_VERSIONS, SASL_HANDSHAKE),
    State.VERSIONS: (SASL_HANDSHAKE,),
    State.TOKENS: (SASL_AUTHENTICATE,),
    State.CLOSED: (),
}


def _sentence(mechanism: str) -> str:
    """Kafka's words, which some clients show."""
    if mechanism == PLAIN:
        return "Authentication failed: Invalid username or password"
    if mechanism == OAUTHBEARER:
        return bearer.STATUS
    return (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )
