"""Why a batch is not stored, as Produce tells it: the codes of Kafka, each in the row of its partition.

`api/k00_produce` asks `at_once` before it looks at a batch, and `row` when storing it was refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.catalogue import Topic
from headwater.broker.transactions.admission import NotAdmitted
from headwater.log.append import (
    BatchExceedsSegment,
    BatchTooLarge,
    KeyMissing,
    TimestampOutOfRange,
)
from headwater.log.partition import StorageFailed
from headwater.log.producers import (
    FencedEpoch,
    NotTransactional,
    OutOfOrderSequence,
    TooManyProducers,
)
from headwater.record.errors import CorruptBatch, InvalidBatch, PayloadTooLarge, UnknownMagic

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_CODES: dict[type[Exception], ErrorCode] = {
    CorruptBatch: ErrorCode.corrupt_message,
    UnknownMagic: ErrorCode.invalid_record,
    InvalidBatch: ErrorCode.invalid_record,
    BatchTooLarge: ErrorCode.message_too_large,
    PayloadTooLarge: ErrorCode.message_too_large,
    BatchExceedsSegment: ErrorCode.record_list_too_large,
    TimestampOutOfRange: ErrorCode.invalid_timestamp,
    OutOfOrderSequence: ErrorCode.out_of_order_sequence_number,
    FencedEpoch: ErrorCode.invalid_producer_epoch,
    NotTransactional: ErrorCode.invalid_txn_state,
    TooManyProducers: ErrorCode.throttling_quota_exceeded,
    StorageFailed: ErrorCode.kafka_storage_error,
}

_NOTHING = {"base_offset": -1, "log_append_time": -1, "log_start_offset": -1}


def at_once(
    broker: Broker, request: Any, topic: Topic | None, asked: Any, part: Any
) -> dict[str, Any] | None:
    """The row of a batch that has no place to go to; None: it has one."""
    if request.acks not in (-1, 0, 1):
        return _row(part, ErrorCode.invalid_required_acks, "acks must be -1, 0 or 1")
    if topic is None:
        by_id = getattr(asked, "topic_id", None) is not None
        code = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        return _row(part, code, None)
    if not 0 <= part.index < topic.partitions or broker.partition(topic.name, part.index) is None:
        return _row(part, broker.absence(topic.name, part.index), None)
    if broker.topics.is_in_doubt(topic.name):
        sentence = "the disk has refused the topic's deletion, and it may be gone after a restart"
        return _row(part, ErrorCode.kafka_storage_error, sentence)
    if internal_topics.written_by_broker(topic.name):
        return _row(
            part, ErrorCode.invalid_topic_exception, f"{topic.name} is written by the broker only"
        )
    if not part.records:
        return _row(part, ErrorCode.invalid_record, "a record batch is missing")
    return None


def _row(part: Any, code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"index": part.index, "error_code": code, "error_message": message, **_NOTHING}


def fields(error: Exception) -> dict[str, Any]:
    """What a row says of this error. Raises it if it is none of a client's."""
    if isinstance(error, NotAdmitted):
        return {"error_code": error.code, "error_message": str(error), **_NOTHING}
    for kind in type(error).__mro__:
        if kind in _CODES:
            row = {"error_code": _CODES[kind], "error_message": str(error), **_NOTHING}
            if isinstance(error, KeyMissing):  # KIP-467: which records of the batch
                row["record_errors"] = [
                    {"batch_index": number, "batch_index_error_message": str(error)}
                    for number in error.records
                ]
            return row
    raise error
