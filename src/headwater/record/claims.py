"""What the header of a produced batch may say, whatever its records are; `validate` looks at these.

`batch.validate_produced` asks, once the batch is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.record.errors import InvalidBatch

if TYPE_CHECKING:
    from headwater.record.batch import BatchHeader

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, key and value length, header count: at least a byte each."""
NO_TIMESTAMP = -1
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
    check_latest(header.max_timestamp)
    _check_producer(header)
    size = header.size - _HEADER_BYTES
    if header.codec == 0 and header.record_count * RECORD_BYTES_MIN > size:
        raise InvalidBatch(f"{header.record_count} records do not fit into {size} bytes")


def check_latest(timestamp: int) -> None:
    if timestamp < NO_TIMESTAMP:
        raise InvalidBatch(f"a timestamp of {timestamp} is before time began")


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
