"""One pass over a segment's file: every batch that is whole, and every place where none is.

`segments` goes through a partition with it. What a batch's checksum does not cover (base offset, length,
leader epoch, magic) is judged by its neighbours. Pure apart from reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headwater.broker.inspection.reader import PIECE_BYTES, Reader
from headwater.log.tail_scan import OFFSETS_PER_SEGMENT
from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import CRC_START, HEADER_BYTES, BatchHeader
from headwater.record.errors import CorruptBatch, RecordError

LARGE_BYTES = 32 * 1024 * 1024
"""A batch above this is checked in pieces before it is taken into memory."""


class Whole(NamedTuple):
    """A batch with the right checksum, where its offsets belong."""

    position: int
    header: BatchHeader
    data: memoryview


class Misplaced(NamedTuple):
    """A batch with the right checksum and a base offset that cannot be; what it must be, if known."""

    position: int
    header: BatchHeader
    follows: int
    right_offset: int | None


class Broken(NamedTuple):
    """Bytes that are no whole batch, up to the next one or to the end of the file."""

    position: int
    end: int
    follows: int
    next_offset: int | None
    """Where the batch behind it begins; None: there is none."""
    why: str


class Missing(NamedTuple):
    """Offsets that no batch has, although nothing is damaged around them."""

    position: int
    first_offset: int
    next_offset: int


Seen = Whole | Misplaced | Broken | Missing


def scan(
    reader: Reader, base_offset: int, limit: int | None, *, gaps: bool, promised: int = 0
) -> Iterator[Seen]:
    """`limit`: where the following segment begins; `gaps`: compaction may have taken offsets;
    `promised`: a batch ends there, or did."""
    position, follows = 0, base_offset
    resumed = False
    while position < reader.size:
        try:
            header = whole(reader, position)
        except RecordError as error:
            end, beyond = _resync(reader, position, follows, limit)
            next_offset = None if beyond is None else beyond.base_offset
            yield Broken(position, end, follows, next_offset, str(error))
            position, resumed = end, True
            follows = follows if next_offset is None else next_offset
            continue
        problem = None
        if not (resumed and _can_be(header, follows, limit)):
            bound = _bound(header, base_offset, follows, promised) if limit is None else limit
            problem = _misplaced(reader, position, header, follows, bound, gaps)
        resumed = False
        if isinstance(problem, Misplaced):
            yield problem
            position += header.size
            if problem.right_offset is None:
                resumed = True  # of its offsets nothing is known, so nothing follows from them
            else:
                follows = problem.right_offset + header.last_offset_delta + 1
            continue
        if isinstance(problem, Missing):
            yield problem
        yield Whole(position, header, reader.get(position, header.size))
        position += header.size
        follows = header.next_offset


def _bound(header: BatchHeader, base_offset: int, follows: int, promised: int) -> int | None:
    """In the last segment: no gap reaches over the end of what was acknowledged, or beyond what a segment
    may hold. None: nothing of the kind."""
    if header.base_offset <= follows:
        return None
    is_beyond = follows < promised < header.next_offset
    bound = promised if is_beyond else base_offset + OFFSETS_PER_SEGMENT
    return bound if header.next_offset > bound else None


def _can_be(header: BatchHeader, follows: int, limit: int | None) -> bool:
    """Whether a batch behind damage may have these offsets: what damage took is not known."""
    return header.base_offset >= follows and (limit is None or header.next_offset <= limit)


def whole(reader: Reader, position: int) -> BatchHeader:
    """The header of an intact batch. Raises RecordError."""
    header = batches.read_header(reader.get(position, HEADER_BYTES))
    if position + header.size > reader.size:
        left = reader.size - position
        raise CorruptBatch(f"a batch of {header.size} bytes, and the file ends after {left}")
    if header.size > LARGE_BYTES:
        actual = reader.crc(position + CRC_START, position + header.size)
        if actual != header.crc:
            raise CorruptBatch(
                f"the checksum is {actual:#010x}, the header says {header.crc:#010x}"
            )
    else:
        batches.check_crc(reader.get(position, header.size), 0, header)
    if header.last_offset_delta < 0:
        raise CorruptBatch(f"a batch that ends {-header.last_offset_delta} before it begins")
    return header


def _next_base(reader: Reader, position: int, limit: int | None) -> int | None:
    """Where the batch at `position` says it begins; at the end of the file: the limit."""
    if position >= reader.size:
        return limit
    try:
        return batches.read_header(reader.get(position, HEADER_BYTES)).base_offset
    except RecordError:
        return None


def _misplaced(
    reader: Reader,
    position: int,
    header: BatchHeader,
    follows: int,
    limit: int | None,
    gaps: bool,
) -> Misplaced | Missing | None:
    """Whether its base offset, which no checksum covers, agrees with its neighbours."""
    base, delta = header.base_offset, header.last_offset_delta
    if base == follows and (limit is None or header.next_offset <= limit):
        return None
    after = _next_base(reader, position + header.size, limit)
    fits = base > follows and (limit is None or header.next_offset <= limit)
    if fits and (after is None or header.next_offset <= after):
        if gaps:
            return None
        if after is None or after != follows + delta + 1:
            return Missing(position, follows, base)
    has_room = limit is None or follows + delta + 1 <= limit
    if has_room and after is not None and after == follows + delta + 1:
        return Misplaced(position, header, follows, follows)
    if fits and after is not None and after < follows:
        return None if gaps else Missing(position, follows, base)  # the one behind it lies
    if has_room and after is None and not fits:
        return Misplaced(position, header, follows, follows if not gaps else None)
    return Misplaced(position, header, follows, None)


def _resync(
    reader: Reader, position: int, follows: int, limit: int | None
) -> tuple[int, BatchHeader | None]:
    """The next place behind `position` with an intact batch whose offsets can be; else the end."""
    try:
        header = batches.read_header(reader.get(position, HEADER_BYTES))
        at = position + header.size
        if at < reader.size and (found := _plausible(reader, at, follows, limit)) is not None:
            return at, found
    except RecordError:
        pass
    start = position + 1
    while start < reader.size:
        data = bytes(reader.get(start, PIECE_BYTES + HEADER_BYTES))
        at = data.find(b"\x02", 16) - 16  # the magic, the one byte that every header has
        while 0 <= at < PIECE_BYTES:
            found = _plausible(reader, start + at, follows, limit)
            if found is not None:
                return start + at, found
            at = data.find(b"\x02", at + 17) - 16
        start += PIECE_BYTES
    return reader.size, None


def _plausible(
    reader: Reader, position: int, follows: int, limit: int | None
) -> BatchHeader | None:
    try:
        header = batches.read_header(reader.get(position, HEADER_BYTES))
    except RecordError:
        return None
    beyond = follows + 2**31 if limit is None else limit
    if not (
        follows <= header.base_offset <= header.last_offset < beyond
        and header.codec <= 4
        and 0 <= header.record_count <= header.last_offset_delta + 1
        and header.producer_id >= batches.BROKER_PRODUCER_ID
        and position + header.size <= reader.size
    ):
        return None
    try:
        return whole(reader, position)
    except RecordError:
        return None


def key_of(region: bytes) -> str | None:
    """The key of the only record in a damaged batch."""
    try:
        if batches.read_header(region).size != len(region):
            return None
        end = len(region)
        _, at = varint.decode(region, HEADER_BYTES, end)  # length
        _, at = varint.decode(region, at + 1, end, 10)  # attributes, time
        _, at = varint.decode(region, at, end)  # offset
        size, at = varint.decode(region, at, end)
        return region[at : at + size].decode() if 0 < size <= end - at else None
    except (RecordError, ValueError):
        return None
