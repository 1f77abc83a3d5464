"""The bytes that have come in on one connection, and the frames in them; each `Connection` has one.

Bytes are read straight into one buffer that grows with the frame that is coming in, once the broker's
memory budget has room for it (and beyond 1 MiB never on a client's word alone); a connection that sends
nothing has none. What lies in it is counted, small frames too, of which a part has still to come. A frame is

    size    4 bytes, big-endian, signed; of what follows
    bytes   `size` of them: a request's header and body, or a bare token of SASL
"""

from __future__ import annotations

import mmap
import struct

from headwater.broker.memory import LARGE_BYTES, SMALL_BYTES, Holder, MemoryBudget
from headwater.wire.errors import WireError

BUFFER_BYTES = 32 * 1024
SIZE = struct.Struct(">i")


class FrameBuffer:
    """Unread bytes lie from `_start` to `_end`."""

    __slots__ = ("_data", "_end", "_memory", "_of_stranger", "_reserved", "_start", "since")

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._data: bytearray | mmap.mmap = bytearray()
        self._start = 0
        self._end = 0
        self._reserved = 0
        """Counted for the frame that is coming in."""
        self._of_stranger = False
        self.since = 0.0
        """When its first byte came."""

    def __len__(self) -> int:
        """What is held, whether or not there is something in it."""
        return len(self._data)

    def free(self) -> memoryview:
        """Where the next bytes go: behind the unread ones.

        Of a frame for which the buffer is too small, not a byte more than the frame: so the buffer is
        empty afterwards, and nothing is held that was not asked for.
        """
        if self._start == self._end:
            self._start = self._end = 0
        if not self._data:
            return memoryview(self._memory.next_buffer(BUFFER_BYTES))
        size, whole = len(self._data), self.announced() + 4
        if whole > BUFFER_BYTES:
            if whole > size and (self._end == size or self._start):
                self._grow(whole)
            return memoryview(self._data)[self._end : self._start + whole]
        if self._start and size - self._end < size // 2:
            unread, view = self._end - self._start, memoryview(self._data)
            view[:unread] = view[self._start : self._end]
            self._start, self._end = 0, unread
        return memoryview(self._data)[self._end :]

    def _grow(self, whole: int) -> None:
        """Room for the frame. Of a large one the system gives memory only for what really arrives."""
        unread = self._end - self._start
        fresh = bytearray(whole) if whole <= LARGE_BYTES else mmap.mmap(-1, whole)
        fresh[:unread] = memoryview(self._data)[self._start : self._end]
        self._data, self._start, self._end = fresh, 0, unread

    def filled(self, count: int, now: float) -> None:
        """So many bytes have come."""
        if not self._data:
            self._data, self._memory.spare = self._memory.spare, bytearray()
        if self._start == self._end:
            self.since = now
        self._end += count

    def announced(self) -> int:
        """The size of the request that is coming in, as far as it is known."""
        if self._end - self._start < 4:
            return 0
        size: int = SIZE.unpack_from(self._data, self._start)[0]
        return size

    @property
    def has_size(self) -> bool:
        """Whether enough of a frame is there to know how large it is."""
        return self._end - self._start >= 4

    def take(self, low: int, high: int, setting: str) -> memoryview | None:
        """The next frame, if it is whole. Raises WireError if its size is not within the bounds."""
        (size,) = SIZE.unpack_from(self._data, self._start)
        if not low <= size <= high:
            raise WireError(
                f"a request of {size} bytes ({setting} is {high})"
                f"{_hint(bytes(self._data[self._start : self._start + 4]))}"
            )
        first, end = self._start + 4, self._start + 4 + size
        if end > self._end:
            return None
        self._start = end
        return memoryview(self._data)[first:end]

    def reserve(self, holder: Holder, *, stranger: bool) -> bool:
        """Whether the budget has room for the frame that is coming in; if not, `holder` waits for it. A small
        one has to wait only where the budget is used up. `stranger`: it has not logged in."""
        whole, memory = self.announced() + 4, self._memory
        size = whole if whole > SMALL_BYTES else len(self._data) * (self._end > self._start)
        if size <= self._reserved:
            return True
        before, self._reserved = self._reserved, 0
        memory.release_frame(before, stranger=self._of_stranger)
        if whole > SMALL_BYTES or memory.is_exhausted:
            if not memory.reserve_frame(holder, size, stranger=stranger):
                return False
        else:
            memory.take("logins" if stranger else "frames", size)
        self._reserved, self._of_stranger = size, stranger
        return True

    @property
    def is_awaited(self) -> bool:
        """Whether memory is held for a frame of which a part has still to come."""
        return bool(self._reserved) and self.announced() + 4 > self._end - self._start

    def shrink_if_empty(self) -> None:
        if self._start == self._end and self._data:
            self.clear()

    def clear(self) -> None:
        """Give back the buffer; what is in it is forgotten."""
        if len(self._data) == BUFFER_BYTES and isinstance(self._data, bytearray):
            self._memory.spare = self._data
        self._data, self._start, self._end = bytearray(), 0, 0
        size, self._reserved = self._reserved, 0
        self._memory.release_frame(size, stranger=self._of_stranger)


def _hint(first: bytes) -> str:
    """What a client that does not speak Kafka probably wanted."""
    if first[:2] == b"\x16\x03":
        return "; this looks like TLS, and the listener is plain"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"):
        return "; this looks like HTTP, and the listener speaks Kafka's protocol"
    return ""
