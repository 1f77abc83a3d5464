"""Who may come in: one token, compared in constant time, and a signed cookie for those who gave it.

Called by `guard`; pure, the clock is handed in. A session is not kept anywhere: the cookie says until when it
holds, and is signed with a key made from the token. So a restart logs nobody out, and a new token everybody.

    cookie   EXPIRES-IN-SECONDS-SINCE-1970 "." HMAC-SHA256 in hex
"""

from __future__ import annotations

import hashlib
import hmac
from collections import deque

SESSION_S = 12 * 60 * 60
TRIES_MAX, TRIES_WITHIN_S = 10, 60.0


class Sessions:
    """The one token, and what follows from it."""

    def __init__(self, token: str) -> None:
        assert token
        self._token = token.encode()
        self._key = hashlib.sha256(b"headwater console session\0" + self._token).digest()
        self._failures: deque[float] = deque(maxlen=TRIES_MAX)

    def cookie_for(self, token: str, now: float) -> str | None:
        """A cookie, if the token is right; None also while too many wrong ones have come."""
        if self.is_closed(now):
            return None
        if not hmac.compare_digest(token.encode(), self._token):
            self._failures.append(now)
            return None
        expires = str(int(now) + SESSION_S)
        return f"{expires}.{self._signed(expires)}"

    def is_closed(self, now: float) -> bool:
        """Whether somebody is guessing: then nobody gets in for a moment."""
        return len(self._failures) == TRIES_MAX and now - self._failures[0] < TRIES_WITHIN_S

    def holds(self, cookie: str | None, now: float) -> bool:
        if cookie is None:
            return False
        expires, _, signature = cookie.partition(".")
        if not expires.isascii() or not expires.isdigit() or not signature.isascii():
            return False
        right = hmac.compare_digest(signature, self._signed(expires))
        return right and now < int(expires)

    def _signed(self, expires: str) -> str:
        return hmac.new(self._key, expires.encode(), hashlib.sha256).hexdigest()
