"""What the broker asks of a batch before it appends it, beyond being whole: does its header tell
the truth? Called by `batch.validate_produced` only.

The count in the header decides which offsets the batch takes, so it must be right; but walking the
records costs more than everything else that the broker does with a batch. Therefore only the ends
are looked at: the first record must be number 0, and a record that ends where the records end must
be number `record_count - 1`. That one is found from behind, by searching for its offset delta:

    … | length | attributes | timestamp delta | OFFSET DELTA | key … value … headers |
        1-5 B    1 B          1-10 B            1-5 B          = length bytes to the end

A value may contain bytes that look like this, but the real last record is always among the
candidates, so that no honest batch is refused. A payload with too many candidates, or with a
spelling of integers that the search does not expect, is walked from length to length instead: that
is slower, exact, and bounded by the record count.

Deliberately not asked: whether max_timestamp is the records' maximum (some clients send -1 or the
last record's), and what epoch and sequence are where there is no producer id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.record import varint
from headwater.record.errors import CorruptBatch, InvalidBatch
from headwater.record.varint import Buffer

if TYPE_CHECKING:
    from headwater.record.batch import BatchHeader

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, key and value length, header count: at least a byte each."""

_WALK_AT_ONCE = 16
_WALK_COUNT_MAX = 1 << 20  # a tenth of a second; only a decompression bomb has more to walk
_CANDIDATES_MAX = 64
_CODEC_MAX = 4
_HEADER_BYTES = 61  # as in `batch`, which imports this module


def check_claims(header: BatchHeader) -> None:
    """Raise InvalidBatch for a header that a producer must not send, whatever its records are."""
    if header.record_count < 1:
        raise InvalidBatch(f"a produced batch has records, this one says {header.record_count}")
    if header.base_offset:
        raise InvalidBatch(f"a produced batch starts at offset 0, this one at {header.base_offset}")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidBatch(
            f"{header.record_count} records, but a last offset delta of {header.last_offset_delta}"
        )
    if header.codec > _CODEC_MAX:
        raise InvalidBatch(f"there is no compression codec {header.codec}")
    if header.attributes & ~0x3F:
        raise InvalidBatch(f"attributes {header.attributes & 0xFFFF:#06x} use reserved bits")
    if header.is_control:
        raise InvalidBatch("clients must not write control records")
    if header.max_timestamp < -1:
        raise InvalidBatch(f"a timestamp of {header.max_timestamp} is before time began")
    _check_producer(header)
    size = header.size - _HEADER_BYTES
    if header.codec == 0 and header.record_count * RECORD_BYTES_MIN > size:
        raise InvalidBatch(f"{header.record_count} records do not fit into {size} bytes")


def _check_producer(header: BatchHeader) -> None:
    # Without a producer id the other two are ignored, as Kafka does: kafkajs sends epoch 0 and
    # sequence 0, sarama sends sequence 0.
    if header.producer_id < -1:
        raise InvalidBatch(f"there is no producer id {header.producer_id}")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise InvalidBatch(
            f"producer {header.producer_id} with epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}"
        )
    if header.producer_id < 0 and header.is_transactional:
        raise InvalidBatch("a transactional batch without a producer id")


def check_ends(buffer: Buffer, start: int, count: int) -> None:
    """Raise CorruptBatch unless buffer[start:] begins with record 0 and ends with the last one."""
    if isinstance(buffer, memoryview):
        buffer, start = bytes(buffer[start:]), 0
    end = len(buffer)
    if (end - start) < count * RECORD_BYTES_MIN:
        raise CorruptBatch(f"{count} records do not fit into {end - start} bytes")
    length, position = varint.decode(buffer, start, end)
    _check_record(buffer, position, position + length, end, 0)
    if count <= _WALK_AT_ONCE or not _ends_with(buffer, start, count - 1):
        _walk(buffer, start, count)


def _ends_with(buffer: bytes | bytearray, start: int, number: int) -> bool:
    """Whether a record of that number, spelt the shortest way, reaches to the end of the buffer."""
    delta = varint.encode(number)
    at = end = len(buffer)
    for _ in range(_CANDIDATES_MAX):
        at = buffer.rfind(delta, start, at + len(delta) - 1)
        if at < start + 3:
            return False
        body = at - 1  # the timestamp delta's last byte; those before it have the top bit set
        if buffer[body] >= 0x80:
            continue
        while body > start and buffer[body - 1] >= 0x80 and at - body < 10:
            body -= 1
        body -= 1  # the attributes, where the length starts to count
        if buffer[body] == 0 and _length_before(buffer, start, body, end - body):
            return True
    return False


def _length_before(buffer: bytes | bytearray, start: int, body: int, length: int) -> bool:
    """Whether the bytes just before `body` spell `length`."""
    spelt = varint.encode(length)
    return body - start >= len(spelt) and buffer.startswith(spelt, body - len(spelt))


def _walk(buffer: bytes | bytearray, start: int, count: int) -> None:
    """Go from length to length; the last record must be number count-1 and end the buffer."""
    if count > _WALK_COUNT_MAX:
        raise CorruptBatch(f"record {count - 1} is not where the records end")
    position, end = start, len(buffer)
    for _ in range(count - 1):
        if position + 1 >= end:
            break
        length = buffer[position]  # in zigzag: an odd number is a negative length
        position += 1
        if length > 127:
            more = buffer[position]
            if more > 127:
                length, position = varint.read(buffer, position - 1, end)
            else:
                length += (more << 7) - 128
                position += 1
        if length & 1:
            raise CorruptBatch(f"a record before byte {position} has a negative length")
        position += length >> 1
    length, position = varint.decode(buffer, position, end)
    if position + length != end:
        raise CorruptBatch(f"the records do not end where {count} records end")
    _check_record(buffer, position, end, end, count - 1)


def _check_record(buffer: Buffer, position: int, record_end: int, end: int, number: int) -> None:
    """Raise CorruptBatch unless the record whose attributes are at `position` has that number."""
    if record_end > end or record_end - position < RECORD_BYTES_MIN - 1:
        raise CorruptBatch(f"record {number} has an impossible length")
    _, position = varint.decode(buffer, position + 1, record_end, 10)
    delta, position = varint.decode(buffer, position, record_end)
    if delta != number:
        raise CorruptBatch(f"record {number} says that it is number {delta}")
