"""SASL PLAIN (RFC 4616): the client sends name and password; for encrypted listeners. Pure; `login` calls it.

[authzid] NUL user NUL password          all UTF-8, the last two not empty
"""

from __future__ import annotations

from typing import NamedTuple

PLAIN = "PLAIN"
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
