"""Sends record batches to the leaders of their partitions, each stored once; the thread of `bulk` calls it.

One request is under way at a time, with at most one batch of a partition: so the sequence numbers of this
producer tell a broker what it has already, and a request without an answer is sent again as it was.

    answered     the next batch of the call           too large    two halves, if it is not one record
    no answer    the same again, until the deadline    refused      the call ends, the others go on

After a deadline nobody knows what the broker has counted: the producer begins a new sequence.
"""

from __future__ import annotations

from headwater.wire import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.client import cluster
from headwater.client import connection as api
from headwater.client.cluster import Cluster, TopicPartition, TryAgain
from headwater.client.connection import Disconnected
from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused
from headwater.client.log import TIMEOUT_S, Log
from headwater.edges import payloads
from headwater.edges.once_index import Span
from headwater.edges.payloads import Chunk
from headwater.errors import HeadwaterError
from headwater.record import batch as batches
from headwater.record import codecs

LEADERS_KNOWN_S = 30.0
_CODEC = codecs.LZ4
_PRODUCE_VERSION, _INIT_VERSION = 11, 4
_SEQUENCES = 1 << 31
_WAIT_S, _WAIT_MAX_S = 0.02, 0.5
_HINT = "some may be stored, and some not"
_LARGE = "the topic's max.message.bytes is the limit: headwater topics alter"
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_AGAIN = (
    ErrorCode.unknown_topic_or_partition,  # a new leader may not have heard of its topic yet
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
)
_LOST = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.duplicate_sequence_number,
    ErrorCode.unknown_producer_id,
    ErrorCode.invalid_producer_epoch,
)


@dataclass(eq=False)
class Call:
    """The values of one caller, on their way to one partition."""

    topic: str
    values: Sequence[bytes]
    place: TopicPartition = ("", -1)
    left: deque[Chunk] = field(default_factory=deque)
    first: int = -1
    last: int = -1
    error: HeadwaterError | None = None

    @property
    def is_over(self) -> bool:
        return self.error is not None or not self.left

    def spans(self) -> tuple[Span, ...]:
        return (Span(self.place[1], self.first, self.last, len(self.values)),)


class Sending:
    """A producer, and the way to each leader. For one thread at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._stack = ExitStack()
        self._connected: Cluster | None = None
        self._who: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[str, tuple[float, dict[int, int]]] = {}

    def close(self) -> None:
        self._stack.close()

    def send(self, calls: Sequence[Call]) -> None:
        """Each has its offsets, or an error, when this returns."""
        for call in calls:
            try:
                leaders = self._leaders_of(call.topic)
            except HeadwaterError as error:
                call.error = _ours(error)
                continue
            call.place = (call.topic, random.choice(list(leaders)))
            call.left.extend(payloads.chunks(call.values))
        while going := [call for call in calls if not call.is_over]:
            request: dict[TopicPartition, Call] = {}
            for call in going:
                request.setdefault(call.place, call)
            self._deliver(request)

    def fail(self, calls: Sequence[Call], error: HeadwaterError) -> None:
        """What the broker has counted is not known."""
        self._who = None
        for call in calls:
            if not call.is_over:
                call.error = error

    def _deliver(self, calls: dict[TopicPartition, Call]) -> None:
        """The next batch of each: until they are answered, or the time is up."""
        deadline, wait_s = time.monotonic() + TIMEOUT_S, _WAIT_S
        ready: dict[TopicPartition, bytes] = {}
        while True:
            try:
                for place, call in calls.items():
                    ready[place] = ready.get(place) or self._finished(call)
                self._ask(calls, ready)
                said = "it does not take records now"
            except (Disconnected, TryAgain) as error:
                said = str(error)
                self._cluster().forget()
            except HeadwaterError as error:
                self.fail(list(calls.values()), _ours(error))
                return
            if not calls:
                return
            self._leaders.clear()
            if time.monotonic() > deadline:
                late = BrokerUnreachable(
                    f"no answer from {self._log.bootstrap}: {said}", hint=_HINT
                )
                self.fail(list(calls.values()), late)
                return
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, _WAIT_MAX_S)

    def _ask(
        self, calls: dict[TopicPartition, Call], ready: Mapping[TopicPartition, bytes]
    ) -> None:
        """One request to each leader; those whose batch is dealt with leave `calls`."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, partition in calls:
            leader = self._leaders_of(topic).get(partition, -1)
            if leader < 0:
                raise TryAgain(f"{topic}-{partition} has no leader")
            by_leader.setdefault(leader, []).append((topic, partition))
        for leader, places in by_leader.items():
            body = _body({place: ready[place] for place in places})
            answer = self._cluster().node(leader).ask(api.PRODUCE, body, _PRODUCE_VERSION)
            for topic in answer.responses:
                for each in topic.partition_responses:
                    place = (topic.name, each.index)
                    if self._settled(calls[place], each.error_code, each.base_offset):
                        del calls[place]

    def _settled(self, call: Call, code: ErrorCode, base_offset: int) -> bool:
        """Whether this batch is dealt with, in one way or another."""
        count = len(call.left[0].values)
        if code is ErrorCode.none and base_offset >= 0:
            call.left.popleft()
            call.first = base_offset if call.first < 0 else call.first
            call.last = base_offset + count - 1
            self._sequences[call.place] = (self._sequences[call.place] + count) % _SEQUENCES
            return True
        if code in _AGAIN:
            return False
        if code in _TOO_LARGE and count > 1:
            _halve(call)
            return True
        if code is ErrorCode.none or code in _LOST:
            self.fail([call], BrokerUnreachable(f"{call.topic}: {code.name}", hint=_HINT))
            return True
        try:
            cluster.check(code, f"writing to {call.topic}")
        except TryAgain:
            return False
        except HeadwaterError as error:
            hint = _LARGE if code in _TOO_LARGE else error.hint
            call.error = RequestRefused(_sentence(error), hint=hint)
        return True

    def _finished(self, call: Call) -> bytes:
        """The next batch, with this producer's next number."""
        producer, epoch = self._producer()
        chunk = call.left[0]
        count, now = len(chunk.values), int(time.time() * 1000)
        sequence = self._sequences.setdefault(call.place, 0)
        header = batches.BatchHeader(
            0, 0, -1, 2, 0, _CODEC, count - 1, now, now, producer, epoch, sequence, count
        )
        return batches.pack(header, codecs.compress(_CODEC, chunk.payload))

    def _producer(self) -> tuple[int, int]:
        if self._who is None:
            new = {"transactional_id": None, "transaction_timeout": 60_000}
            body = {**new, "producer_id": -1, "producer_epoch": -1}
            answer = self._cluster().anyone().ask(api.INIT_PRODUCER_ID, body, _INIT_VERSION)
            cluster.check(answer.error_code, "becoming a producer")
            self._who = (answer.producer_id, answer.producer_epoch)
            self._sequences.clear()
        return self._who

    def _leaders_of(self, topic: str) -> dict[int, int]:
        until, leaders = self._leaders.get(topic, (0.0, {}))
        if until < time.monotonic():
            found = self._cluster().metadata([topic]).topics.get(topic)
            if found is None or not found.leaders:
                raise NotThere(f"there is no topic {topic!r}", hint="see headwater topics list")
            leaders = dict(found.leaders)
            self._leaders[topic] = (time.monotonic() + LEADERS_KNOWN_S, leaders)
        return leaders

    def _cluster(self) -> Cluster:
        if self._connected is None:
            self._connected = self._stack.enter_context(self._log.cluster())
        return self._connected


def _halve(call: Call) -> None:
    values = call.left.popleft().values
    half = len(values) // 2
    for some in (values[half:], values[:half]):
        call.left.appendleft(Chunk(some, payloads.payload(some)))


def _body(ready: dict[TopicPartition, bytes]) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), data in ready.items():
        topics.setdefault(topic, []).append({"index": partition, "records": data})
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout": int(TIMEOUT_S * 1000),
        "topic_data": [{"name": name, "partition_data": each} for name, each in topics.items()],
    }


def _ours(error: HeadwaterError) -> HeadwaterError:
    """As the edges' answers know it."""
    if isinstance(error, NotThere | RequestRefused | BrokerUnreachable):
        return error
    kind = BrokerUnreachable if isinstance(error, BrokerUnreachable) else RequestRefused
    return kind(_sentence(error), hint=error.hint)


def _sentence(error: HeadwaterError) -> str:
    """Without the hint, which Spark's errors carry in their text."""
    return str(error.args[0]).rstrip(".")
