"""Which record of each key is the newest: the first pass of compaction.

`compactor.compact` adds the dirty batches of a log in order, seals the map, and asks for every batch
in the second pass what is left of it. Keys are held as they are, not as hashes, so that two keys are
never taken for one; what they cost is bounded, and when the bound is reached the rest of the log
waits for the next compaction.
"""

from __future__ import annotations

from bisect import bisect_left

from headwater.record.batch import BatchHeader, Buffer
from headwater.record.keys import offsets_of, payload_of, read_keys

KEY_BYTES_MAX = 128 * 1024**2
"""As Kafka's log.cleaner.dedupe.buffer.size."""
_ENTRY_BYTES = 150
"""What a key costs beside its own bytes: two objects, their place in the map, and in `seal`."""
_TOMBSTONES_MIN = 10_000
"""Beyond this, and twice as many as there are keys, those that are not the newest any more are dropped."""


class Latest:
    """Key → offset of its newest record, in the part of the log that was added."""

    def __init__(self, key_bytes_max: int = KEY_BYTES_MAX) -> None:
        self.offsets: dict[bytes | None, int] = {}
        self._key_bytes_max = key_bytes_max
        self._key_bytes = 0
        self._without_value: set[int] = set()
        """Offsets of tombstones: of all that are the newest of their keys, and of some that are not."""
        self._alive: list[int] = []

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_full(self) -> bool:
        """Never before it has a key: however little room there is, each compaction gets further."""
        if not self.offsets:
            return False
        return self._key_bytes + len(self.offsets) * _ENTRY_BYTES >= self._key_bytes_max

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Take note of a batch that follows on those before it."""
        keys, without_value = read_keys(payload_of(header, batch), header.record_count)
        offsets = offsets_of(header, batch)
        # Each for itself: one long key among many short ones would hide in their average.
        self._key_bytes += sum(map(len, filter(None, set(keys).difference(self.offsets))))
        self.offsets.update(zip(keys, offsets, strict=True))
        if without_value:
            self._without_value.update(offsets[number] for number in without_value)
            if len(self._without_value) > 2 * len(self.offsets) + _TOMBSTONES_MIN:
                self._without_value.intersection_update(self.offsets.values())

    def seal(self) -> None:
        """No more batches will come; needed before `alive`."""
        self.offsets.pop(None, None)  # a record without a key cannot be the newest of anything
        self._alive = sorted(self.offsets.values())

    def alive(self, first_offset: int, next_offset: int) -> list[int]:
        """The offsets in [first, next) at which a key has its newest record."""
        start = bisect_left(self._alive, first_offset)
        return self._alive[start : bisect_left(self._alive, next_offset, start)]

    def is_tombstone(self, offset: int) -> bool:
        return offset in self._without_value

    def has_any(self, keys: list[bytes | None]) -> bool:
        """Whether at least one of these keys has a newer record in the map."""
        return not self.offsets.keys().isdisjoint(keys)
