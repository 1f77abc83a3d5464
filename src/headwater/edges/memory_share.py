"""Bytes in memory that strangers have sent, or have asked for and not taken: bounded, and shared fairly.

Of bodies on their way in (`request_body`), records on their way to the log (`appender`), answers on their way
out (`answer_body`). Nobody may have more than `SHARE` times what is left for all others: a sender alone
leaves a quarter, the next one a quarter of that, so whatever they do, somebody else can come in. No request
has more than a sender alone may have: it is refused, however little there is beside it.
"""

from __future__ import annotations

from collections import Counter
from contextvars import copy_context

from headwater.edges.caller import SENDER
from headwater.edges.errors import Overloaded, TooLarge

RETRY_AFTER_S = 1.0
SHARE = 3


class MemoryShare:
    """Of whoever asks (`SENDER`); what a request has taken, the same request gives back."""

    def __init__(self, most: int, sentence: str = "too much is being sent at once") -> None:
        self.most = most
        self.bytes = 0
        self._sentence = sentence
        self._of: Counter[str] = Counter()

    @property
    def most_of_one(self) -> int:
        """What a sender may have who is alone."""
        return self.most * SHARE // (SHARE + 1)

    def take(self, size: int) -> None:
        """Raises Overloaded, and TooLarge where there will never be room."""
        if size > self.most_of_one:
            raise TooLarge(
                f"this takes {size} bytes of memory, and {self.most_of_one} are the most",
                hint="send or ask for less at once; on the way to the log, waiting_bytes is the bound",
            )
        sender = SENDER.get()
        left = self.most - self.bytes - size
        if left < 0 or self._of[sender] + size > SHARE * left:
            raise Overloaded(self._sentence, RETRY_AFTER_S)
        self.bytes += size
        self._of[sender] += size

    def give(self, size: int) -> None:
        sender = SENDER.get()
        self.bytes -= size
        self._of[sender] -= size
        if not self._of[sender]:
            del self._of[sender]


class Account:
    """Bytes of what outlives a request: in the name of whoever opened it, wherever they are counted later."""

    def __init__(self, held: MemoryShare) -> None:
        self._held, self._who, self.size = held, copy_context(), 0

    def set(self, size: int) -> None:
        """So many from now on. Raises what `MemoryShare.take` raises; then nothing has changed."""
        more = size - self.size
        if more > 0:
            self._who.run(self._held.take, more)
        elif more < 0:
            self._who.run(self._held.give, -more)
        self.size = size
