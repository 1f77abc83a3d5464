"""The values of one caller on their way to one partition, batch by batch; pure. `bulk` makes it, and
`bulk_sender` sends its batches and tells it what became of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.client.cluster import TopicPartition
from headwater.edges import payloads
from headwater.edges.idempotency.index import Span
from headwater.edges.payloads import Chunk
from headwater.errors import HeadwaterError

FIRST_WAIT_S, LONGEST_WAIT_S = 0.02, 0.5
_HEAD_BYTES = 100
"""Of a batch, with that of its compressed records."""


class Batch(NamedTuple):
    """As it is sent, and sent again."""

    producer: tuple[int, int]
    sequence: int
    data: bytes


@dataclass(eq=False)
class Call:
    """The values of one caller, on their way to one partition."""

    topic: str
    values: Sequence[bytes]
    batch_bytes_max: int
    place: TopicPartition = ("", -1)
    left: deque[Chunk] = field(default_factory=deque)
    batch: Batch | None = None
    """The next, once it is made."""
    deadline: float = 0.0
    again_at: float = 0.0
    wait_s: float = FIRST_WAIT_S
    first: int = -1
    last: int = -1
    error: HeadwaterError | None = None

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.values))

    @property
    def is_placed(self) -> bool:
        return self.place[1] >= 0

    @property
    def is_halted(self) -> bool:
        """Its batch was not taken, and goes again a little later."""
        return self.again_at > 0 and not self.is_over

    @property
    def is_over(self) -> bool:
        return self.error is not None or (self.is_placed and not self.left)

    def spans(self) -> tuple[Span, ...]:
        return (Span(self.place[1], self.first, self.last, len(self.values)),)

    def placed(self, partition: int) -> None:
        """Where it goes; from now on it has batches."""
        self.place = (self.topic, partition)
        self.left.extend(payloads.chunks(self.values, _room(self.batch_bytes_max)))

    def stored(self, base_offset: int) -> None:
        """Its batch is in the log."""
        count = len(self.left.popleft().values)
        self.first = base_offset if self.first < 0 else self.first
        self.last = base_offset + count - 1
        self._go_on()

    def halve(self) -> None:
        """Its batch was too large: two of half its records take its place."""
        values = self.left.popleft().values
        half = len(values) // 2
        for some in (values[half:], values[:half]):
            self.left.appendleft(Chunk(some, payloads.payload(some)))
        self._go_on()

    def halt(self, now: float) -> None:
        """Its batch was not taken: the same goes again, after longer and longer waits."""
        self.again_at = now + self.wait_s
        self.wait_s = min(self.wait_s * 2, LONGEST_WAIT_S)

    def _go_on(self) -> None:
        self.batch, self.deadline, self.again_at, self.wait_s = None, 0.0, 0.0, FIRST_WAIT_S


def _room(batch_bytes_max: int) -> int:
    """For records in a batch, where they cannot be compressed: LZ4 then adds to them."""
    return max(1, min(payloads.BYTES_MAX, batch_bytes_max - batch_bytes_max // 200 - _HEAD_BYTES))
