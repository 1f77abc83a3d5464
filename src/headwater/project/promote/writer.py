"""Writes the steps of one partition to Kafka, and sees at each that it got the offset that it must have.

`partitions` calls it. One step follows the other: what a broker acknowledges is where it belongs, or the
partition has Diverged and is begun afresh. After a broken connection the partition's own end tells how far
it had come, as every offset has one owner.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import time
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import transaction
from headwater.client.cluster import Cluster, TopicPartition
from headwater.client.leader import Leader
from headwater.client.transaction import Identity
from headwater.project.promote.errors import CannotPromote, Diverged
from headwater.project.promote.sender import Sender, SentBatch
from headwater.project.promote.steps import Abort, Data, Gap, Step, sent_by
from headwater.record import codecs, records
from headwater.record.records import Record

WRITE_TXN_MARKERS = 27
MARKERS_AT_ONCE = 500
FILLERS_AT_ONCE = 50_000
FILLER = b"headwater-promote-filler"
TRANSACTION_MS = 900_000
"""How long an aborted transaction may take to be written again; brokers allow no more by themselves."""
SLOTS = 4
"""Transactional ids that an earlier run may have left open; more are rarely needed at once."""
_TIMEOUT_MS = 30_000
_MARKER_S = 30.0
_SEQUENCES = 1 << 31


class PartitionWriter:
    """The only writer of one new partition."""

    def __init__(self, cluster: Cluster, place: TopicPartition, *, may_mark: bool = True) -> None:
        """`may_mark`: whether to try markers alone first, which needs the right ClusterAction."""
        self._cluster = cluster
        self._place = place
        self._leader = Leader(cluster, place)
        self._sender = Sender(self._leader)
        self._own: Identity | None = None
        self._last: Identity | None = None
        self._marking: Identity | None = None
        self._sequence = 0
        self._open: dict[int, tuple[Identity, int]] = {}
        """Producers of the old log whose aborted transaction is being written: who does it, sequence."""
        self._slots: list[Identity] = []
        """Transactional ids that are free."""
        self._claimed = 0
        self._may_mark = may_mark

    def end(self) -> int:
        return self._leader.end()

    @property
    def has_open(self) -> bool:
        """Whether a transaction that must be aborted waits for its end."""
        return bool(self._open)

    def fence(self) -> None:
        """End what an earlier run may have left open; it takes offsets, so ask for `end` afterwards."""
        self._slots = [self._claim(number) for number in range(SLOTS)]
        self._claimed = SLOTS

    def write(self, step: Step) -> None:
        """Do one step; records may still be on their way, see `flush`."""
        if isinstance(step, Data):
            self._data(step)
            return
        self.flush()
        if isinstance(step, Abort):
            self._abort(step)
        else:
            self._gap(step)

    def flush(self) -> None:
        """Return when everything is where it belongs."""
        self._sender.flush()

    def fill(self, first: int, count: int) -> None:
        """Take offsets with records that are deleted afterwards."""
        done = 0
        while done < count:
            size = min(FILLERS_AT_ONCE, count - done)
            found = [Record(number, 0, FILLER, None) for number in range(size)]
            self._data(Data(first + done, size, records.build(found, codec=codecs.GZIP)))
            done += size
        self.flush()

    # ---- records ----------------------------------------------------------------------------------

    def _data(self, step: Data) -> None:
        if step.producer is None:
            if self._own is None:
                self._own, self._sequence = self._producer(), 0
            who, sequence = self._own, self._sequence
            self._sequence = (sequence + step.count) % _SEQUENCES
        else:
            who, sequence = self._transaction(step.producer)
            self._open[step.producer] = (who, sequence + step.count)
        if who != self._last:
            self.flush()  # sequences keep the order of one producer only
            self._last = who
        transactional = step.producer is not None
        batch = sent_by(
            step.batch, who.producer_id, who.epoch, sequence, transactional=transactional
        )
        self._sender.send(SentBatch(step.first, batch, who.transactional_id or None))

    # ---- markers ----------------------------------------------------------------------------------

    def _gap(self, step: Gap) -> None:
        done = 0
        while done < step.count:
            size = min(MARKERS_AT_ONCE, step.count - done)
            if not (self._may_mark and self._mark(size)):
                size = 1
                self._empty_transaction()
            done += size
            self._until_end(step.first + done)

    def _mark(self, count: int) -> bool:
        """Markers alone, many at once, as kafka-transactions.sh writes them; False: not allowed to."""
        if self._marking is None:
            self._marking = self._producer()
        topic, partition = self._place
        marker = {
            "producer_id": self._marking.producer_id,
            "producer_epoch": self._marking.epoch,
            "transaction_result": True,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
            "coordinator_epoch": 0,
        }
        before = self.end()

        def attempt(connection: api.Connection) -> bool:
            # Nothing tells two markers apart: after a broken connection see how many are there.
            left = before + count - self.end()
            if left <= 0:
                return True
            if WRITE_TXN_MARKERS not in connection.versions:
                return False
            answer = connection.ask(WRITE_TXN_MARKERS, {"markers": [marker] * left}, 1)
            codes = {p.error_code for m in answer.markers for t in m.topics for p in t.partitions}
            if ErrorCode.cluster_authorization_failed in codes:
                return False
            for code in codes:
                connect.check(code, f"writing markers to {topic}-{partition}")
            return True

        self._may_mark = self._leader.ask(attempt)
        return self._may_mark

    def _empty_transaction(self) -> None:
        """One marker by a transaction without records: for whom the marker alone is not allowed."""
        who = self._slot()
        transaction.add_partitions(self._cluster, who, [self._place])
        transaction.end(self._cluster, who, commit=True)
        self._slots.append(who)

    def _abort(self, step: Abort) -> None:
        who, _ = self._open.pop(step.producer)
        transaction.end(self._cluster, who, commit=False)
        self._slots.append(who)
        self._until_end(step.first + 1)

    def _until_end(self, end: int) -> None:
        """A coordinator writes its markers after its answer."""
        deadline = time.monotonic() + _MARKER_S
        while (now := self.end()) < end:
            if time.monotonic() > deadline:
                raise CannotPromote(f"{self._name}: a marker did not appear at offset {end - 1}")
            time.sleep(0.002)
        if now > end:
            raise Diverged(f"{self._name} ends at {now} instead of {end}")

    # ---- producers --------------------------------------------------------------------------------

    def _transaction(self, producer: int) -> tuple[Identity, int]:
        if producer not in self._open:
            # A new epoch, as sequences start anew with it; nothing of the id is open, so no marker.
            name = self._slot().transactional_id
            who = transaction.begin(self._cluster, name, TRANSACTION_MS)
            transaction.add_partitions(self._cluster, who, [self._place])
            self._open[producer] = (who, 0)
        return self._open[producer]

    def _slot(self) -> Identity:
        if not self._slots:
            self._claimed += 1
            return self._claim(self._claimed - 1)
        return self._slots.pop(0)

    def _claim(self, number: int) -> Identity:
        topic, partition = self._place
        name = f"headwater-promote-{topic}-{partition}-{number}"
        return transaction.begin(self._cluster, name, TRANSACTION_MS)

    def _producer(self) -> Identity:
        """An idempotent producer, without transactions."""
        body: dict[str, Any] = {
            "transactional_id": None,
            "transaction_timeout": _TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }

        def attempt() -> Identity:
            answer = self._cluster.anyone().ask(api.INIT_PRODUCER_ID, body, 4)
            connect.check(answer.error_code, "asking for a producer id")
            return Identity("", answer.producer_id, answer.producer_epoch)

        return self._cluster.retrying(attempt)

    @property
    def _name(self) -> str:
        return f"{self._place[0]}-{self._place[1]}"
