"""What can go wrong at the edges, each as one sentence with what to do next."""

from __future__ import annotations

from headwater.client.errors import RequestRefused
from headwater.errors import HeadwaterError


class Overloaded(HeadwaterError):
    """More waits for the log than the bound allows: come again in `retry_after` seconds."""

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence, hint=f"try again in {retry_after:g} s")
        self.retry_after = retry_after


class TooLarge(RequestRefused):
    """More than one request may ever have; trying again does not mend it."""


class Invalid(HeadwaterError):
    """What was sent was understood, and does not fit: a schema, a signature's form, another body."""


class Conflict(HeadwaterError):
    """It cannot be as things are: the name is taken, as many as may be are there."""


class BadToken(HeadwaterError):
    """No token, or an unknown one."""


class Forbidden(HeadwaterError):
    """A token that is known, and lacks this scope."""


class IssuerAway(HeadwaterError):
    """The issuer of tokens gives no answer, so nothing is known about one; another attempt may succeed."""
