"""The root of every error that a person is meant to read.

Each ring derives its own errors from `HeadwaterError`; the command line catches that one class,
prints its sentence and leaves with an exit code. Anything else that escapes is our own mistake
and keeps its traceback.
"""

from __future__ import annotations


class HeadwaterError(Exception):
    """One clear sentence for the user; `hint`, where given, says what to do next."""

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint
