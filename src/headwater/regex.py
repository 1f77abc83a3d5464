"""Regular expressions that strangers send, run by RE2: in time that no expression can blow up.

Whoever runs one uses this: in the broker subscriptions (`groups.consumer.topic_regex`), ListTransactions and
client metrics, outside of it the filters of records that a page, a changefeed or a webhook asks for
(`browse.filters`). RE2 has no back reference and no look-around, as Kafka's own (RE2/J); decision 0020.

Every bound is stated: an expression's length and memory, and the CPU time of one look at many names, as there
may be many. Whoever exceeds one gets `BadRegex`. RE2 lets other threads run meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache

import re2

LENGTH_MAX = 1_000
MEMORY_MAX = 1 << 20
"""Bytes, of the program and of what RE2 keeps for its states."""
WORK_S = 0.25
"""CPU time of one call of `matching`: 30 million letters, or 20,000 with an expression made to be slow."""
STEPS_AT_ONCE_MAX = 200_000
"""Letters × instructions that the event loop has time for: some 2 ms, at worst 6."""


class BadRegex(ValueError):
    """Not an expression that we accept; the text says why."""


class Regex:
    """An expression. May be used by several threads at once."""

    __slots__ = ("_machine",)

    def __init__(self, expression: str, *, ignore_case: bool = False) -> None:
        if len(expression) > LENGTH_MAX:
            raise BadRegex(f"it is longer than {LENGTH_MAX} characters")
        try:
            expression.encode()
            self._machine = re2.compile(expression, _options(ignore_case))
        except re2.error as error:
            raise BadRegex(_sentence(error)) from None
        except UnicodeEncodeError:
            raise BadRegex("it is no text") from None

    def matches(self, name: str) -> bool:
        """Whether the whole name does."""
        return self._machine.fullmatch(_bytes(name)) is not None

    def finds(self, text: str) -> bool:
        """Whether some part of the text does."""
        return self._machine.search(_bytes(text)) is not None

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those that match. Raises BadRegex if that is too much work."""
        fullmatch, began = self._machine.fullmatch, time.thread_time()
        found = []
        for name in names:
            if fullmatch(_bytes(name)) is not None:
                found.append(name)
            if time.thread_time() - began >= WORK_S:
                raise BadRegex("it takes too much work to match")
        return found

    def steps(self, names: Iterable[str]) -> int:
        """How much work these may be: compare with `STEPS_AT_ONCE_MAX`."""
        return int(self._machine.programsize) * sum(map(len, names))


def _bytes(text: str) -> bytes:
    """As RE2 looks at it; half a character, which JSON can escape, is a question mark."""
    return text.encode("utf-8", "replace")


@lru_cache(2)
def _options(ignore_case: bool) -> re2.Options:
    options = re2.Options()
    options.max_mem = MEMORY_MAX
    options.never_capture = True
    options.log_errors = False
    options.case_sensitive = not ignore_case
    return options


def _sentence(error: re2.error) -> str:
    said = error.args[0]
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
