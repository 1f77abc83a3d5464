"""Who has come in, as whom, and until when: tokens compared in constant time, and signed cookies.

Called by `guard`; pure, clock and chance are handed in. A session is kept by its cookie, not here:

    cookie   BASE64URL(JSON: id, until, by, name, role) "." HMAC-SHA256 in hex

A token's cookie is signed with a key made from that token: a restart logs nobody out, another token everybody
who came by it, and whoever has a token can forge nothing but what it gives him. Others (`begin`) are signed
with a key of this process: they end with it, at the latest. Sessions that somebody has ended are remembered
until they would have ended by themselves. No cookie holds for longer than a new one would, whoever signed it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from headwater.console.guesses import Guesses
from headwater.project.roles import ROLES, Role
from headwater.secrets import Secrets, not_empty

SESSION_S = 12 * 60 * 60
ENDED_MAX = 100_000
COOKIE_BYTES_MAX = 4096
TOKEN, _NAME = "token", "name"


@dataclass(frozen=True)
class Token:
    """One of those that let somebody in, and as what."""

    role: Role
    secret: str | Secrets

    def __post_init__(self) -> None:
        if isinstance(self.secret, str):
            not_empty(self.secret, f"the console's token of the {self.role.word}")

    @property
    def text(self) -> bytes:
        """As it is now: a file may hold another."""
        return (self.secret if isinstance(self.secret, str) else self.secret.now()[0]).encode()


@dataclass(frozen=True)
class Visitor:
    """Somebody who has come in."""

    name: str
    """User:ann; token:operator where there is no name; nobody where nobody was asked."""
    role: Role


NOBODY = Visitor("nobody", Role.ADMINISTRATOR)
"""Of a console that asks nobody: it listens on this machine only."""


WHO: ContextVar[str] = ContextVar("visitor", default=NOBODY.name)
"""In whose name something is done now; set by `guard` for a request or websocket and all that follows."""


@dataclass(frozen=True)
class Session:
    """A visitor, for a time."""

    id: str
    visitor: Visitor
    until: float


class Sessions:
    """The tokens, and the cookies that follow from them and from other ways to come in."""

    def __init__(self, tokens: Sequence[Token] = (), lifetime_s: int = SESSION_S) -> None:
        self.lifetime_s = lifetime_s
        self.has_tokens = bool(tokens)
        self._tokens = tuple(tokens)
        self._own_key = secrets.token_bytes(32)
        self.guesses = Guesses()
        self._ended: dict[str, float] = {}

    def cookie_for(self, token: str, now: float, address: str = "") -> str | None:
        """A cookie, if the token is right; None also while too many wrong ones have come from there."""
        if self.guesses.is_closed(now, address, TOKEN):
            return None
        given = token.encode()
        # All are compared, whichever it is: the time must not tell.
        right = [each for each in self._tokens if hmac.compare_digest(given, each.text)]
        if not right:
            self.guesses.failed(now, address, TOKEN)
            return None
        best = max(right, key=lambda each: each.role)
        visitor = Visitor(f"token:{best.role.word}", best.role)
        return self._cookie(visitor, now, TOKEN, _key(best.text))

    def begin(self, visitor: Visitor, now: float) -> str:
        """A cookie for somebody whom another way to sign in has found to be who he says."""
        return self._cookie(visitor, now, _NAME, self._own_key)

    def find(self, cookie: str | None, now: float) -> Session | None:
        """Whose cookie it is; None: nobody's, not any more, or not one of ours."""
        if cookie is None or len(cookie) > COOKIE_BYTES_MAX or not cookie.isascii():
            return None
        body, _, signature = cookie.partition(".")
        said = _read(body)
        keys = () if said is None else self._keys_of(said)
        if said is None or not any(hmac.compare_digest(signature, _signed(body, k)) for k in keys):
            return None
        session = _session(said)
        if session is None or session.id in self._ended:
            return None
        return session if now < session.until <= now + self.lifetime_s else None

    def end(self, session: Session, now: float) -> None:
        """From now on the cookie opens nothing."""
        self._ended = {each: until for each, until in self._ended.items() if until > now}
        while len(self._ended) >= ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        self._ended[session.id] = session.until

    def _cookie(self, visitor: Visitor, now: float, by: str, key: bytes) -> str:
        said = {
            "id": secrets.token_urlsafe(16),
            "until": int(now) + self.lifetime_s,
            "by": by,
            "name": visitor.name,
            "role": visitor.role.word,
        }
        body = urlsafe_b64encode(json.dumps(said).encode()).decode()
        return f"{body}.{_signed(body, key)}"

    def _keys_of(self, said: dict[str, object]) -> list[bytes]:
        """The keys that such a cookie may be signed with."""
        if said.get("by") == _NAME:
            return [self._own_key]
        return [_key(each.text) for each in self._tokens if each.role.word == said.get("role")]


def _read(body: str) -> dict[str, object] | None:
    """What stands in a cookie, whoever wrote it; it counts once its signature was compared."""
    try:
        said = json.loads(urlsafe_b64decode(body))
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _session(said: dict[str, object]) -> Session | None:
    """As a signed cookie says; who has a token signs himself, so only the token says who he is."""
    role = ROLES.get(str(said.get("role")))
    try:
        until = float(str(said.get("until")))
    except ValueError:
        return None
    if role is None or not said.get("id"):
        return None
    name = str(said.get("name")) if said.get("by") == _NAME else f"{TOKEN}:{role.word}"
    return Session(str(said["id"]), Visitor(name, role), until)


def _key(token: bytes) -> bytes:
    return hashlib.sha256(b"headwater console session\0" + token).digest()


def _signed(body: str, key: bytes) -> str:
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()
