"""One connection's way through SASL (KIP-12, KIP-43, KIP-152, KIP-368), without its socket.

    START ──ApiVersions──▶ VERSIONS ──SaslHandshake──▶ TOKENS ──SaslAuthenticate…──▶ OPEN
      └────────────SaslHandshake──────────────────────▲                │ SaslHandshake, if sessions end
                                                      └────────────────┘ (the same user again)

The connection asks `admits` for each request before it decodes it, the handlers of SaslHandshake and
SaslAuthenticate do the rest. After a handshake of version 0 the tokens come bare, without Kafka's
header. One exchange at a time; whatever goes wrong ends in CLOSED, and says to the client only that
it went wrong.

SASL PLAIN (RFC 4616): the client sends name and password; for encrypted listeners.

[authzid] NUL user NUL password          all UTF-8, the last two not empty
"""

from __future__ import annotations

import logging
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from headwater.broker.security import scram
from headwater.broker.security.credentials import Credentials, Key
from headwater.broker.security.principal import ANONYMOUS
from headwater.broker.security.scram import Credential, Exchange
from headwater.broker.security.turns import Busy

logger = logging.getLogger("headwater.security")

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
AGAIN_SECONDS = 1.0
"""Kafka lets nobody log in again more often than this."""
PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *scram.MECHANISMS)


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
        self._again = False
        self._expires = 0.0
        self._began = 0.0

    @property
    def open(self) -> bool:
        return self.state is State.OPEN

    def admits(self, api_key: int) -> str | None:
        """Why a request may not come now, or None."""
        if self.state is State.OPEN:
            if not self._expires or self._now() < self._expires:
                return None
            if api_key == SASL_HANDSHAKE:
                return None
            return f"the login of {self.principal} has ended, and was not renewed"
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
            return self._scram(data)
        except (PlainError, scram.ScramError) as error:
            self._refused(str(error))
            raise LoginFailed(_sentence(self._mechanism)) from None
        except Busy:
            self._refused("too many logins wait to be checked")
            raise

    async def _plain(self, data: bytes) -> bytes:
        claim = parse(data)
        users, host = self._policy.users, self._host
        known = await self._credentials.knows(claim.user, claim.password, users, host)
        if not known:
            raise PlainError(f"wrong password, or no such user: {claim.user[:64]!r}")
        self._opened(claim.user)
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

    def _opened(self, user: str) -> None:
        principal = f"User:{user}"
        if self._again and principal != self.principal:
            raise scram.ScramError(f"{self.principal} may not become {principal}")
        self.principal = principal
        self.state = State.OPEN
        self.bare = False
        self._exchange = None
        if self._policy.session_ms:
            self._expires = self._now() + self._policy.session_ms / 1000

    @property
    def session_ms(self) -> int:
        """What an opened login tells the client; 0: no end."""
        return self._policy.session_ms

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
    return (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )


CHARS_MAX = 1_024
"""Of name and password each; RFC 4616 speaks of 255 octets."""


class PlainError(Exception):
    """Not a PLAIN message, or one that asks for what nobody gets."""


class Claim(NamedTuple):
    user: str
    password: str

    def __repr__(self) -> str:
        return f"<Claim of {self.user!r}>"  # never the password in a log


def parse(message: bytes) -> Claim:
    """Who the client says it is. Raises `PlainError`."""
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise PlainError("the message is not UTF-8") from None
    if len(parts) != 3:
        raise PlainError("the message has not three parts")
    authzid, user, password = parts
    if not user or not password:
        raise PlainError("user or password is missing")
    if len(user) > CHARS_MAX or len(password) > CHARS_MAX:
        raise PlainError(f"user or password has more than {CHARS_MAX} characters")
    if authzid and authzid != user:
        raise PlainError("a user may only act as itself")
    return Claim(user, password)
