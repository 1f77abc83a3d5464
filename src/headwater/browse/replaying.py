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

from confluent_kafka import KafkaException, Producer, TopicPartition

from headwater.browse import ranges as reading
from headwater.browse.errors import Misunderstood, Refused, Undecided, translated
from headwater.browse.filters import Keep
from headwater.browse.log import SCAN_BYTES, TIMEOUT_S, Log
from headwater.browse.outcome import Outcome, outcome_of
from headwater.browse.places import BEGINNING, END, Place, located
from headwater.browse.records import Cursor, Range, Record

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
        raise Misunderstood(
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
) -> Replayed:
    """`batch`: so many records in each transaction; None: all in one."""
    run = _Run(log, planned, batch, progress)
    try:
        for records in reading.read(log, planned.source, planned.ranges, SCAN_BYTES):
            for record in records:
                run.take(record, keep is None or keep(record))
            run.tell()
        run.commit()
    except KafkaException as failure:
        raise run.given_up(failure.args[0]) from None
    except BaseException:
        run.abort()
        raise
    return Replayed(run.sent, planned.offsets, Cursor({p: e for p, (_, e) in run.ranges.items()}))


class _Run:
    """One replay under way."""

    def __init__(
        self, log: Log, planned: Plan, batch: int | None, progress: Progress | None
    ) -> None:
        self._log, self._plan, self._batch, self._progress = log, planned, batch, progress
        self.ranges = planned.ranges
        self._at = {p: start for p, (start, _) in self.ranges.items()}
        self._committed = dict(self._at)
        self.sent = self._pending = 0
        self._refused: Any = None
        self._is_open = False
        self._witness: TopicPartition | None = None
        self._id = f"headwater-replay-{uuid.uuid4().hex}"
        try:
            self._producer = self._opened()
        except KafkaException as failure:
            raise translated(failure.args[0], self._what, log.bootstrap) from None

    def _opened(self) -> Producer:
        """A producer under this replay's id; who had that before is fenced, and its transaction decided."""
        producer = self._log.new_producer(
            transactional_id=self._id,
            transaction_timeout_ms=TRANSACTION_MS,
            message_timeout_ms=int(TIMEOUT_S * 3000),
            linger_ms=20,
            compression_type="lz4",
            metadata_recovery_strategy="none",  # see docs/transactions.md
        )
        producer.init_transactions(TIMEOUT_S)
        return producer

    @property
    def _what(self) -> str:
        return f"replaying {self._plan.source} into {self._plan.target}"

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
            if found is Outcome.ABORTED or not is_told:
                raise

    def _fence(self) -> None:
        self._producer = self._opened()

    def _undecided(self) -> Undecided:
        certain = self.sent - self._pending
        before = f"{certain:,} records were replayed, and " if certain else ""
        assert self._witness is not None
        place = Cursor({self._witness.partition: self._witness.offset})
        again = (
            "replay again"
            if self._batch is None
            else f"go on with --from {Cursor(self._committed)}"
        )
        return Undecided(
            f"{self._what}: {before}whether the last {self._pending:,} were is not known, as the broker at "
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

    def given_up(self, error: Any) -> Exception:
        self.abort()
        failure = translated(error, self._what, self._log.bootstrap)
        if self._batch is None:
            return Refused(f"{failure}; nothing was replayed", hint=failure.hint)
        done = self.sent - self._pending
        return Refused(
            f"{failure}; {done:,} records were replayed before",
            hint=f"go on with --from {Cursor(self._committed)}",
        )

    def _send(self, record: Record) -> None:
        place = self._place(record)
        words: dict[str, Any] = {} if place is None else {"partition": place}
        if record.timestamp_ms > 0:
            words["timestamp"] = record.timestamp_ms
        if record.headers:
            words["headers"] = list(record.headers)
        while True:
            try:
                self._producer.produce(
                    self._plan.target,
                    record.value,
                    record.key,
                    on_delivery=self._heard,
                    **words,
                )
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
