"""Produce (key 0), versions 3–13: append record batches; KIP-98, KIP-467, KIP-516 (topic ids, v13),
KIP-890 (12: partitions are added to the transaction).

Each partition's batch is validated (in a thread where that may take long: see `validation`; by the configs
that its topic has when it is staged), given its offsets and staged; the answer waits until all of them are
durable (`acks=1` too: acknowledged means on disk). `acks=0` has no answer. One partition's error is its
own: the others are stored. Requests of one connection may overlap, so that they share commits; their
answers keep their order. A request of very many batches is stored in several turns of the event loop, each
batch in one turn with all that is asked before it may be: a transaction may end between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker import authorship, refusal
from headwater.broker.catalogue import Topic
from headwater.broker.internal_topic import Staged
from headwater.broker.partition import Partition
from headwater.broker.registry import NO_ANSWER, Api, Context, Later
from headwater.broker.slices import pieces
from headwater.broker.transactions.admission import Admission, NotAdmitted
from headwater.broker.transactions.transitions import Producer
from headwater.broker.turns import give_way
from headwater.broker.validation import AT_ONCE_BATCHES_MAX, Bounds, Candidate, Checked
from headwater.log.partition import PartitionLog, StorageFailed
from headwater.log.producers import ProducerError
from headwater.record.batch import BatchHeader
from headwater.record.errors import InvalidBatch, RecordError

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


PARTS_AT_ONCE = 100
"""Of a request that has many: if each is for a partition of its own, that many commits are begun."""
_GONE = InvalidBatch("its topic was made while the request was being checked; send it again")


class _Part(NamedTuple):
    """One batch of a request, and where its row of the answer goes."""

    asked: Any
    part: Any
    rows: list[dict[str, Any]]


class _Pending:
    """One Produce request on its way to the disk."""

    __slots__ = ("admission", "answer", "context", "later", "missing", "request")

    def __init__(self, request: Any, context: Context) -> None:
        self.request = request
        self.context = context
        self.answer: list[dict[str, Any]] = []
        self.missing = 1  # the request itself, until all of it is staged
        self.later = Later()
        self.admission: Admission | None = None

    def parts(self) -> list[_Part]:
        """Its batches in their order, and an answer that has room for them."""
        found: list[_Part] = []
        for asked in self.request.topic_data:
            rows: list[dict[str, Any]] = []
            self.answer.append(
                {
                    "name": getattr(asked, "name", ""),
                    "topic_id": getattr(asked, "topic_id", None),
                    "partition_responses": rows,
                }
            )
            found += [_Part(asked, part, rows) for part in asked.partition_data]
        return found

    def wait_for(self, partition: Partition, next_offset: int, row: dict[str, Any]) -> None:
        self.missing += 1

        def done(error: Exception | None) -> None:
            try:
                if error is not None:
                    row.update(refusal.fields(error))
            except Exception as unforeseen:
                self.later.fail(unforeseen)
            else:
                self.arrived()

        partition.when_durable(next_offset, done)

    def staged(self) -> None:
        """All of it."""
        if self.request.acks == 0:
            _break_off_on_error(self)
        self.arrived()

    def arrived(self) -> None:
        self.missing -= 1
        if not self.missing:
            # Also without an answer the end is told: until then the request counts as memory in use.
            answer = {"responses": self.answer}
            self.later.set(answer if self.request.acks != 0 else NO_ANSWER)


def produce(broker: Broker, request: Any, context: Context) -> Later:
    pending = _Pending(authorship.signed(broker, request, context), context)
    parts = pending.parts()
    if len(parts) <= AT_ONCE_BATCHES_MAX:
        found = _candidates(broker, pending, parts)
        checked = broker.validation.at_once(list(found.values()))
        if checked is not None:
            _admit_all(broker, pending, parts)
            _stage(broker, pending, parts, dict(zip(found, checked, strict=True)))
            pending.staged()
            return pending.later
    context.connection.hold()
    broker.supervisor.spawn(
        API.name, _in_turns(broker, pending, parts), lambda _: context.connection.proceed()
    )
    return pending.later


async def _in_turns(broker: Broker, pending: _Pending, parts: list[_Part]) -> None:
    """Check and stage so many batches at a time: others are served in between.

    Nothing else of this connection is stored meanwhile: a producer's batches keep their order. What may
    change between two turns (topics, configs, the transaction) is looked at in the turn that stages.
    """
    bounds = Bounds.of_request()
    try:
        for some in pieces(parts, PARTS_AT_ONCE):
            _admit_all(broker, pending, some)
            await give_way()
        for some in pieces(parts, PARTS_AT_ONCE):
            bounds = await _check_and_stage(broker, pending, some, bounds)
        pending.staged()
    except Exception as error:
        pending.later.fail(error)


async def _check_and_stage(
    broker: Broker, pending: _Pending, parts: Sequence[_Part], bounds: Bounds
) -> Bounds:
    """What is left of the bounds. Once more if a topic has got other configs meanwhile: it may want
    keys now."""
    found = _candidates(broker, pending, parts)
    while True:
        left, candidates = bounds.copy(), list(found.values())
        results = await broker.validation.check(candidates, left, pending.context.client_host)
        now = _candidates(broker, pending, parts)
        if all(id not in found or _same(each, found[id]) for id, each in now.items()):
            _stage(broker, pending, parts, dict(zip(found, results, strict=True)))
            return left
        found = now


def _same(candidate: Candidate, other: Candidate) -> bool:
    same = candidate.config is other.config or candidate.config == other.config
    return same and (candidate.schemas is None) == (other.schemas is None)


def _candidates(broker: Broker, pending: _Pending, parts: Sequence[_Part]) -> dict[int, Candidate]:
    """The batches that there is a partition for, by the identity of their part of the request."""
    now_ms = broker.clock.now_ms()
    found: dict[int, Candidate] = {}
    for asked, part, _ in parts:
        topic = _topic(broker, asked)
        if refusal.at_once(broker, pending.request, topic, asked, part) is None:
            assert topic is not None
            log = broker.topics.partitions[topic.name, part.index].log
            schemas = broker.schema_ids.of(broker.topics, topic) if topic.configs else None
            found[id(part)] = Candidate(part.records or b"", log.config, now_ms, schemas)
    return found


def _stage(
    broker: Broker, pending: _Pending, parts: Sequence[_Part], checked: dict[int, Checked]
) -> None:
    """Store what is right, in the order of the request."""
    for asked, part, rows in parts:
        rows.append(_append(broker, pending, asked, part, checked))


def _topic(broker: Broker, asked: Any) -> Topic | None:
    topic_id = getattr(asked, "topic_id", None)
    if topic_id is not None:
        return broker.catalogue.by_id.get(topic_id)
    return broker.catalogue.topics.get(getattr(asked, "name", ""))


def _break_off_on_error(pending: _Pending) -> None:
    """With acks=0 a client learns of an error only by losing its connection, as with Kafka."""
    rows = (row for topic in pending.answer for row in topic["partition_responses"])
    failed = next((row for row in rows if row.get("error_code")), None)
    if failed is not None:
        code, sentence = ErrorCode(failed["error_code"]), failed.get("error_message")
        pending.context.connection.fail(f"acks=0 and {code.name}: {sentence}")


def _append(
    broker: Broker, pending: _Pending, asked: Any, part: Any, checked: dict[int, Checked]
) -> dict[str, Any]:
    """Stage one partition's batch; the row of the answer that it gets.

    Whether it may be stored is asked in the turn that stores it: else a transaction could end in between,
    and have a batch behind its end.
    """
    topic = _topic(broker, asked)
    row = refusal.at_once(broker, pending.request, topic, asked, part)
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
        return {"index": part.index, **refusal.fields(error)}
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


def _admit_all(broker: Broker, pending: _Pending, parts: Sequence[_Part]) -> None:
    """Tell the request's admission, if it has a transaction, which partitions it is about."""
    request = pending.request
    if request.transactional_id is None:
        return
    if pending.admission is None:
        version = pending.context.api_version
        pending.admission = Admission(broker.transactions, request.transactional_id, version)
    named = ((_topic(broker, asked), part.index) for asked, part, _ in parts)
    wanted = {(topic.name, number) for topic, number in named if topic is not None}
    pending.admission.wants(each for each in wanted if broker.partition(*each) is not None)


def _admit(pending: _Pending, partition: Partition, header: BatchHeader) -> Staged | None:
    """Only what belongs to an ongoing transaction may be stored; see `admission`."""
    if pending.admission is None:
        raise NotAdmitted(ErrorCode.transactional_id_authorization_failed)
    producer = Producer(header.producer_id, header.producer_epoch)
    return pending.admission.admit(producer, (partition.topic, partition.number))


API = Api(0, "Produce", (3, 13), produce, pipelined=True, rows_depth=2)
