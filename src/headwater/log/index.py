"""The sparse indexes of a segment: offset → place in the file, and time → offset.

Kept in memory in exactly the form of their files, so that loading and saving is a copy. Segments look
things up here for every fetch and every lookup by time.

.index      entry of 8 bytes:  last offset of a batch - base_offset int32 | its file_position int32
.timeindex  entry of 12 bytes: timestamp int64 | offset - base_offset int32

Both must grow strictly in their first field (`.index` in both fields). Entries that do not are what a
crash left behind: `load` cuts there.
"""

from __future__ import annotations

import struct
from bisect import bisect_right

OFFSETS_MAX = 2**31 - 1
"""Of one segment: its indexes count from the base offset."""
INTERVAL_BYTES_MAX = 64 * 1024
"""Between two entries, whatever the configuration says, if there are batches between them: from one on a
reader goes from batch to batch, of which so many bytes hold a thousand."""
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class OffsetIndex:
    """Sparse map from the last offset of a batch to the file position where the batch starts."""

    __slots__ = ("base_offset", "data")
    entry_bytes = _OFFSET_ENTRY.size

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        self.base_offset = base_offset
        self.data = bytearray(data)

    @classmethod
    def load(cls, base_offset: int, data: bytes, file_size: int) -> OffsetIndex:
        """From a file; entries after the first implausible one are dropped."""
        last_offset, last_position, good = -1, 0, 0  # the first batch of a segment is never indexed
        whole = data[: len(data) - len(data) % cls.entry_bytes]
        for offset, position in _OFFSET_ENTRY.iter_unpack(whole):
            if offset <= last_offset or position <= last_position or position >= file_size:
                break
            last_offset, last_position = offset, position
            good += cls.entry_bytes
        return cls(base_offset, data[:good])

    def __len__(self) -> int:
        return len(self.data) // self.entry_bytes

    def add(self, offset: int, file_position: int) -> None:
        self.data += _OFFSET_ENTRY.pack(offset - self.base_offset, file_position)

    def entry(self, number: int) -> tuple[int, int]:
        offset, position = _OFFSET_ENTRY.unpack_from(self.data, number * self.entry_bytes)
        return offset + self.base_offset, position

    def floor(self, offset: int) -> tuple[int, int]:
        """The last entry at or before `offset`: no batch before its position has `offset` or more.

        The segment's start where there is none.
        """
        number = bisect_right(range(len(self)), offset, key=lambda n: self.entry(n)[0])
        return self.entry(number - 1) if number else (self.base_offset, 0)

    def floor_position(self, file_position: int) -> tuple[int, int]:
        """The last entry at or before a place in the file."""
        number = bisect_right(range(len(self)), file_position, key=lambda n: self.entry(n)[1])
        return self.entry(number - 1) if number else (self.base_offset, 0)

    def extend(self, other: OffsetIndex, file_position: int) -> None:
        """Take over what another one has from `file_position` on."""
        for number in range(len(other)):
            offset, position = other.entry(number)
            if position >= file_position:
                self.add(offset, position)

    def truncate(self, file_position: int) -> None:
        """Forget what points at or behind `file_position`."""
        while self.data and self.entry(len(self) - 1)[1] >= file_position:
            del self.data[-self.entry_bytes :]


class TimeIndex:
    """Sparse map from "no later than this timestamp" to the offset that has it."""

    __slots__ = ("base_offset", "data")
    entry_bytes = _TIME_ENTRY.size

    def __init__(self, base_offset: int, data: bytes = b"") -> None:
        self.base_offset = base_offset
        self.data = bytearray(data)

    @classmethod
    def load(cls, base_offset: int, data: bytes, next_offset: int) -> TimeIndex:
        last_timestamp, last_offset, good = -1, -1, 0
        whole = data[: len(data) - len(data) % cls.entry_bytes]
        for timestamp, offset in _TIME_ENTRY.iter_unpack(whole):
            # Kafka repeats the last entry when it closes a segment: equal offsets are fine.
            if timestamp < last_timestamp or offset < last_offset:
                break
            if base_offset + offset >= next_offset:
                break
            last_timestamp, last_offset = timestamp, offset
            good += cls.entry_bytes
        return cls(base_offset, data[:good])

    def __len__(self) -> int:
        return len(self.data) // self.entry_bytes

    def add(self, timestamp: int, offset: int) -> None:
        """Ignored unless it is later than the last entry."""
        if timestamp > self.last()[0]:
            self.data += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)

    def entry(self, number: int) -> tuple[int, int]:
        timestamp, offset = _TIME_ENTRY.unpack_from(self.data, number * self.entry_bytes)
        return timestamp, offset + self.base_offset

    def last(self) -> tuple[int, int]:
        return self.entry(len(self) - 1) if self.data else (-1, self.base_offset)

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) before whose offset no record is as late as `timestamp`; None: there is none
        but the segment's start."""
        # Every record up to an entry's offset is no later than the entry's timestamp, so the search
        # may begin at the last entry that is strictly earlier.
        number = bisect_right(range(len(self)), timestamp - 1, key=lambda n: self.entry(n)[0])
        return self.entry(number - 1) if number else None

    def extend(self, other: TimeIndex, next_offset: int) -> None:
        """Take over what another one has from `next_offset` on."""
        for number in range(len(other)):
            timestamp, offset = other.entry(number)
            if offset >= next_offset:
                self.add(timestamp, offset)

    def truncate(self, next_offset: int) -> None:
        while self.data and self.last()[1] >= next_offset:
            del self.data[-self.entry_bytes :]
