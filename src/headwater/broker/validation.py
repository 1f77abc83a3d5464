"""Checking what producers send without making anybody else wait.

Produce hands over each request before anything of it is staged. Every record is looked at (`record`'s
`validate`), and compressed ones must be decompressed for that: what is little is done at once, the rest
in threads of its own, because a few kilobytes may become many megabytes. Bounds, per batch and request:

    at once     200 batches of 4 MiB together, of which four with 8 KiB are compressed, or are to be,
                and become 256 KiB each; 20,000 records, 20,000 headers
    in threads  64 MiB of records in a batch, 256 MiB in a request; and a batch grows by no more than
                1,000 times, unless that is below 4 MiB (gzip and lz4 cannot do more, zstd could); two
                million records and headers in a request; 32 MiB of batches that the topic wants
                compressed otherwise, as they then are

What goes beyond is refused with MESSAGE_TOO_LARGE: a client may split its batch and try again. While a
request is being checked, its connection starts no other one, so that a producer's batches are stored in
the order in which they came.

What the decompressed records may take counts in the memory budget, from when a thread begins with them:
those that wait for one have nothing yet. Together they have half of the budget, or one of them what it
needs, and between two of these whoever waits for memory gets some: requests that become very large keep
nobody else's out. Addresses take turns.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from headwater.broker.memory import MemoryBudget
from headwater.broker.schema_check import SchemaCheck
from headwater.fair_queue import Circle, network
from headwater.log.append import prepare, stored_codec
from headwater.log.config import LogConfig
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.claims import RECORD_BYTES_MIN
from headwater.record.errors import PayloadTooLarge, RecordError
from headwater.record.validate import HEADERS_MAX
from headwater.record.varint import Buffer

T = TypeVar("T")

THREADS = 2
AT_ONCE_BATCHES_MAX = 200
AT_ONCE_BYTES_MAX = 4 * 1024**2
AT_ONCE_COMPRESSED_MAX = 4
AT_ONCE_COMPRESSED_BYTES_MAX = 8 * 1024
AT_ONCE_ELEMENTS_MAX = 40_000
AT_ONCE_PAYLOAD_BYTES_MAX = 256 * 1024
AT_ONCE_RECORDS_MAX = 20_000
BATCH_PAYLOAD_BYTES_MAX = 64 * 1024**2
REQUEST_PAYLOAD_BYTES_MAX = 256 * 1024**2
ELEMENTS_MAX = 2_000_000
"""Records and their headers, of a request: each is a step of work."""
GROWN_BYTES_MAX = 32 * 1024**2
RATIO_MAX = 1000
RATIO_FREE_BYTES = 4 * 1024**2
COPIES = 2
"""For a moment a payload is held twice: in pieces or a longer buffer, and as a whole."""
_CODEC_AT, _COUNT_AT = 22, 57

Checked = tuple[Buffer, BatchHeader] | RecordError
"""The batch as it is to be stored, or what is wrong with it."""
_Turn = tuple[asyncio.Future[None], int]  # what a request waits for, and the memory it may take


class Candidate(NamedTuple):
    """A batch on its way into a partition."""

    data: bytes
    config: LogConfig
    now_ms: int
    schemas: SchemaCheck | None = None
    """Of a topic with `schema.validation=true`: always in a thread, as it may read `_schemas`."""


class Validation:
    """The broker's threads for checking, and the decision who needs them."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._threads = ThreadPoolExecutor(THREADS, "headwater-check")
        self._waiting: Circle[_Turn] = Circle()
        self._running = 0
        self._payload_bytes = 0

    def close(self) -> None:
        self._threads.shutdown()

    def at_once(self, candidates: Sequence[Candidate]) -> list[Checked] | None:
        """What became of each, if that is little work; None: `check` them."""
        if not is_little(candidates):
            return None
        bounds = Bounds(AT_ONCE_PAYLOAD_BYTES_MAX * AT_ONCE_COMPRESSED_MAX, AT_ONCE_ELEMENTS_MAX)
        checked: list[Checked] = []
        for each in candidates:
            checked.append(bounds.checked(each, AT_ONCE_PAYLOAD_BYTES_MAX))
            if isinstance(checked[-1], PayloadTooLarge):
                return None
        return checked

    async def check(
        self, candidates: Sequence[Candidate], bounds: Bounds, address: str
    ) -> list[Checked]:
        """The same, in a thread, in the turn of its address; takes from the bounds of their request."""
        size = _held(candidates)
        await self._turn(network(address), size)
        try:
            return await asyncio.wrap_future(self._threads.submit(check_all, candidates, bounds))
        finally:
            self._end(size)

    async def _turn(self, address: str, size: int) -> None:
        mine: _Turn = (asyncio.get_running_loop().create_future(), size)
        self._waiting.add(address, mine, size)
        self._begin_next()
        try:
            await mine[0]
        except asyncio.CancelledError:
            if not self._waiting.discard(address, mine) and not mine[0].cancelled():
                self._end(size)  # it had begun
            raise

    def _begin_next(self) -> None:
        """As many as there are threads and there is memory for."""
        while self._waiting and self._running < THREADS:
            turn, size = self._waiting.first
            limit = self._memory.limit // 2
            if self._running and 0 <= limit < self._payload_bytes + size:
                return
            self._waiting.take()
            if turn.cancelled():
                continue
            self._running += 1
            self._payload_bytes += size
            self._memory.take("payloads", size)
            turn.set_result(None)

    def _end(self, size: int) -> None:
        self._running -= 1
        self._payload_bytes -= size
        self._memory.release("payloads", size)  # whoever waits for room comes before the next check
        self._begin_next()

    def run(self, function: Callable[[], T]) -> Future[T]:
        """Other work on strangers' compressed bytes."""
        return self._threads.submit(function)


def is_little(candidates: Sequence[Candidate]) -> bool:
    """Whether checking these takes a few milliseconds at most, as far as their headers are true."""
    if len(candidates) > AT_ONCE_BATCHES_MAX:
        return False
    size = compressed = compressed_bytes = records = 0
    for data, config, _, schemas in candidates:
        if schemas is not None:
            return False
        size += len(data)
        if len(data) < HEADER_BYTES:
            continue
        if _codec(data) or stored_codec(0, config):
            compressed += 1
            compressed_bytes += len(data)
        records += _record_count(data)
    return (
        size <= AT_ONCE_BYTES_MAX
        and compressed <= AT_ONCE_COMPRESSED_MAX
        and compressed_bytes <= AT_ONCE_COMPRESSED_BYTES_MAX
        and records <= AT_ONCE_RECORDS_MAX
    )


def _codec(data: bytes) -> int:
    return data[_CODEC_AT] & 7


def _record_count(data: bytes) -> int:
    return int.from_bytes(data[_COUNT_AT : _COUNT_AT + 4], "big")


def payload_bytes_max(candidate: Candidate) -> int:
    """To how many bytes the records of this batch may grow; 0 if they are not compressed."""
    data = candidate.data
    if len(data) < HEADER_BYTES or not _codec(data):
        return 0
    return min(max(RATIO_MAX * len(data), RATIO_FREE_BYTES), BATCH_PAYLOAD_BYTES_MAX)


def _held(candidates: Sequence[Candidate]) -> int:
    """The most that these may become: one payload is held at a time, and all that is to be stored."""
    stored = sum(
        each.config.max_message_bytes
        for each in candidates
        if len(each.data) >= HEADER_BYTES
        and stored_codec(_codec(each.data), each.config) != _codec(each.data)
    )
    payload = COPIES * max(map(payload_bytes_max, candidates), default=0)
    return payload + min(stored, GROWN_BYTES_MAX)


def check_all(candidates: Sequence[Candidate], bounds: Bounds) -> list[Checked]:
    """What became of each of these batches, one after the other: one payload is held at a time."""
    return [bounds.checked(each, payload_bytes_max(each)) for each in candidates]


class Bounds:
    """What is left of the bounds of a request."""

    def __init__(self, payload_bytes: int, elements: int) -> None:
        self._payload_bytes = payload_bytes
        self._elements = elements
        self._grown_bytes = GROWN_BYTES_MAX

    @classmethod
    def of_request(cls) -> Bounds:
        """All of them, for batches that are checked in threads."""
        return cls(REQUEST_PAYLOAD_BYTES_MAX, ELEMENTS_MAX)

    def copy(self) -> Bounds:
        """The same, so that what is checked once more does not count twice."""
        return copy.copy(self)

    def checked(self, candidate: Candidate, payload_bytes: int) -> Checked:
        """What became of a batch. A refusal holds nothing of what it was found in."""
        limit = max(min(payload_bytes, self._payload_bytes), 0)
        try:
            return self._prepared(candidate, limit)
        except RecordError as error:
            if isinstance(error, PayloadTooLarge):
                self._payload_bytes -= limit  # so much was decompressed before it was seen
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)

    def _prepared(self, candidate: Candidate, payload_bytes: int) -> tuple[Buffer, BatchHeader]:
        data, config, now_ms, schemas = candidate
        if len(data) >= HEADER_BYTES:
            count = _record_count(data)
            if count * RECORD_BYTES_MIN <= max(len(data), payload_bytes):
                self._elements -= count  # else it is a lie, which is refused without any work
        if self._elements < 0:
            raise PayloadTooLarge(f"more than {ELEMENTS_MAX} records in a request")
        headers_max = min(self._elements, HEADERS_MAX)
        stored, header = prepare(
            data, config, now_ms, payload_bytes, self._payload, headers_max, self._headers
        )
        if header.codec != _codec(data):
            self._grown_bytes -= header.size
            if self._grown_bytes < 0:
                raise PayloadTooLarge(f"more than {GROWN_BYTES_MAX} bytes to be stored otherwise")
        if schemas is not None:
            schemas.check(stored)
        return stored, header

    def _payload(self, size: int) -> None:
        self._payload_bytes -= size

    def _headers(self, count: int) -> None:
        self._elements -= count
