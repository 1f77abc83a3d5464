"""Requests that wait to be written, and which of them go together: senders in turn; and again, where they
failed; pure.

Called by `appender`, under its lock, and by `writer`. A transaction is committed or aborted as a whole, so
whoever is written with others fails with them. Then nobody is to blame yet: each sender's go again by
themselves, then in halves, until the one that is no good is alone. Between two attempts others have turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.client.publisher import Draft
from headwater.edges.idempotency.index import Span
from headwater.edges.producers import BATCH_BYTES
from headwater.edges.turns import Turns
from headwater.errors import HeadwaterError
from headwater.record.batch import HEADER_BYTES

GROUP_BYTES_MAX = 2 * 1024**2
GROUP_RECORDS_MAX = 5_000
GROUP_BATCHES_MAX = 25
"""One after the other: where a topic takes little at once, each is waited for.

Whoever comes waits for the group that is being written, and then with his own: so it takes a tenth of a
second, in which its one commit is a small part.
"""


class Appended(NamedTuple):
    """Where the records are. `is_new` is False where an earlier request has stored them."""

    spans: tuple[Span, ...]
    is_new: bool


Outcome = Appended | HeadwaterError | None
"""None: it was aborted with others, and has to go again with fewer."""


@dataclass(frozen=True, eq=False)
class Request:
    """`digest`: of what was sent; empty where it does not matter."""

    topic: str
    key: bytes
    digest: str
    drafts: Sequence[Draft]
    size: int
    partitions: Sequence[int]
    """Of the topic, which is there: librdkafka would create one, or wait for one, that is only misspelt."""
    batch_bytes_max: int
    """What the topic takes at once, of this request and others together."""

    @property
    def room(self) -> int:
        """For records in one batch."""
        return self.batch_bytes_max - HEADER_BYTES

    @property
    def batches(self) -> int:
        """That have to be waited for one after the other; 0: librdkafka makes no larger ones."""
        if self.batch_bytes_max >= BATCH_BYTES[-1]:
            return 0
        return -(-self.size // max(1, self.room))


@dataclass(eq=False)
class Waiting:
    request: Request
    future: asyncio.Future[Appended]
    sender: str
    most: int = 0
    """After a failure, with how many of the same sender it goes at most; 0: with whoever waits."""


@dataclass
class _Group:
    """Each key once, up to a bound."""

    members: list[Waiting] = field(default_factory=list)
    keys: set[bytes] = field(default_factory=set)
    bytes: int = 0
    records: int = 0
    batches: int = 0

    def add(self, waiting: Waiting) -> bool:
        """Whether there was room."""
        request = waiting.request
        after = (
            self.bytes + request.size,
            self.records + len(request.drafts),
            self.batches + request.batches,
        )
        bounds = (GROUP_BYTES_MAX, GROUP_RECORDS_MAX, GROUP_BATCHES_MAX)
        is_over = any(each > most for each, most in zip(after, bounds, strict=True))
        if request.key in self.keys or (self.members and is_over):
            return False
        self.bytes, self.records, self.batches = after
        self.keys.add(request.key)
        self.members.append(waiting)
        return True


class Queue:
    """Those that wait."""

    def __init__(self) -> None:
        self._turns: Turns[Waiting] = Turns()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def put(self, waiting: Waiting) -> None:
        """Raises Overloaded."""
        self._turns.put(waiting.sender, waiting)

    def discard(self, waiting: Waiting) -> None:
        """Its sender waits no more; nothing of it is written where its turn has not come."""
        self._turns.discard(waiting.sender, waiting)

    def next_group(self) -> list[Waiting]:
        senders = self._turns.senders()
        first = self._turns.first(senders[0]) if senders else None
        if first is None:
            return []
        group = _Group()
        if first.most:
            while len(group.members) < first.most and self._went(group, first.sender, True):
                pass
        while senders and not first.most:  # one of each, and again
            senders = [each for each in senders if self._went(group, each, False)]
        return group.members

    def put_back(self, failed: Sequence[Waiting]) -> None:
        """These were written together, and none of them is there."""
        by_sender: dict[str, list[Waiting]] = {}
        for each in failed:
            by_sender.setdefault(each.sender, []).append(each)
        for sender, own in by_sender.items():
            for each in own:
                each.most = len(own) if len(by_sender) > 1 else max(1, len(own) // 2)
            self._turns.put_back(sender, [each for each in own if not each.future.done()])

    def _went(self, group: _Group, sender: str, has_failed: bool) -> bool:
        """Whether the first of this sender's line is now in the group."""
        first = self._turns.first(sender)
        if first is None or bool(first.most) != has_failed or not group.add(first):
            return False
        self._turns.take(sender)
        return True
