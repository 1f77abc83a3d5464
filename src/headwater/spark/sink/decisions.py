"""The log of decisions: which batch of which query is committed, and of what transactions it consists.

The driver calls `decide` when all tasks of a batch have prepared their parts. From then on the batch is
committed, whatever happens: who finds the decision ends its transactions. Without a decision nothing of
a batch counts. So the whole batch hangs on one record, written in one transaction of the decider:

    topic _headwater_sink, one partition, compacted
        key     the sink's name: the query's id, inside foreachBatch with /topic
        value   JSON: {"version": 1, "batch", "run", "tasks", "parts": [[slot, rows, digest,
                transactional id, producer id, epoch, topic, partition, offset], …]}
    group headwater-sink-<sink>, partition 0 of that topic
        offset  of that record; its note is {"batch", "run"}: found with one question

The record is the truth. The group's offset only spares a reader the search; brokers forget offsets of
groups that nobody uses (`offsets.retention.minutes`, a week), and then the topic is read from its start.

Two drivers of one query (one thought dead) must not both decide: a decider first takes a new epoch of
the query's own transactional id, which fences the other, and only then looks whether there is a decision.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import json
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import creation, transaction
from headwater.client.cluster import READ_COMMITTED, Cluster, TryAgain
from headwater.client.namespace import SINK
from headwater.client.transaction import Identity
from headwater.client.verdict import read
from headwater.record import codecs
from headwater.record.records import Record, build
from headwater.spark.sink.errors import BatchRefused
from headwater.spark.sink.part import Part
from headwater.spark.sink.producer import Producing
from headwater.spark.sink.unsent import Unsent

TOPIC = SINK
PLACE = (TOPIC, 0)
_VERSION = 1
_DECIDING_MS = 20_000
"""A decision takes milliseconds; one whose driver died must not hold up the others for long."""
_FETCH_VERSION = 7
_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True)
class Decision:
    batch: int
    run: str
    """Of the query, which decided: tells a replay from a function that writes twice in a batch."""
    tasks: int
    parts: tuple[Part, ...] = ()
    """Only those with rows; empty also where only the note was read."""
    offset: int = -1


class Decisions:
    """Of one sink: a query, or one of the topics that its foreachBatch writes to."""

    def __init__(self, cluster: Cluster, sink: str) -> None:
        self._cluster = cluster
        self._sink = sink
        self.group = f"headwater-sink-{sink}"

    def noted(self) -> Decision | None:
        """The latest decision, without its parts where the group's note is there."""
        found = self._note()
        return self._search() if found is None else found

    def whole(self, known: Decision) -> Decision:
        """The decision with its parts."""
        if known.parts or known.offset < 0:
            return known
        found = self._search(known.offset) or self._search()
        if found is None:
            raise BatchRefused(
                f"Batch {known.batch} is decided, but the record that says of what it consists is gone.",
                hint=f"Topic {TOPIC} must not be deleted. Compare source and topic, and start with a "
                "new checkpoint from where the query should go on.",
            )
        return found

    def claim(self) -> tuple[Identity, Decision | None]:
        """Fence any other decider; then the latest decision, which only the holder can now change."""
        identity = transaction.begin(self._cluster, self.group, _DECIDING_MS)
        return identity, self.noted()

    def write(self, identity: Identity, decision: Decision) -> None:
        """Must follow `claim`. When this returns, the decision is durable."""
        ensure_topic(self._cluster)
        producing = Producing(self._cluster, identity, codecs.GZIP, self._cluster.deadline_s)
        record = Record(0, 0, self._sink.encode(), _encode(decision))
        whole = memoryview(bytearray(build([record])))
        producing.send([Unsent(*PLACE, 1, whole)])
        producing.flush()
        assert producing.witness is not None, "an acknowledged batch has an offset"
        note = json.dumps({"batch": decision.batch, "run": decision.run})
        offset = producing.witness[2]
        transaction.commit_offset(self._cluster, identity, self.group, PLACE, offset, note)
        if transaction.end(self._cluster, identity, commit=True) is transaction.Ended.OVER:
            raise BatchRefused(
                "Another driver of the same query took over while this one was committing.",
                hint="A checkpoint belongs to one running query: stop one of the two.",
            )

    # ---- reading ---------------------------------------------------------------------------------

    def _note(self) -> Decision | None:
        body = {
            "group_id": self.group,
            "topics": [{"name": TOPIC, "partition_indexes": [0]}],
            "require_stable": True,
        }

        def attempt() -> Decision | None:
            connection = transaction.coordinator(self._cluster, self.group, transaction.GROUP)
            answer = connection.ask(api.OFFSET_FETCH, body, _FETCH_VERSION)
            connect.check(answer.error_code, f"looking at group {self.group}")
            (found,) = answer.topics[0].partitions
            if found.error_code is ErrorCode.unstable_offset_commit:
                raise TryAgain("a decision is being made")
            connect.check(found.error_code, f"looking at group {self.group}")
            if found.committed_offset < 0 or not found.metadata:
                return None
            note = json.loads(found.metadata)
            return Decision(note["batch"], note["run"], 0, offset=found.committed_offset)

        return transaction.asking(self._cluster, attempt)

    def _search(self, start: int = 0) -> Decision | None:
        """The query's last committed record from `start` on."""
        known = self._cluster.metadata([TOPIC])
        if TOPIC not in known.topics:
            return None
        key, found = self._sink.encode(), None
        for record in read(self._cluster, PLACE, start, self._stable_end()):
            if record.key == key and record.value is not None:
                found = _decode(record)
        return found

    def _stable_end(self) -> int:
        """The end of the topic, when no transaction before it is open any more: one of another query
        would hide from us what was decided after it began."""
        end = self._cluster.list_offsets({PLACE: connect.LATEST})[PLACE]

        def attempt() -> int:
            if self._cluster.list_offsets({PLACE: connect.LATEST}, READ_COMMITTED)[PLACE] < end:
                raise TryAgain(f"a decision in {TOPIC} has not ended")
            return end

        return self._cluster.retrying(attempt)


def _encode(decision: Decision) -> bytes:
    parts = []
    for each in decision.parts:
        assert each.identity is not None and each.witness is not None, "parts with rows have both"
        who = each.identity
        named = [each.slot, each.rows, str(each.digest), who.transactional_id]
        parts.append([*named, who.producer_id, who.epoch, *each.witness])
    body = {
        "version": _VERSION,
        "batch": decision.batch,
        "run": decision.run,
        "tasks": decision.tasks,
        "parts": parts,
    }
    return json.dumps(body).encode()


def _decode(record: Record) -> Decision:
    if record.value is None:
        raise ValueError(f"offset {record.offset} of the decisions has no value")
    body: dict[str, Any] = json.loads(record.value)
    parts = tuple(
        Part(slot, rows, int(digest), Identity(name, producer, epoch), (topic, partition, offset))
        for slot, rows, digest, name, producer, epoch, topic, partition, offset in body["parts"]
    )
    return Decision(body["batch"], body["run"], body["tasks"], parts, record.offset)


def ensure_topic(cluster: Cluster) -> None:
    """Make the topic of decisions unless it is there."""
    creation.ensure_one(cluster, TOPIC, 1, _CONFIGS)
