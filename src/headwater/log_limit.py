"""No stranger fills the disk by what is logged of him: of one sentence, so many in a while, the rest counted.

A filter of the process's handler. The metrics count everything; a log is for people. Errors are ours and not
a stranger's: of those each one is a sentence of its own, with what it names; the same one again says nothing
new, and a thousand that differ in what they name are enough: a full disk refuses what each partition writes.
And nobody writes lines of his own into it, or speaks to the terminal of whoever reads it: what a record says
is one line of text.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

MOST = 100
SAME_ERRORS = 5
ERRORS = 1_000
"""Of one sentence, whatever they name."""
WHILE_S = 10.0
LONGEST = 2_000
"""Characters of one record."""
_SENTENCES_MAX = 1_000
"""Of errors, which name things; what makes new ones without end must not be remembered."""

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class LogLimit(logging.Filter):
    """Lets `most` records of one sentence pass in `seconds`; the next that passes says how many did not."""

    def __init__(
        self,
        most: int = MOST,
        seconds: float = WHILE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most, self._seconds, self._clock = most, seconds, clock
        self._passed: dict[int, dict[tuple[str, int, str], tuple[float, int]]] = {}
        """By how many may pass: errors without end do not wipe out what they all have in common."""

    def filter(self, record: logging.LogRecord) -> bool:
        is_let = self._is_let(record)
        if is_let:
            _clean(record)
        return is_let

    def _is_let(self, record: logging.LogRecord) -> bool:
        """Called under the handler's own lock or not at all at once: counts need not be exact."""
        sentence = _sentence(record)
        if record.levelno < logging.ERROR:
            return self._passes(record, sentence, self._most)
        try:
            said = record.getMessage()
        except (TypeError, ValueError):
            return True  # the handler tells what is wrong with it
        return self._passes(record, said, min(self._most, SAME_ERRORS)) and self._passes(
            record, sentence, ERRORS
        )

    def _passes(self, record: logging.LogRecord, said: str, most: int) -> bool:
        sentence, passed = (record.name, record.levelno, said), self._passed.setdefault(most, {})
        now = self._clock()
        began, count = passed.get(sentence, (now, 0))
        if now - began >= self._seconds:
            if count > most:
                record.msg = f"{record.getMessage()} ({count - most} more like it before)"
                record.args = ()
            began, count = now, 0
        if sentence not in passed and len(passed) >= _SENTENCES_MAX:
            passed.clear()
        passed[sentence] = (began, count + 1)
        return count < most


def _sentence(record: logging.LogRecord) -> str:
    """A constant of the code; others' libraries make theirs where they log it, and it is one by its place."""
    is_ours = record.name.startswith("headwater")
    return str(record.msg) if is_ours else f"{record.pathname}:{record.lineno}"


def _clean(record: logging.LogRecord) -> None:
    try:
        said = record.getMessage()
    except (TypeError, ValueError):
        return
    if len(said) > LONGEST or _CONTROL.search(said):
        short = said if len(said) <= LONGEST else f"{said[:LONGEST]}…"
        record.msg, record.args = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], short), ()


def limit_logs() -> None:
    """Of this process; after its handlers are made."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, LogLimit) for each in handler.filters):
            handler.addFilter(LogLimit())
