"""An owner's pen: batches under its claim, in sequence; and what is on its way.

Used by `Owner` only. `void` makes everything that was sent count no more: answers to it are not heard, and
whether it arrived is what the log says after the next claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from headwater.events import packing
from headwater.events.answers import Answer
from headwater.events.claim import Claim
from headwater.events.ledger import Draft
from headwater.events.line import Line, Stored

Answered = Callable[[Answer | BaseException], None]


class Flight:
    """A draft on its way, or snapshots; done when all its batches are acknowledged."""

    __slots__ = ("done", "draft", "left", "waiting", "watched")

    def __init__(self, draft: Draft, waiting: list[Answered]) -> None:
        self.draft = draft
        self.waiting = waiting
        self.watched: list[asyncio.Future[bool]] = []
        """Told whether it came through, by those who look at the state."""
        self.left = 0
        self.done = False

    def tell(self, came_through: bool) -> None:
        for watching in self.watched:
            if not watching.done():
                watching.set_result(came_through)


class Writing:
    """To one partition, of the topics that its owner writes."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._claim: Claim | None = None
        self._lines: Mapping[str, Line] = {}
        self._sequences: dict[str, int] = {}
        self._generation = 0

    def begin(self, claim: Claim, lines: Mapping[str, Line]) -> None:
        """Write under this claim; its own batch in each topic had number 0."""
        self.void()
        self._claim, self._lines = claim, lines
        self._sequences = dict.fromkeys(claim.leaders, 1)

    def void(self) -> None:
        self._generation += 1

    def produce(
        self,
        topic: str,
        found: Sequence[tuple[bytes, bytes | None]],
        at_ms: int,
        done: Callable[[Stored], None],
    ) -> None:
        """Send these records; `done` is called with what became of them, unless it counts no more."""
        assert self._claim is not None, "begin() comes first"
        identity, sequence = self._claim.identity, self._sequences[topic]
        self._sequences[topic] = (sequence + len(found)) % (1 << 31)
        data = packing.pack(found, at_ms, identity.producer_id, identity.epoch, sequence)
        generation = self._generation

        def stored(found: Stored) -> None:
            if generation == self._generation:
                done(found)

        self._lines[topic].produce(topic, self._partition, data, stored)
