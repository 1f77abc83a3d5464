"""What was appended under which key, for a window of time: the form of an entry, and the index of them; pure.

Called by `once_writer`. An entry is a record of the topic `__headwater_NAME_keys`:

    key        the key, as text: scope|key
    value      JSON: digest (of what was sent, or empty), topic, spans ([partition, first, last, records], …)
    timestamp  when; after the window it counts no more

Invariants: an entry must be written in the transaction of the records that it tells of. A key must have at
most one entry within the window.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from headwater.client.publisher import Stored


class Span(NamedTuple):
    """Records of one request in one partition; others' records may lie between the first and the last."""

    partition: int
    first: int
    last: int
    records: int


class Entry(NamedTuple):
    """What is known of a key."""

    digest: str
    topic: str
    spans: tuple[Span, ...]

    def to_json(self) -> bytes:
        said = {"digest": self.digest, "topic": self.topic, "spans": self.spans}
        return json.dumps(said, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Entry:
        """Raises ValueError."""
        try:
            said = json.loads(text)
            spans = tuple(Span(*map(int, each)) for each in said["spans"])
            return cls(str(said["digest"]), str(said["topic"]), spans)
        except (TypeError, KeyError) as error:
            raise ValueError(f"{text[:100]!r} is no entry of a key") from error


def spans_of(places: Iterable[Stored]) -> tuple[Span, ...]:
    """By partition."""
    found: dict[int, list[int]] = {}
    for partition, offset in places:
        span = found.get(partition)
        if span is None:
            found[partition] = [offset, offset, 1]
        else:
            if offset > span[1]:
                span[1] = offset
            elif offset < span[0]:
                span[0] = offset
            span[2] += 1
    return tuple(Span(number, *found[number]) for number in sorted(found))


class Remembered:
    """Keys of the last `window_ms`, and of those the newest `most`; kept as bytes, for there may be many."""

    def __init__(self, window_ms: int, most: int) -> None:
        self.window_ms, self._most = window_ms, most
        self._entries: dict[bytes, tuple[int, bytes]] = {}
        self.forgotten_early = 0
        """Keys that would have counted still, had there been room."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes, now_ms: int) -> Entry | None:
        found = self._entries.get(key)
        if found is None or found[0] + self.window_ms <= now_ms:
            return None
        return Entry.from_json(found[1])

    def put(self, key: bytes, value: bytes, at_ms: int) -> None:
        self._entries.pop(key, None)  # to the end: the oldest come first
        self._entries[key] = (at_ms, value)
        while len(self._entries) > self._most:
            del self._entries[next(iter(self._entries))]
            self.forgotten_early += 1

    def tidy(self, now_ms: int) -> None:
        """Forget those whose time is over."""
        while self._entries:
            oldest = next(iter(self._entries))
            if self._entries[oldest][0] + self.window_ms > now_ms:
                return
            del self._entries[oldest]

    def clear(self) -> None:
        self._entries.clear()
