"""Who may come in: one token, compared in constant time, and a signed cookie for those who gave it.

Called by `guard`; pure, the clock is handed in. A session is not kept anywhere: the cookie says until when it
holds, and is signed with a key made from the token. So a restart logs nobody out, and a new token everybody.

    cookie   EXPIRES-IN-SECONDS-SINCE-1970 "." HMAC-SHA256 in hex
"""

from __future__ import annotations

import hashlib
import hmac
from collections import deque

from headwater.secrets import Secrets

SESSION_S = 12 * 60 * 60
TRIES_MAX, TRIES_WITHIN_S = 10, 60.0
ADDRESSES_MAX = 10_000


class Sessions:
    """The one token, and what follows from it."""

    def __init__(self, token: str | Secrets) -> None:
        assert token
        self._secret = token
        self._failures: dict[str, deque[float]] = {}
        """By address: who guesses shuts out himself, and nobody else."""

    @property
    def _token(self) -> bytes:
        """As it is now: a file may hold another."""
        text = self._secret if isinstance(self._secret, str) else self._secret.now()[0]
        return text.encode()

    def cookie_for(self, token: str, now: float, address: str = "") -> str | None:
        """A cookie, if the token is right; None also while too many wrong ones have come from there."""
        if self.is_closed(now, address):
            return None
        if not hmac.compare_digest(token.encode(), self._token):
            seen = self._failures.pop(address, None) or deque(maxlen=TRIES_MAX)
            seen.append(now)
            self._failures[address] = seen
            if len(self._failures) > ADDRESSES_MAX:
                del self._failures[next(iter(self._failures))]
            return None
        expires = str(int(now) + SESSION_S)
        return f"{expires}.{self._signed(expires)}"

    def is_closed(self, now: float, address: str = "") -> bool:
        """Whether somebody is guessing there: then nobody gets in from there for a moment."""
        seen = self._failures.get(address)
        return seen is not None and len(seen) == TRIES_MAX and now - seen[0] < TRIES_WITHIN_S

    def holds(self, cookie: str | None, now: float) -> bool:
        if cookie is None:
            return False
        expires, _, signature = cookie.partition(".")
        if not expires.isascii() or not expires.isdigit() or not signature.isascii():
            return False
        right = hmac.compare_digest(signature, self._signed(expires))
        return right and now < int(expires)

    def _signed(self, expires: str) -> str:
        key = hashlib.sha256(b"headwater console session\0" + self._token).digest()
        return hmac.new(key, expires.encode(), hashlib.sha256).hexdigest()
