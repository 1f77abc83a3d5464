"""A range of a topic's records into another topic, with keys, values, headers and timestamps as they are.

One transaction by default: readers of the target see all of it or nothing, and a replay that was interrupted
left nothing. A commit that is not answered is looked up (`outcome`), and never guessed. A range that is too
long for one transaction (`transaction.max.timeout.ms` of the broker, 15 minutes) goes in batches, each of
them a transaction; then the error says from where to go on.

The partition stays the same where both topics have as many; else a key goes where Kafka's partitioner
puts it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.client import ranges as reading
from headwater.client.errors import BadRequest, OutcomeUnknown, RequestRefused, translated
from headwater.client.librdkafka import KafkaException, Producer, TopicPartition
from headwater.client.log import SCAN_BYTES, TIMEOUT_S, Log
from headwater.client.outcome import Outcome, outcome_of
from headwater.client.places import BEGINNING, END, Place, located
from headwater.client.records import Cursor, Keep, Range, Record
from headwater.errors import HeadwaterError

TRANSACTION_MS = 900_000
_FULL_S = 0.05


@dataclass(frozen=True)
class Plan:
    """What a replay will read: the ranges are fixed here, so that it ends also where the source grows."""

    source: str
    target: str
    ranges: dict[int, Range]
    target_partitions: int
    source_partitions: int

    @property
    def offsets(self) -> int:
        return sum(end - start for start, end in self.ranges.values())


@dataclass(frozen=True)
class Replayed:
    records: int
    looked_at: int
    reached: Cursor


Progress = Callable[[int, int, int], None]
"""Offsets looked at, offsets in all, records replayed."""


def plan(
    log: Log,
    source: str,
    target: str,
    start: Place = BEGINNING,
    end: Place = END,
    partitions: list[int] | None = None,
) -> Plan:
    """`end` is the first place that is not replayed any more."""
    if source == target:
        raise BadRequest(
            f"{source} cannot be replayed into itself", hint="name another topic as the target"
        )
    held = log.ranges(source, partitions)
    first, last = located(log, source, start, held), located(log, source, end, held)
    both = [p for p, _ in first if p in last.offsets]
    ranges = {p: (first.offsets[p], max(first.offsets[p], last.offsets[p])) for p in both}
    counts = len(log.partitions(target)), len(log.partitions(source))
    return Plan(source, target, ranges, *counts)


def replay(
    log: Log,
    planned: Plan,
    keep: Keep | None = None,
    *,
    batch: int | None = None,
    progress: Progress | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Replayed:
    """`batch`: so many records in each transaction; None: all in one. `stopped`: whether somebody has pressed
    Ctrl-C, for whom an exception at any line would be too little: in a library's callback it is forgotten."""
    run = _Run(log, planned, batch, progress)
    run.stopped = stopped
    try:
        for records in reading.read(log, planned.source, planned.ranges, SCAN_BYTES):
            for record in records:
                run.take(record, keep is None or keep(record))
            run.tell()
            if stopped():
                raise KeyboardInterrupt
        run.commit()
    except KafkaException as failure:
        raise run.given_up(translated(failure.args[0], run.what, log.bootstrap)) from None
    except KeyboardInterrupt:
        run.abort()
        if not run.certain:
            raise
        raise run.given_up(RequestRefused(f"{run.what} was interrupted")) from None
    except BaseException:
        run.abort()
        raise
    return Replayed(run.sent, planned.offsets, Cursor({p: e for p, (_, e) in run.ranges.items()}))


class _Run:
    """One replay under way."""

    stopped: Callable[[], bool]

    def __init__(
        self, log: Log, planned: Plan, batch: int | None, progress: Progress | None
    ) -> None:
        self._log, self._plan, self._batch, self._progress = log, planned, batch, progress
        self.ranges = planned.ranges
        self._at = {p: start for p, (start, _) in self.ranges.items()}
        self._committed = dict(self._at)
        self.sent = self._pending = 0
        self._refused: Any = None
        self._is_open = self._is_interrupted = False
        self._witness: TopicPartition | None = None
        self._id = f"headwater-replay-{uuid.uuid4().hex}"
        try:
            self._producer = self._opened()
        except KafkaException as failure:
            raise translated(failure.args[0], self.what, log.bootstrap) from None

    def _opened(self) -> Producer:
        """A producer under this replay's id; who had that before is fenced, and its transaction decided."""
        producer = self._log.new_producer(
            transactional_id=self._id,
            transaction_timeout_ms=TRANSACTION_MS,
            message_timeout_ms=int(TIMEOUT_S * 3000),
            linger_ms=20,
            compression_type="lz4",
        )
        producer.init_transactions(TIMEOUT_S)
        return producer

    @property
    def what(self) -> str:
        return f"replaying {self._plan.source} into {self._plan.target}"

    @property
    def certain(self) -> int:
        """Records that are committed."""
        return self.sent - self._pending

    def take(self, record: Record, is_meant: bool) -> None:
        self._at[record.partition] = record.offset + 1
        if not is_meant:
            return
        if not self._is_open:
            self._producer.begin_transaction()
            self._witness = None
            self._is_open = True
        self._send(record)
        self.sent += 1
        self._pending += 1
        if self._pending == self._batch:
            self.commit()

    def tell(self) -> None:
        if self._progress is not None:
            looked = sum(at - self.ranges[p][0] for p, at in self._at.items())
            self._progress(looked, self._plan.offsets, self.sent)

    def commit(self) -> None:
        if self._is_open:
            self._producer.flush(TIMEOUT_S * 3)
            if self._refused is not None:
                raise KafkaException(self._refused)
            self._decide()
            self._is_open, self._pending = False, 0
        self._committed = dict(self._at)
        if self._batch is not None and (self._is_interrupted or self.stopped()):
            raise KeyboardInterrupt

    def _decide(self) -> None:
        try:
            self._producer.commit_transaction(TIMEOUT_S)
        except (KafkaException, KeyboardInterrupt) as failure:
            is_told = isinstance(failure, KafkaException)
            if is_told and failure.args[0].txn_requires_abort():
                raise  # the broker has refused it
            self._is_open = False  # what becomes of it is no longer ours to say
            found = outcome_of(self._log, self._fence, self._witness)
            if found is Outcome.UNKNOWN:
                raise self._undecided() from None
            if found is Outcome.ABORTED:
                raise
            self._is_interrupted = not is_told

    def _fence(self) -> None:
        self._producer = self._opened()

    def _undecided(self) -> OutcomeUnknown:
        before = f"{self.certain:,} records were replayed, and " if self.certain else ""
        assert self._witness is not None
        place = Cursor({self._witness.partition: self._witness.offset})
        go_on = f"go on with --from {Cursor(self._committed)}"
        again = "replay again" if self._batch is None else go_on
        return OutcomeUnknown(
            f"{self.what}: {before}whether the last {self._pending:,} were is not known, as the broker at "
            f"{self._log.bootstrap} did not answer their commit",
            hint=f"after {TRANSACTION_MS // 60_000} minutes it is decided: if headwater tail "
            f"{self._plan.target} --from {place} begins with that record, they were; if not, {again}",
        )

    def abort(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._producer.abort_transaction(TIMEOUT_S)
            except KafkaException:
                pass  # it times out at the broker; nobody sees its records

    def given_up(self, failure: HeadwaterError) -> Exception:
        self.abort()
        if self._batch is None and not self.certain:
            return RequestRefused(f"{failure}; nothing was replayed", hint=failure.hint)
        return RequestRefused(
            f"{failure}; {self.certain:,} records were replayed before",
            hint=f"go on with --from {Cursor(self._committed)}",
        )

    def _send(self, record: Record) -> None:
        place = self._place(record)
        words: dict[str, Any] = {} if place is None else {"partition": place}
        if record.timestamp_ms > 0:
            words["timestamp"] = record.timestamp_ms
        if record.headers:
            words["headers"] = list(record.headers)
        words |= {"value": record.value, "key": record.key, "on_delivery": self._heard}
        while True:
            try:
                self._producer.produce(self._plan.target, **words)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(_FULL_S)

    def _place(self, record: Record) -> int | None:
        if self._plan.source_partitions == self._plan.target_partitions:
            return record.partition
        return None if record.key is not None else record.partition % self._plan.target_partitions

    def _heard(self, error: Any, message: Any) -> None:
        if error is None:
            self._witness = TopicPartition(self._plan.target, message.partition(), message.offset())
        elif self._refused is None:
            self._refused = error
