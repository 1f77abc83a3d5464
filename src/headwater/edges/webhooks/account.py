"""What of one partition was read, is on its way and was delivered, and what of that the log knows; pure.

Called by `deliverer`. The position is a consumer group's committed offset; what was delivered beyond it
stands in the commit's metadata, as ranges relative to it, in the form of `browse.dead_letters.letter`:

    offset    17                 every record below 17 is delivered
    metadata  ahead:2,5-9        and so are 19 and 22 to 26

    fed ──▶ waiting in its key's line ──▶ ready ──▶ done ──▶ noted: the next of the line is ready

Invariants:
- A record must be ready only when every earlier one of its key is *noted*: whatever process comes after us
  then knows that it was delivered, so a kill can repeat a record but never put one before an earlier one.
- What does not fit into the metadata must not count as noted: its key waits, the others go on.
- At most `WINDOW` records are held; beyond it nothing is read until the oldest is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.browse.dead_letters.letter import MARK

WINDOW = 1000
METADATA_CHARACTERS_MAX = 3500
"""Kafka takes 4,096 bytes (`offset.metadata.max.bytes`)."""
Span = tuple[int, int]
"""Offsets: the first and the last."""


@dataclass(frozen=True)
class Note:
    """What to commit; `offsets` are those of whose delivery it is the first to tell."""

    position: int
    metadata: str
    offsets: tuple[int, ...]


class Account:
    """One partition. `position` and `metadata` as they were committed."""

    def __init__(self, position: int, metadata: str | None = None) -> None:
        self._spans = spans_of(position, metadata)
        self._next = position
        self._noted_position = position
        self._held: dict[int, _Held] = {}
        """In order of offsets; the first is not done, unless it is not noted yet."""
        self._lines: dict[bytes | None, deque[int]] = {}
        self._ready: deque[int] = deque()
        self._fresh: set[int] = set()
        """Done, not noted."""

    @property
    def is_full(self) -> bool:
        return len(self._held) >= WINDOW

    @property
    def has_news(self) -> bool:
        """Whether something is done that is not noted."""
        return bool(self._fresh)

    @property
    def position(self) -> int:
        """The first offset that is not done."""
        return next((at for at, held in self._held.items() if not held.is_done), self._next)

    def feed(self, offset: int, key: bytes | None, *, wanted: bool = True) -> bool:
        """The next record. False: there is nothing to deliver, as it was before, or is not `wanted`."""
        assert offset >= self._next, "records come in order"
        self._next = offset + 1
        if self._was_done(offset):
            self._held[offset] = _Held(key, is_done=True, is_noted=True)
            return False
        self._held[offset] = _Held(key)
        if not wanted:
            self._held[offset].is_done = True
            self._fresh.add(offset)
            return False
        line = self._lines.setdefault(key, deque())
        line.append(offset)
        if len(line) == 1:
            self._ready.append(offset)
        return True

    def take(self) -> int | None:
        """An offset that may be delivered now; each is handed out once."""
        return self._ready.popleft() if self._ready else None

    def done(self, offset: int) -> None:
        """Delivered, or put away for good."""
        self._held[offset].is_done = True
        self._fresh.add(offset)

    def note(self) -> Note | None:
        """What to commit; None where that would tell nothing new."""
        position = self.position
        metadata, last = _written(position, self._ahead(position))
        told = tuple(each for each in self._fresh if each < position or each <= last)
        if not told and position == self._noted_position:
            return None
        return Note(position, metadata, told)

    def noted(self, note: Note) -> None:
        """The note is committed: lines whose first is told of go on."""
        self._noted_position = note.position
        for offset in note.offsets:
            self._fresh.discard(offset)
            held = self._held[offset]
            held.is_noted = True
            line = self._lines.get(held.key)
            if line and line[0] == offset:
                line.popleft()
                if line:
                    self._ready.append(line[0])
                else:
                    del self._lines[held.key]
        while self._held:
            offset, held = next(iter(self._held.items()))
            if offset >= note.position or not held.is_noted:
                break
            del self._held[offset]

    def _ahead(self, position: int) -> Iterator[Span]:
        """Done beyond the position. Between two records that follow each other nothing is left out."""
        first = last = None
        for offset, held in self._held.items():
            if offset < position:
                continue
            if held.is_done:
                first, last = (offset if first is None else first), offset
            elif first is not None and last is not None:
                yield first, last
                first = None
        if first is not None and last is not None:
            yield first, last
        # After a restart, before these are read again.
        yield from ((max(a, self._next), b) for a, b in self._spans if b >= self._next)

    def _was_done(self, offset: int) -> bool:
        while self._spans and self._spans[0][1] < offset:
            self._spans.pop(0)
        return bool(self._spans) and self._spans[0][0] <= offset


@dataclass(slots=True)
class _Held:
    key: bytes | None
    is_done: bool = False
    is_noted: bool = False


def spans_of(position: int, metadata: str | None) -> list[Span]:
    """What was committed beside a position. Metadata that is not ours says nothing."""
    if not metadata or not metadata.startswith(MARK):
        return []
    spans = []
    try:
        for part in metadata.removeprefix(MARK).split(","):
            first, _, last = part.partition("-")
            spans.append((position + int(first), position + int(last or first)))
    except ValueError:
        return []
    return spans


def _written(position: int, spans: Iterable[Span]) -> tuple[str, int]:
    """As many of the first spans as fit, and the last offset that they hold."""
    text, last = "", -1
    for first, end in spans:
        more = f"{first - position}" if first == end else f"{first - position}-{end - position}"
        longer = f"{text},{more}" if text else MARK + more
        if len(longer) > METADATA_CHARACTERS_MAX:
            break
        text, last = longer, end
    return text, last
