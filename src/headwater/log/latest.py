"""Which record of each key is the newest: the first pass of compaction.

`compactor.compact` adds the dirty batches of a log in order, seals the map, and asks for every batch
in the second pass what is left of it. Keys are held as they are, not as hashes, so that two keys are
never taken for one; what they cost is bounded, and when the bound is reached the rest of the log
waits for the next compaction.

Everything here counts records by their number in the batch, and not by their offset, where the
number is enough: numbers need no decoding.
"""

from __future__ import annotations

from bisect import bisect_left

from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import BatchHeader, Buffer
from headwater.record.errors import CorruptBatch
from headwater.record.keys import each_key

KEY_BYTES_MAX = 128 * 1024**2
"""As Kafka's log.cleaner.dedupe.buffer.size."""
_ENTRY_BYTES = 150
"""What a key costs beside its own bytes: two objects, their place in the map, and in `seal`."""
_TOMBSTONES_MIN = 10_000
"""Beyond this, and twice as many as there are keys, those that are not the newest any more are dropped."""
_INT64_MIN = -(1 << 63)


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


def payload_of(header: BatchHeader, batch: Buffer) -> bytes:
    """The records, uncompressed; a batch that has none may have any codec."""
    return bytes(batches.payload(batch)) if header.record_count else b""


def offsets_of(header: BatchHeader, batch: Buffer) -> range | list[int]:
    """The offset of each record; where none is missing, they need not be read."""
    if header.record_count == header.last_offset_delta + 1:
        return range(header.base_offset, header.next_offset)
    return [offset for offset, _, _ in each_key(batch)]


def read_keys(payload: bytes, count: int) -> tuple[list[bytes | None], list[int]]:
    """The key of each record, and the numbers of those without a value. Raises CorruptBatch.

    This is where compaction spends its time, so it is one loop, and offsets are skipped.
    """
    keys: list[bytes | None] = []
    without_value: list[int] = []
    append = keys.append
    position, end = 0, len(payload)
    key: bytes | None
    try:
        for number in range(count):
            length = payload[position]
            position += 1
            if length > 127:
                more = payload[position]
                if more > 127:
                    length, position = varint.read(payload, position - 1, end)
                else:
                    length += (more << 7) - 128
                    position += 1
            record_end = position + (length >> 1)
            position += 1
            while payload[position] > 127:  # the timestamp
                position += 1
            position += 1
            while payload[position] > 127:  # the offset
                position += 1
            position += 1
            length = payload[position]
            position += 1
            if length > 127:
                length, position = varint.read(payload, position - 1, end)
            if length & 1:
                key = None
            else:
                start = position
                position += length >> 1
                key = payload[start:position]
            append(key)
            if payload[position] & 1:  # an odd length is negative: no value
                without_value.append(number)
            if position >= record_end:
                raise CorruptBatch(f"a record's fields reach beyond its end at byte {record_end}")
            position = record_end
    except IndexError:
        raise CorruptBatch("the records break off") from None
    if position != end:
        raise CorruptBatch(f"{count} records do not end where the batch ends")
    return keys, without_value


def pick(payload: bytes, kept: list[int]) -> tuple[bytes, int]:
    """The records of these numbers, byte for byte, and the largest of their timestamp deltas.

    For payloads that `read_keys` has accepted: goes from length to length.
    """
    pieces: list[bytes] = []
    largest = _INT64_MIN
    number = start = body = position = 0
    end = len(payload)
    for wanted in kept:
        while number <= wanted:
            start = position
            length = payload[position]
            position += 1
            if length > 127:
                more = payload[position]
                if more > 127:
                    length, position = varint.read(payload, position - 1, end)
                else:
                    length += (more << 7) - 128
                    position += 1
            body = position
            position += length >> 1
            number += 1
        pieces.append(payload[start:position])
        delta = payload[body + 1]  # after the attributes
        if delta > 127:
            delta, _ = varint.read(payload, body + 1, end, 10)
        delta = (delta >> 1) ^ -(delta & 1)
        if delta > largest:
            largest = delta
    return b"".join(pieces), largest
