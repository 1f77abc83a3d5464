"""Sends a transaction's record batches to the leaders of their partitions, and waits until all are safe.

`part` calls `send` for each Arrow batch and `flush` at the end. Up to `WINDOW` requests per broker are on
their way, at most 5: so many batches of a producer a broker knows again, by their sequence numbers.

When a broker goes away, or does not lead any more: take the answers that still come, ask anew who leads,
and send what is not acknowledged again, one request at a time and in order, until the deadline.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client.cluster import Cluster, Metadata, TopicPartition, TryAgain
from headwater.client.connection import Disconnected
from headwater.client.errors import TransactionLost, UnknownTopic
from headwater.client.transaction import PRODUCE_VERSION, Identity, add_partitions
from headwater.spark.sink.errors import WriteRefused
from headwater.spark.sink.unsent import Unsent, finish

WINDOW = 4
_USE = "produce"  # a connection of its own: only here in the sink do requests run ahead of answers
_REQUEST_BYTES_MAX = 8 << 20
_REQUEST_TIMEOUT_MS = 30_000
_LOST = (
    ErrorCode.invalid_producer_epoch,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.unknown_producer_id,
    ErrorCode.transaction_abortable,
)
_AGAIN = (
    ErrorCode.out_of_order_sequence_number,  # where an earlier batch did not arrive
    ErrorCode.unknown_topic_or_partition,  # a new leader may not have heard of its topic yet
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.concurrent_transactions,
)
_TOO_LARGE = (
    "as too large",
    "Lower kafka.batch.size, or, if one record is that large, raise the topic's max.message.bytes.",
)
_FOR_GOOD = {
    ErrorCode.message_too_large: _TOO_LARGE,
    ErrorCode.record_list_too_large: _TOO_LARGE,
    ErrorCode.invalid_timestamp: (
        "for its time, which is now",
        "Compare the clocks of this machine and of the broker, and look at the topic's "
        "message.timestamp.before.max.ms and .after.max.ms.",
    ),
    ErrorCode.invalid_record: (
        "with a record that it may not have (INVALID_RECORD)",
        "A compacted topic takes no record without a key: give the view a key=, or look at the topic's "
        "cleanup.policy.",
    ),
    ErrorCode.policy_violation: (
        "for its policy (POLICY_VIOLATION)",
        "Ask who runs the broker what it forbids.",
    ),
}
"""What the same batch would be told again, however often it is sent; and what to do."""


@dataclass
class Batch:
    """A record batch that is sent, or about to be."""

    place: TopicPartition
    data: memoryview
    acknowledged: bool = False


Request = list[Batch]


class Producing:
    """The sending side of one transaction."""

    def __init__(self, cluster: Cluster, identity: Identity, codec: int, deadline_s: float) -> None:
        self._cluster = cluster
        self._identity = identity
        self._codec = codec
        self._deadline_s = deadline_s
        self._added: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: Metadata | None = None
        self._flying: dict[int, deque[Request]] = {}
        self.witness: tuple[str, int, int] | None = None
        """Topic, partition and offset of one batch: where to see whether the transaction committed."""

    def send(self, unsent: list[Unsent]) -> None:
        """Send; waits only while the window is full."""
        new = {(each.topic, each.partition) for each in unsent} - self._added
        if new:
            add_partitions(self._cluster, self._identity, new)
            self._added |= new
        batches = [self._finish(each) for each in unsent]
        try:
            for node_id, request in self._requests(batches):
                self._launch(node_id, request)
        except (Disconnected, TryAgain):
            self._recover([each for each in batches if not each.acknowledged])

    def flush(self) -> None:
        """Return when every batch is acknowledged."""
        try:
            for node_id in list(self._flying):
                while self._flying[node_id]:
                    self._land(node_id)
        except (Disconnected, TryAgain):
            self._recover([])

    def _finish(self, unsent: Unsent) -> Batch:
        place = (unsent.topic, unsent.partition)
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + unsent.size) % (1 << 31)
        who = self._identity
        return Batch(place, finish(unsent, self._codec, who.producer_id, who.epoch, sequence))

    # ---- on the way ------------------------------------------------------------------------------

    def _requests(self, batches: Iterable[Batch]) -> Iterable[tuple[int, Request]]:
        """Requests in order; each has at most one batch of a partition, as the protocol demands."""
        gathered: dict[int, Request] = {}
        for batch in batches:
            node_id = self._leader(batch.place)
            request = gathered.setdefault(node_id, [])
            full = sum(len(each.data) for each in request) + len(batch.data) > _REQUEST_BYTES_MAX
            if full or any(each.place == batch.place for each in request):
                yield node_id, request
                request = gathered[node_id] = []
            request.append(batch)
        yield from ((node_id, request) for node_id, request in gathered.items() if request)

    def _leader(self, place: TopicPartition) -> int:
        topic, partition = place
        if self._leaders is None or topic not in self._leaders.topics:
            self._leaders = self._cluster.metadata({each for each, _ in self._added})
        known = self._leaders.topics.get(topic)
        if known is None:
            raise UnknownTopic(
                f"Topic {topic!r} is gone.",
                hint="It was deleted while the query was writing to it.",
            )
        leader = known.leaders.get(partition, -1)
        if leader < 0:
            raise TryAgain(f"{topic}-{partition} has no leader")
        return leader

    def _launch(self, node_id: int, request: Request) -> None:
        flying = self._flying.setdefault(node_id, deque())
        while len(flying) >= WINDOW:
            self._land(node_id)
        flying.append(request)
        self._cluster.node(node_id, _USE).send(api.PRODUCE, self._body(request), PRODUCE_VERSION)

    def _land(self, node_id: int) -> None:
        """Take the next answer. Raises TryAgain if a batch in it must be sent again."""
        node = self._cluster.node(node_id, _USE)
        if not node.pending:
            raise Disconnected("the connection on which the answer would come is gone")
        answer = node.receive()
        self._settle(self._flying[node_id].popleft(), answer)

    def _body(self, request: Request) -> dict[str, Any]:
        topics: dict[str, list[dict[str, Any]]] = {}
        for each in request:
            data = {"index": each.place[1], "records": each.data}
            topics.setdefault(each.place[0], []).append(data)
        return {
            "transactional_id": self._identity.transactional_id,
            "acks": -1,
            "timeout": _REQUEST_TIMEOUT_MS,
            "topic_data": [{"name": name, "partition_data": each} for name, each in topics.items()],
        }

    def _settle(self, request: Request, answer: Any) -> None:
        waiting = {each.place: each for each in request}
        again: list[str] = []
        for topic in answer.responses:
            for each in topic.partition_responses:
                batch = waiting[topic.name, each.index]
                if _is_stored(each.error_code, f"{topic.name}-{each.index}"):
                    batch.acknowledged = True
                    if each.base_offset >= 0 and self.witness is None:
                        self.witness = (topic.name, each.index, each.base_offset)
                else:
                    again.append(f"{topic.name}-{each.index}: {each.error_code.name}")
        if again:
            # What was not acknowledged is kept for `_recover`, which sends it again.
            left = [each for each in request if not each.acknowledged]
            self._flying.setdefault(-1, deque()).append(left)
            raise TryAgain("; ".join(again))

    # ---- when something went wrong ---------------------------------------------------------------

    def _recover(self, more: list[Batch]) -> None:
        """Have everything that was not acknowledged, and then `more`, acknowledged one by one."""
        self._take_what_comes()
        lost = [each for queue in self._flying.values() for request in queue for each in request]
        self._flying.clear()
        known = {id(each) for each in lost}
        # Within a partition order matters, and there the sequence numbers tell it.
        todo = lost + [each for each in more if id(each) not in known]
        todo.sort(key=lambda each: (each.place, int.from_bytes(each.data[53:57], "big")))
        for batch in todo:
            if not batch.acknowledged:
                self._cluster.retrying(self._once(batch), self._deadline_s)

    def _take_what_comes(self) -> None:
        for node_id, flying in list(self._flying.items()):
            try:
                while node_id >= 0 and flying:
                    try:
                        self._land(node_id)
                    except TryAgain:
                        continue
            except Disconnected:
                pass
        self._cluster.forget()

    def _once(self, batch: Batch) -> Callable[[], None]:
        def attempt() -> None:
            if batch.acknowledged:
                return
            self._leaders = None
            node = self._cluster.node(self._leader(batch.place), _USE)
            answer = node.ask(api.PRODUCE, self._body([batch]), PRODUCE_VERSION)
            try:
                self._settle([batch], answer)
            finally:
                self._flying.clear()

        return attempt


def _is_stored(code: ErrorCode, place: str) -> bool:
    """False if it must be sent again; raises where that would not help."""
    if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
        return True
    if code in _LOST:
        raise TransactionLost(
            f"Writing to {place} failed: {code.name}. The transaction has ended already.",
            hint="Either a younger attempt took over, or the batch took longer than "
            "kafka.transaction.timeout.ms: Spark runs the task or the batch again.",
        )
    if code in _FOR_GOOD:
        said, hint = _FOR_GOOD[code]
        raise WriteRefused(f"{place} refuses a batch {said}.", hint=hint, code=int(code))
    if code in _AGAIN:
        return False
    try:
        connect.check(code, f"writing to {place}")
    except TryAgain:
        return False
    raise AssertionError("unreachable")
