"""What the broker asks of a batch before it appends it, beyond being whole: does its header tell the
truth? Called by `batch.validate_produced` only.

The count in the header decides which offsets the batch takes, so it must be right: a batch that says
something else would stop every consumer of its partition. The records are therefore stepped over, from
length to length, and must end where the batch ends, after as many steps as the header says:

    | length | attributes | timestamp delta | offset delta | key … value … headers |
      1-5 B    = length bytes

Records of equal length in a row, which is what most producers send, are stepped over together: the
first bytes of all of them are compared at once (`_run`). The first and the last record must also have
the numbers 0 and `record_count - 1`. What is inside the records between is the consumers' business.
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


def check_records(buffer: Buffer, start: int, count: int) -> None:
    """Raise CorruptBatch unless buffer[start:] is `count` records, numbered from 0 to count-1."""
    if isinstance(buffer, memoryview):
        buffer, start = bytes(buffer[start:]), 0
    position, end = start, len(buffer)
    if (end - start) < count * RECORD_BYTES_MIN:
        raise CorruptBatch(f"{count} records do not fit into {end - start} bytes")
    last = body = 0
    number = 0
    try:
        while number < count:
            first = buffer[position]
            last = position
            if first < 0x80:
                body = position + 1
                length = first
            elif (second := buffer[position + 1]) < 0x80:
                body = position + 2
                length = first & 0x7F | second << 7
            else:
                length, body = varint.read(buffer, position, end)
            if length & 1:
                raise CorruptBatch("a record of negative length")
            if not number:
                _check_record(buffer, body, body + (length >> 1), end, 0)
            position = body + (length >> 1)
            number += 1
            if position < end and buffer[position] == first and number < count:
                same = _run(buffer, last, position, body, count - number)
                if same:
                    over = same * (position - last)
                    number += same
                    position += over
                    last += over
                    body += over
    except IndexError:
        raise CorruptBatch(f"the records end before {count} records") from None
    if position != end:
        raise CorruptBatch(f"the records do not end where {count} records end")
    _check_record(buffer, body, end, end, count - 1)


def _run(buffer: bytes | bytearray, last: int, position: int, body: int, left: int) -> int:
    """How many of the records from `position` on have the same length as the one at `last`.

    Each byte of their lengths is looked at in many of them at once; in few at first, for where
    lengths differ most runs are short.
    """
    length, size = buffer[last:body], position - last
    if not buffer.startswith(length, position):
        return 0
    left = min(left, (len(buffer) - position) // size)
    total, few = 0, 256
    while total < left:
        at = position + total * size
        same = wanted = min(few, left - total)
        for index, byte in enumerate(length):
            there = buffer[at + index : at + index + same * size : size]
            same -= len(there.lstrip(bytes((byte,))))
        total += same
        if same < wanted:
            break
        few *= 8
    return total


def _check_record(buffer: Buffer, position: int, record_end: int, end: int, number: int) -> None:
    """Raise CorruptBatch unless the record whose attributes are at `position` has that number."""
    if record_end > end or record_end - position < RECORD_BYTES_MIN - 1:
        raise CorruptBatch(f"record {number} has an impossible length")
    _, position = varint.decode(buffer, position + 1, record_end, 10)
    delta, position = varint.decode(buffer, position, record_end)
    if delta != number:
        raise CorruptBatch(f"record {number} says that it is number {delta}")
