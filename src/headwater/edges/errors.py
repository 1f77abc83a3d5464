"""What can go wrong at the edges, each as one sentence with what to do next."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class BadEdges(HeadwaterError):
    """The section [edges] cannot be used; the sentence has a line for each mistake."""


class CannotServe(HeadwaterError):
    """The edges cannot listen there, or may not, or lack a package."""


class Overloaded(HeadwaterError):
    """More waits for the log than the bound allows: come again in `retry_after` seconds."""

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence, hint=f"try again in {retry_after:g} s")
        self.retry_after = retry_after


class Invalid(HeadwaterError):
    """What was sent was understood, and does not fit: a schema, a signature's form, another body."""


class BadToken(HeadwaterError):
    """No token, or an unknown one."""


class Forbidden(HeadwaterError):
    """A token that is known, and lacks this scope."""
