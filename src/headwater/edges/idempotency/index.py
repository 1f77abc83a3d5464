"""What was appended under which key, for a window of time: the form of an entry, and the index of them; pure.

Called by `writer`. An entry is a record of the topic `__headwater_NAME_keys`:

    key        the key, as text: scope|key
    value      JSON: digest (of what was sent, or empty), topic, spans ([partition, first, last, records], …)
    timestamp  when; after the window it counts no more

Invariants: an entry must be written in the transaction of the records that it tells of. A key must have at
most one entry within the window.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from headwater.client.publisher import Stored
from headwater.edges.caller import HOOK

TIDY_MS = 1_000
BYTES_MOST = 384 * 1024**2
"""A million of a request in a few partitions; of one in a thousand an entry is a hundred times as long."""
KEY_BYTES = 200
"""Of one in memory, beside its entry."""
_MOMENT_BYTES = 8


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


class KeyIndex:
    """Keys of the last `window_ms`, of those `most`, in `bytes_most`; kept as bytes, for there may be many.

    Where there is no room, whoever has the most loses his oldest: nobody makes others' keys forgotten.
    """

    def __init__(self, window_ms: int, most: int, bytes_most: int = BYTES_MOST) -> None:
        self.window_ms, self._most, self._bytes_most = window_ms, most, bytes_most
        self._of: dict[bytes, dict[bytes, bytes]] = {}
        """By owner and digest of the key, of each the oldest first: when, and the entry."""
        self._bytes_of: Counter[bytes] = Counter()
        self._greediest: bytes | None = None
        self._count = self._bytes = 0
        self._tidied_ms: int | None = None
        self.forgotten_early = 0
        """Keys that would have counted still, had there been room."""

    def __len__(self) -> int:
        return self._count

    def get(self, key: bytes, now_ms: int) -> Entry | None:
        found = self._of.get(owner_of(key), {}).get(_digest(key))
        if found is None or _moment(found) + self.window_ms <= now_ms:
            return None
        return Entry.from_json(found[_MOMENT_BYTES:])

    def put(self, key: bytes, value: bytes, at_ms: int) -> None:
        owner, name = owner_of(key), _digest(key)
        if name in self._of.get(owner, {}):
            self._forget(owner, name)  # to the end: the oldest come first
        kept = max(0, at_ms).to_bytes(_MOMENT_BYTES) + value
        self._of.setdefault(owner, {})[name] = kept
        self._counted(owner, 1, kept)
        while self._count > self._most or self._bytes > self._bytes_most:
            if self._greediest != owner:  # another's key may be the one too many: look again
                self._greediest = max(self._of, key=self._bytes_of.__getitem__)
            self._forget(self._greediest)
            self.forgotten_early += 1

    def tidy(self, now_ms: int) -> None:
        """Forget those whose time is over; looked at once a second."""
        if self._tidied_ms is not None and now_ms - self._tidied_ms < TIDY_MS:
            return
        self._tidied_ms = now_ms
        for owner, own in list(self._of.items()):
            while own and _moment(next(iter(own.values()))) + self.window_ms <= now_ms:
                self._forget(owner)

    def clear(self) -> None:
        self._of.clear()
        self._bytes_of.clear()
        self._greediest, self._count, self._bytes = None, 0, 0

    def _forget(self, owner: bytes, name: bytes | None = None) -> None:
        """None: his oldest."""
        own = self._of[owner]
        self._counted(owner, -1, own.pop(next(iter(own)) if name is None else name))
        if not own:
            del self._of[owner], self._bytes_of[owner]
            self._greediest = None

    def _counted(self, owner: bytes, sign: int, kept: bytes) -> None:
        size = sign * (len(kept) + KEY_BYTES)
        self._count += sign
        self._bytes += size
        self._bytes_of[owner] += size


def _digest(key: bytes) -> bytes:
    """Of a length that its sender does not choose."""
    return hashlib.blake2b(key, digest_size=16).digest()


def _moment(kept: bytes) -> int:
    return int.from_bytes(kept[:_MOMENT_BYTES])


def owner_of(key: bytes) -> bytes:
    """Whose it is: a token's, a principal's, a bridge's; a hook's stands behind the word for hooks."""
    first, _, rest = key.partition(b"|")
    return first if first != HOOK.encode() else first + b"|" + rest.partition(b"|")[0]
