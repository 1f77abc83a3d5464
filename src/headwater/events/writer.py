"""An owner's pen: batches under its claim, in sequence; and what is on its way.

Used by `Owner` only. `void` makes everything that was sent count no more: answers to it are not heard, and
whether it arrived is what the log says after the next claim.

Also here: keys and values to a record batch, quickly: what `record.builder` does, for the one case that
owners have.

All records have one time, no headers, and offsets that rise by one. The layout is in `record.records` and
`record.batch`; tests compare the two byte by byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from headwater.events.answers import Answer
from headwater.events.claim import Claim
from headwater.events.ledger import Draft
from headwater.events.line import Line
from headwater.events.produce import Stored
from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import BatchHeader

logger = logging.getLogger("headwater.events")
Answered = Callable[[Answer | BaseException], None]


def tell(answered: Answered, outcome: Answer | BaseException) -> None:
    """One that cannot be told keeps nobody else from being told."""
    try:
        answered(outcome)
    except Exception:
        logger.exception("one answer could not be given; all others are")


class Flight:
    """A draft on its way, or snapshots; it has landed when all its batches are acknowledged."""

    __slots__ = ("answers_sent", "draft", "left", "waiting", "watched")

    def __init__(self, draft: Draft, waiting: list[Answered]) -> None:
        self.draft = draft
        self.waiting = waiting
        self.watched: list[asyncio.Future[bool]] = []
        """Told whether it came through, by those who look at the state."""
        self.left = 0
        """Batches that are not acknowledged yet."""
        self.answers_sent = False

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
        data = pack(found, at_ms, identity.producer_id, identity.epoch, sequence)
        generation = self._generation

        def stored(found: Stored) -> None:
            if generation == self._generation:
                done(found)

        self._lines[topic].produce(topic, self._partition, data, stored)


_SMALL = [varint.encode(n) for n in range(4096)]
"""Nearly all numbers in a batch are small: looked up, not spelled."""
_NONE = varint.encode(-1)


def _spell(number: int) -> bytes:
    return _SMALL[number] if number < 4096 else varint.encode(number)


def pack(
    found: Sequence[tuple[bytes, bytes | None]],
    at_ms: int,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> bytes:
    """A whole batch of these records; one without a value is a tombstone."""
    parts: list[bytes] = []
    small, spell = _SMALL, _spell
    for n, (key, value) in enumerate(found):
        number, key_size = spell(n), spell(len(key))
        value_size, value = (_NONE, b"") if value is None else (spell(len(value)), value)
        # Attributes, and the difference in time: one byte each, zero; so is the number of headers.
        size = 3 + len(number) + len(key_size) + len(key) + len(value_size) + len(value)
        parts += (
            small[size] if size < 4096 else spell(size),
            *(b"\0\0", number, key_size, key, value_size, value, b"\0"),
        )
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=len(found) - 1,
        base_timestamp=at_ms,
        max_timestamp=at_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=len(found),
    )
    return batches.pack(header, b"".join(parts))
