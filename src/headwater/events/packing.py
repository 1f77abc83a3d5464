"""Keys and values to a record batch, quickly: what `record.builder` does, for the one case that owners have.

All records have one time, no headers, and offsets that rise by one. The layout is in `record.records` and
`record.batch`; tests compare the two byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.record import batch as batches
from headwater.record import varint
from headwater.record.batch import BatchHeader

_SMALL = [varint.encode(n) for n in range(4096)]
"""Nearly all numbers in a batch are small: looked up, not spelled."""
_NONE = varint.encode(-1)


def _spell(number: int) -> bytes:
    return _SMALL[number] if number < 4096 else varint.encode(number)


def pack(
    found: Sequence[tuple[bytes, bytes | None]],
    at_ms: int,
    producer_id: int,
    epoch: int,
    sequence: int,
) -> bytes:
    """A whole batch of these records; one without a value is a tombstone."""
    parts: list[bytes] = []
    small, spell = _SMALL, _spell
    for n, (key, value) in enumerate(found):
        number, key_size = spell(n), spell(len(key))
        value_size, value = (_NONE, b"") if value is None else (spell(len(value)), value)
        # Attributes, and the difference in time: one byte each, zero; so is the number of headers.
        size = 3 + len(number) + len(key_size) + len(key) + len(value_size) + len(value)
        parts += (
            small[size] if size < 4096 else spell(size),
            *(b"\0\0", number, key_size, key, value_size, value, b"\0"),
        )
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=len(found) - 1,
        base_timestamp=at_ms,
        max_timestamp=at_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=len(found),
    )
    return batches.pack(header, b"".join(parts))
