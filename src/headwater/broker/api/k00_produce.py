"""Produce (key 0), versions 3–13: append record batches; KIP-98, KIP-467, KIP-516 (topic ids, v13),
KIP-890 (12: partitions are added to the transaction).

Each partition's batch is validated (in a thread where that may take long: see `validation`; by the configs
that its topic has when it is staged), given its offsets and staged; the answer waits until all of them are
durable (`acks=1` too: acknowledged means on disk). `acks=0` has no answer. One partition's error is its
own: the others are stored. Requests of one connection may overlap, so that they share commits; their
answers keep their order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker import authorship, internal_topics
from headwater.broker.catalogue import Topic
from headwater.broker.partition import Partition
from headwater.broker.registry import NO_ANSWER, Api, Context, Later
from headwater.broker.transactions.admission import Admission, NotAdmitted
from headwater.broker.transactions.moves import Producer
from headwater.broker.transactions.state_manager import Written
from headwater.broker.validation import Candidate, Checked
from headwater.log.append import (
    BatchExceedsSegment,
    BatchTooLarge,
    KeyMissing,
    TimestampOutOfRange,
)
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.log.producers import (
    FencedEpoch,
    NotTransactional,
    OutOfOrderSequence,
    ProducerError,
    TooManyProducers,
)
from headwater.record.batch import BatchHeader
from headwater.record.errors import (
    CorruptBatch,
    InvalidBatch,
    PayloadTooLarge,
    RecordError,
    UnknownMagic,
)

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
_GONE = InvalidBatch("its topic was made while the request was being checked; send it again")


class _Pending:
    """One Produce request on its way to the disk."""

    __slots__ = ("admission", "answer", "is_answered", "later", "missing")

    def __init__(self) -> None:
        self.answer: list[dict[str, Any]] = []
        self.missing = 1  # the request itself, until all of it is staged
        self.later = Later()
        self.is_answered = True
        self.admission: Admission | None = None

    def wait_for(self, partition: Partition, next_offset: int, row: dict[str, Any]) -> None:
        self.missing += 1

        def done(error: Exception | None) -> None:
            try:
                if error is not None:
                    row.update(_refusal(error))
            except Exception as unforeseen:
                self.later.fail(unforeseen)
            else:
                self.arrived()

        partition.when_durable(next_offset, done)

    def arrived(self) -> None:
        self.missing -= 1
        if not self.missing:
            # Also without an answer the end is told: until then the request counts as memory in use.
            self.later.set({"responses": self.answer} if self.is_answered else NO_ANSWER)


def produce(broker: Broker, request: Any, context: Context) -> Later:
    pending = _Pending()
    request = authorship.signed(broker, request, context)
    found = _candidates(broker, request)
    checked = broker.validation.at_once(list(found.values()))
    if checked is not None:
        _stage(broker, request, context, pending, dict(zip(found, checked, strict=True)))
        return pending.later
    _check_in_thread(broker, request, context, pending, found)
    return pending.later


def _check_in_thread(
    broker: Broker, request: Any, context: Context, pending: _Pending, found: dict[int, Candidate]
) -> None:
    """Check, then stage; once more if a topic has got other configs meanwhile: it may want keys now.

    Nothing else of this connection is stored meanwhile: a producer's batches keep their order.
    """
    candidates = list(found.values())
    context.connection.hold()

    def done(task: asyncio.Task[list[Checked]]) -> None:
        broker.validation.done(candidates)
        try:
            if not task.cancelled():  # the broker stops
                results = dict(zip(found, task.result(), strict=True))
                now = _candidates(broker, request)
                if all(
                    part not in found or each.config == found[part].config
                    for part, each in now.items()
                ):
                    _stage(broker, request, context, pending, results)
                else:
                    _check_in_thread(broker, request, context, pending, now)
        except Exception as error:
            pending.later.fail(error)
        finally:
            context.connection.proceed()

    checking = asyncio.wrap_future(broker.validation.submit(candidates))
    broker.supervisor.spawn("checks of records", checking, done)


def _candidates(broker: Broker, request: Any) -> dict[int, Candidate]:
    """The batches that there is a partition for, by the identity of their part of the request."""
    now_ms = broker.clock.now_ms()
    found: dict[int, Candidate] = {}
    for asked in request.topic_data:
        topic = _topic(broker, asked)
        for part in asked.partition_data:
            if _refused_at_once(broker, request, topic, asked, part) is None:
                assert topic is not None
                log = broker.topics.partitions[topic.name, part.index].log
                found[id(part)] = Candidate(part.records or b"", log.config, now_ms)
    return found


def _stage(
    broker: Broker, request: Any, context: Context, pending: _Pending, checked: dict[int, Checked]
) -> None:
    """Store what is right, in the order of the request."""
    if request.transactional_id is not None:
        pending.admission = _admission(broker, request, context)
    for asked in request.topic_data:
        topic = _topic(broker, asked)
        rows = [
            _append(broker, request, topic, asked, part, pending, checked)
            for part in asked.partition_data
        ]
        pending.answer.append(
            {
                "name": getattr(asked, "name", ""),
                "topic_id": getattr(asked, "topic_id", None),
                "partition_responses": rows,
            }
        )
    if request.acks == 0:
        pending.is_answered = False
        _break_off_on_error(pending, context)
    pending.arrived()


def _break_off_on_error(pending: _Pending, context: Context) -> None:
    """With acks=0 a client learns of an error only by losing its connection, as with Kafka."""
    for topic in pending.answer:
        for row in topic["partition_responses"]:
            if row.get("error_code"):
                context.connection.fail(
                    f"acks=0 and {ErrorCode(row['error_code']).name}: {row.get('error_message')}"
                )


def _topic(broker: Broker, asked: Any) -> Topic | None:
    topic_id = getattr(asked, "topic_id", None)
    if topic_id is not None:
        return broker.catalogue.by_id.get(topic_id)
    return broker.catalogue.topics.get(getattr(asked, "name", ""))


def _append(
    broker: Broker,
    request: Any,
    topic: Topic | None,
    asked: Any,
    part: Any,
    pending: _Pending,
    checked: dict[int, Checked],
) -> dict[str, Any]:
    """Stage one partition's batch; the row of the answer that it gets."""
    row = _refused_at_once(broker, request, topic, asked, part)
    if row is not None:
        return row
    assert topic is not None
    partition = broker.topics.partitions[topic.name, part.index]
    log, now_ms = partition.log, broker.clock.now_ms()
    try:
        outcome = checked.get(id(part), _GONE)
        if isinstance(outcome, RecordError):
            raise outcome
        data, header = outcome
        if broker.disk_space.refusing and not _is_retry(log, header):
            raise StorageFailed(broker.disk_space.sentence())
        added = _admit(pending, partition, header) if header.is_transactional else None
        stored = log.check_producer(header)
        if stored is not None:
            base_offset, next_offset = stored.base_offset, stored.last_offset + 1
        else:
            log.admit_producer(header, now_ms)
            base_offset = partition.append(data, header, now_ms)
            next_offset = base_offset + header.last_offset_delta + 1
    except (RecordError, ProducerError, StorageFailed, NotAdmitted) as error:
        return {"index": part.index, **_refusal(error)}
    row = {
        "index": part.index,
        "base_offset": base_offset,
        "log_append_time": header.max_timestamp if header.is_log_append_time else -1,
        "log_start_offset": log.start_offset,
    }
    pending.wait_for(partition, next_offset, row)
    if added is not None:
        pending.wait_for(*added, row)
    return row


def _is_retry(log: PartitionLog, header: BatchHeader) -> bool:
    """Whether it is stored already, and takes no room."""
    try:
        return log.check_producer(header) is not None
    except ProducerError:
        return False


def _admission(broker: Broker, request: Any, context: Context) -> Admission:
    named = ((_topic(broker, asked), asked.partition_data) for asked in request.topic_data)
    wanted = {(topic.name, part.index) for topic, parts in named if topic for part in parts}
    known = [each for each in wanted if broker.partition(*each) is not None]
    return Admission(broker.transactions, request.transactional_id, context.api_version, known)


def _admit(pending: _Pending, partition: Partition, header: BatchHeader) -> Written | None:
    """Only what belongs to an ongoing transaction may be stored; see `admission`."""
    if pending.admission is None:
        raise NotAdmitted(ErrorCode.transactional_id_authorization_failed)
    producer = Producer(header.producer_id, header.producer_epoch)
    return pending.admission.admit(producer, (partition.topic, partition.number))


def _refused_at_once(
    broker: Broker, request: Any, topic: Topic | None, asked: Any, part: Any
) -> dict[str, Any] | None:
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


_NOTHING = {"base_offset": -1, "log_append_time": -1, "log_start_offset": -1}


def _refusal(error: Exception) -> dict[str, Any]:
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


API = Api(0, "Produce", (3, 13), produce, pipelined=True, rows_depth=2)
