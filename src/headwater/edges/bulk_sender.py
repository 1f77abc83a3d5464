"""Sends record batches to the leaders of their partitions, each stored once; the thread of `bulk` calls it.

One request is under way at a time, with at most one batch of a partition: so the sequence numbers of this
producer tell a broker what it has already, and a batch without an answer is sent again as it was.

    answered     the next batch of the call            too large    two halves, if it is not one record
    no answer    the same again, until the deadline    refused      the call ends, the others go on

Each call has its own outcome, deadline and wait: one whose topic is gone, or takes nothing now, is nothing to
the others. After a deadline nobody knows what the broker has counted: the producer begins a new sequence.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from headwater.client import cluster
from headwater.client import connection as api
from headwater.client.cluster import Cluster, TopicPartition, TryAgain
from headwater.client.connection import Disconnected
from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused
from headwater.client.log import TIMEOUT_S, Log
from headwater.edges.bulk_call import Batch, Call
from headwater.edges.topics import too_large
from headwater.errors import HeadwaterError
from headwater.record import batch as batches
from headwater.record import codecs

LEADERS_KNOWN_S = 30.0
_CODEC = codecs.LZ4
_PRODUCE_VERSION, _INIT_VERSION = 11, 4
_SEQUENCES = 1 << 31
_HINT = "some may be stored, and some not"
_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
Result = TypeVar("Result")
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

    def send_next(self, calls: Sequence[Call]) -> None:
        """The next batch of each, as far as it can go now; of a partition, that of the first of them."""
        now = time.monotonic()
        request: dict[TopicPartition, Call] = {}
        for call in calls:
            if not call.is_placed and call.again_at <= now:
                self._trying(call, self._find_place)
            if call.is_placed and not call.is_over:
                request.setdefault(call.place, call)
        by_leader: dict[int, list[Call]] = {}
        for call in request.values():
            if call.again_at <= now:
                leader = self._trying(call, self._made_ready)
                if leader is not None:
                    by_leader.setdefault(leader, []).append(call)
        for leader, some in by_leader.items():
            self._ask(leader, some)

    def fail(self, calls: Sequence[Call], error: HeadwaterError) -> None:
        """What the broker has counted is not known."""
        self._who = None
        for call in calls:
            if not call.is_over:
                call.error = error

    def _trying(self, call: Call, attempt: Callable[[Call], Result]) -> Result | None:
        """None: it has failed, for this call alone."""
        try:
            return attempt(call)
        except (Disconnected, TryAgain) as error:
            self._cluster().forget()
            self._later(call, str(error))
        except HeadwaterError as error:
            if call.batch is None:
                call.error = _ours(error)
            else:
                self.fail([call], _ours(error))
        return None

    def _find_place(self, call: Call) -> None:
        call.placed(random.choice(list(self._leaders_of(call.topic))))

    def _made_ready(self, call: Call) -> int:
        """Its leader, to whom its batch can go."""
        leader = self._leaders_of(call.topic).get(call.place[1], -1)
        if leader < 0:
            raise TryAgain(f"{call.topic}-{call.place[1]} has no leader")
        call.batch = call.batch or self._finished(call)
        return leader

    def _later(self, call: Call, said: str) -> None:
        """The same again after a pause, or its end."""
        self._leaders.pop(call.topic, None)
        now = time.monotonic()
        call.deadline = call.deadline or now + TIMEOUT_S
        if now > call.deadline:
            late = BrokerUnreachable(f"no answer from {self._log.bootstrap}: {said}", hint=_HINT)
            self.fail([call], late)
            return
        call.halt(now)

    def _ask(self, leader: int, calls: Sequence[Call]) -> None:
        """One request; what is not answered goes again later."""
        by_place = {call.place: call for call in calls}
        said = "it does not take records now"
        try:
            body = _body({call.place: call.batch.data for call in calls if call.batch is not None})
            answer = self._cluster().node(leader).ask(api.PRODUCE, body, _PRODUCE_VERSION)
            for topic in answer.responses:
                for each in topic.partition_responses:
                    place = (topic.name, each.index)
                    if self._settled(by_place[place], each.error_code, each.base_offset):
                        del by_place[place]
        except (Disconnected, TryAgain) as error:
            said = str(error)
            self._cluster().forget()
        except HeadwaterError as error:
            self.fail(list(by_place.values()), _ours(error))
            return
        for call in by_place.values():
            self._later(call, said)

    def _settled(self, call: Call, code: ErrorCode, base_offset: int) -> bool:
        """Whether this batch is dealt with, in one way or another."""
        assert call.batch is not None
        count = len(call.left[0].values)
        if code is ErrorCode.none and base_offset >= 0:
            if call.batch.producer == self._who:
                self._sequences[call.place] = (call.batch.sequence + count) % _SEQUENCES
            call.stored(base_offset)
            return True
        if code in _AGAIN:
            return False
        if code in _TOO_LARGE and count > 1:
            call.halve()
            return True
        if code is ErrorCode.none or code in _LOST:
            self.fail([call], BrokerUnreachable(f"{call.topic}: {code.name}", hint=_HINT))
            return True
        try:
            cluster.check(code, f"writing to {call.topic}")
        except TryAgain:
            return False
        except HeadwaterError as error:
            is_large = code in _TOO_LARGE
            limit = call.batch_bytes_max
            refused = RequestRefused(_sentence(error), hint=error.hint)
            call.error = too_large(call.topic, limit) if is_large else refused
        return True

    def _finished(self, call: Call) -> Batch:
        """The next batch, with this producer's next number."""
        who = producer, epoch = self._producer()
        chunk = call.left[0]
        count, now = len(chunk.values), int(time.time() * 1000)
        sequence = self._sequences.setdefault(call.place, 0)
        header = batches.BatchHeader(
            0, 0, -1, 2, 0, _CODEC, count - 1, now, now, producer, epoch, sequence, count
        )
        return Batch(who, sequence, batches.pack(header, codecs.compress(_CODEC, chunk.payload)))

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
