"""One dead letter: a record as it was, with headers that say where it came from and why it is here.

Works on headwater's topics and on Apache Kafka's. The headers are listed in docs/queues.md; a record
without them is no dead letter, and is passed over.

Also here: which letters of a partition were dealt with: everything below a position, and some ahead of
it; pure.

Kept as the committed offset of the topic's own group, so that it is written in one transaction with the
letters that are sent. What lies ahead stands in the commit's metadata, as ranges relative to the position:

    offset    17                 every letter below 17 is done
    metadata  ahead:2,5-9        and so are 19 and 22 to 26

Kafka bounds metadata (4,096 bytes by default): what would not fit must be refused, never cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.record import dead_letter

if TYPE_CHECKING:
    from headwater.client.librdkafka import Message


@dataclass(frozen=True)
class Letter:
    """Where it lies, where it came from, and why; `key`, `value` and `headers` are the record's own."""

    partition: int
    offset: int
    timestamp_ms: int
    source: str
    source_partition: int
    source_offset: int
    group: str
    deliveries: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    said: Mapping[str, str] = field(default_factory=dict)
    """Whatever else was noted: the refused row, the batch, the view's position."""

    @property
    def has_source(self) -> bool:
        """False for a row that came from no single record (an aggregate)."""
        return bool(self.source) and self.source_partition >= 0

    @property
    def is_cut(self) -> bool:
        """It was too large to be kept as a whole."""
        return dead_letter.is_cut(self.said)


def letter_of(message: Message) -> Letter | None:
    """None for a record that is no dead letter."""
    headers: list[tuple[str, Any]] = list(message.headers() or [])  # type: ignore[arg-type]
    cause = dead_letter.cause_of(headers)
    if cause is None:
        return None
    return Letter(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        cause.topic,
        cause.partition,
        cause.offset,
        cause.group,
        cause.deliveries or 0,
        cause.reason,
        message.key(),
        message.value(),
        dead_letter.own_headers(headers),
        cause.more,
    )


MARK = "ahead:"
METADATA_CHARACTERS_MAX = 4000


@dataclass(frozen=True)
class Handled:
    """`position`: all below is done; `ahead`: offsets above it that are done, too."""

    position: int
    ahead: frozenset[int] = frozenset()

    def __contains__(self, offset: int) -> bool:
        return offset < self.position or offset in self.ahead

    def moved(self, position: int) -> Handled:
        """The same, where everything below `position` is known to be done."""
        position = max(position, self.position)
        return Handled(position, frozenset(each for each in self.ahead if each >= position))

    def with_also(self, offsets: Iterable[int]) -> Handled:
        more = frozenset(each for each in offsets if each >= self.position)
        return Handled(self.position, self.ahead | more)

    def metadata(self) -> str:
        """What to commit beside the position; empty where nothing lies ahead."""
        parts = [
            str(first) if first == last else f"{first}-{last}"
            for first, last in _ranges(sorted(each - self.position for each in self.ahead))
        ]
        return MARK + ",".join(parts) if parts else ""

    @property
    def fits(self) -> bool:
        return len(self.metadata()) <= METADATA_CHARACTERS_MAX


def handled(position: int, metadata: str | None) -> Handled:
    """What was committed. Metadata that is not ours says nothing."""
    if not metadata or not metadata.startswith(MARK):
        return Handled(position)
    ahead: set[int] = set()
    try:
        for part in metadata.removeprefix(MARK).split(","):
            first, _, last = part.partition("-")
            ahead.update(range(position + int(first), position + int(last or first) + 1))
    except ValueError:
        return Handled(position)
    return Handled(position, frozenset(ahead))


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = number
    if first is not None and last is not None:
        yield first, last
