"""Checking what producers send without making anybody else wait.

Produce hands over each request before anything of it is staged. Every record is looked at (`record`'s
`validate`), and compressed ones must be decompressed for that: what is little is done at once, the rest
in threads of its own, because a few kilobytes may become many megabytes. Bounds, per batch and request:

    at once     8 KiB of compressed batches, four of them, which become 256 KiB each; 20,000 records
    in threads  64 MiB of records in a batch, 256 MiB in a request; and a batch grows by no more than
                1,000 times, unless that is below 4 MiB (gzip and lz4 cannot do more, zstd could)

What goes beyond is refused with MESSAGE_TOO_LARGE: a client may split its batch and try again. While a
request is being checked, its connection starts no other one, so that a producer's batches are stored in
the order in which they came. What the decompressed records may take counts in the memory budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from headwater.broker.memory import MemoryBudget
from headwater.log.append import prepare
from headwater.log.config import LogConfig
from headwater.record.batch import HEADER_BYTES, BatchHeader
from headwater.record.errors import PayloadTooLarge, RecordError
from headwater.record.varint import Buffer

T = TypeVar("T")

THREADS = 2
AT_ONCE_BATCHES_MAX = 4
AT_ONCE_BYTES_MAX = 8 * 1024
AT_ONCE_PAYLOAD_BYTES_MAX = 256 * 1024
AT_ONCE_RECORDS_MAX = 20_000
BATCH_PAYLOAD_BYTES_MAX = 64 * 1024**2
REQUEST_PAYLOAD_BYTES_MAX = 256 * 1024**2
RATIO_MAX = 1000
RATIO_FREE_BYTES = 4 * 1024**2
_CODEC_AT, _COUNT_AT = 22, 57

Checked = tuple[Buffer, BatchHeader] | RecordError
"""The batch as it is to be stored, or what is wrong with it."""


class Candidate(NamedTuple):
    """A batch on its way into a partition."""

    data: bytes
    config: LogConfig
    now_ms: int


class Validation:
    """The broker's threads for checking, and the decision who needs them."""

    def __init__(self, memory: MemoryBudget) -> None:
        self._memory = memory
        self._threads = ThreadPoolExecutor(THREADS, "headwater-check")

    def close(self) -> None:
        self._threads.shutdown()

    def at_once(self, candidates: Sequence[Candidate]) -> list[Checked] | None:
        """What became of each, if that is little work; None: `submit` them."""
        if not is_little(candidates):
            return None
        checked = [_checked(each, AT_ONCE_PAYLOAD_BYTES_MAX) for each in candidates]
        return None if any(isinstance(each, PayloadTooLarge) for each in checked) else checked

    def submit(self, candidates: Sequence[Candidate]) -> Future[list[Checked]]:
        """The same, in a thread."""
        self._memory.take("payloads", _held(candidates))
        return self._threads.submit(check_all, candidates)

    def done(self, candidates: Sequence[Candidate]) -> None:
        """Give back what `submit` has counted; in the event loop."""
        self._memory.release("payloads", _held(candidates))

    def run(self, function: Callable[[], T]) -> Future[T]:
        """Other work on strangers' compressed bytes."""
        return self._threads.submit(function)


def is_little(candidates: Sequence[Candidate]) -> bool:
    """Whether checking these takes a few milliseconds at most, as far as their headers are true."""
    compressed = compressed_bytes = records = 0
    for data, _, _ in candidates:
        if len(data) < HEADER_BYTES:
            continue
        if data[_CODEC_AT] & 7:
            compressed += 1
            compressed_bytes += len(data)
        records += int.from_bytes(data[_COUNT_AT : _COUNT_AT + 4], "big")
    return (
        compressed <= AT_ONCE_BATCHES_MAX
        and compressed_bytes <= AT_ONCE_BYTES_MAX
        and records <= AT_ONCE_RECORDS_MAX
    )


def payload_bytes_max(candidate: Candidate) -> int:
    """To how many bytes the records of this batch may grow; 0 if they are not compressed."""
    data = candidate.data
    if len(data) < HEADER_BYTES or not data[_CODEC_AT] & 7:
        return 0
    return min(max(RATIO_MAX * len(data), RATIO_FREE_BYTES), BATCH_PAYLOAD_BYTES_MAX)


def _held(candidates: Sequence[Candidate]) -> int:
    """The largest payload that these may become: one is held at a time."""
    return max(map(payload_bytes_max, candidates), default=0)


def check_all(candidates: Sequence[Candidate]) -> list[Checked]:
    """What became of each batch of a request, one after the other: one payload is held at a time."""
    left = REQUEST_PAYLOAD_BYTES_MAX
    checked: list[Checked] = []

    def spend(size: int) -> None:
        nonlocal left
        left -= size

    for each in candidates:
        limit = min(payload_bytes_max(each), left)
        checked.append(_checked(each, limit, spend))
        if isinstance(checked[-1], PayloadTooLarge):
            left -= limit  # so much was decompressed before it was seen
    return checked


def _checked(
    candidate: Candidate, payload_bytes: int, spend: Callable[[int], None] | None = None
) -> Checked:
    try:
        return prepare(candidate.data, candidate.config, candidate.now_ms, payload_bytes, spend)
    except RecordError as error:
        return error
