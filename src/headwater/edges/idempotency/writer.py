"""Groups of requests, each request once, in one transaction per group; the thread of `appender` calls it.

Owns a transactional producer and the index of keys (`index`). The records go first and then, with their
positions, an entry per key:

    begin ─▶ records ─▶ delivered: positions ─▶ entries ─▶ commit ─▶ answers

So records and entry are both there or both not, also after kill -9. The producer's id is the name of the
edges: a second process of that name fences this one, and reads the entries only then. Where the outcome of a
commit is not known, the producer is made anew, which ends the old transaction one way or the other, and the
entries are read again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from headwater.client.errors import BrokerUnreachable, InstanceFenced, translated
from headwater.client.librdkafka import KafkaError, KafkaException, Producer
from headwater.client.log import TIMEOUT_S, Log
from headwater.client.publisher import Stored, words_of
from headwater.edges import counts
from headwater.edges.errors import Invalid
from headwater.edges.idempotency import key_topic
from headwater.edges.idempotency.index import Entry, KeyIndex, spans_of
from headwater.edges.idempotency.requests import Appended, Outcome, Request
from headwater.edges.topics import deleted, gone, is_anothers
from headwater.errors import HeadwaterError

HINT = "send it again under the same key: it is stored once"
_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_SENDERS_FAULT = (
    "MSG_SIZE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
    "POLICY_VIOLATION",
    "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)
_PURGED = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
AGAIN_WITHIN_S = 5.0
LOOK_S = 1.0
"""What takes longer is looked into."""
PURGED_TRIES = 3
_FORGOTTEN = counts.counter(
    "headwater_edge_keys_forgotten_early_total",
    "Idempotency keys dropped before their window ended, for want of room",
)
_KEYS = counts.gauge("headwater_edge_keys", "Idempotency keys that are remembered")


class _Gone(HeadwaterError):
    """Topics were deleted after they were found."""

    def __init__(self, topics: Collection[str]) -> None:
        super().__init__(f"{', '.join(topics)}: not there any more")
        self.topics = topics


class _Purged(BrokerUnreachable):
    """librdkafka has thrown away what was handed to it: after an abort, also some of the next transaction."""


class Writer:
    """For one thread."""

    def __init__(self, log: Log, name: str, index: KeyIndex) -> None:
        self._log = log
        self._id = f"headwater-{name}"
        self._topic = key_topic.name_of(name)
        self._index = index
        self._producer: Producer | None = None
        self._fenced: InstanceFenced | None = None

    def leave(self) -> None:
        """The producer is in a state that nobody knows: the next group gets a new one."""
        self._producer = None

    def write(self, group: Sequence[Request]) -> list[Outcome]:
        """What became of each; all keys differ."""
        began = time.monotonic()
        outcomes = self._attempt(group)
        failed = [
            index for index, each in enumerate(outcomes) if isinstance(each, BrokerUnreachable)
        ]
        quick = time.monotonic() - began < AGAIN_WITHIN_S
        if failed and quick and self._producer is None and self._fenced is None:
            # A producer may be of no use by itself: one that was idle for days, a broker that came back.
            # To try again is right in any case: what has been committed is found among the entries.
            again = self._attempt([group[index] for index in failed])
            for index, outcome in zip(failed, again, strict=True):
                outcomes[index] = outcome
        return outcomes

    def _attempt(self, group: Sequence[Request]) -> list[Outcome]:
        try:
            self._connect()
        except HeadwaterError as error:
            return [error] * len(group)
        now_ms = _now_ms()
        self._index.tidy(now_ms)
        outcomes = [self._known(each, now_ms) for each in group]
        fresh = [each for each, known in zip(group, outcomes, strict=True) if known is None]
        written = iter(self._written(fresh))
        return [next(written) if known is None else known for known in outcomes]

    def _known(self, request: Request, now_ms: int) -> Appended | Invalid | None:
        """What is remembered of it."""
        entry = self._index.get(request.key, now_ms)
        if entry is None:
            return None
        if (entry.topic, entry.digest) != (request.topic, request.digest):
            return Invalid(
                "something else was sent under this idempotency key before",
                hint="use a new key for each thing that is sent",
            )
        return Appended(entry.spans, False)

    def _written(self, fresh: list[Request]) -> Sequence[Outcome]:
        if not fresh:
            return []
        tries = PURGED_TRIES
        while True:
            try:
                return self._commit(fresh)
            except _Gone as error:
                return [gone(each.topic) if each.topic in error.topics else None for each in fresh]
            except HeadwaterError as error:
                tries -= 1
                if isinstance(error, _Purged) and tries and self._producer is not None:
                    continue
                is_alone = len(fresh) == 1 or self._producer is None
                return [error if is_alone else None] * len(fresh)

    def _commit(self, group: list[Request]) -> list[Appended]:
        """All of the group, or none of it."""
        assert self._producer is not None
        producer = self._producer
        try:
            producer.begin_transaction()
            places = self._delivered(producer, group)
            entries = [
                Entry(each.digest, each.topic, spans_of(found))
                for each, found in zip(group, places, strict=True)
            ]
            at_ms = _now_ms()
            for each, entry in zip(group, entries, strict=True):
                producer.produce(self._topic, entry.to_json(), each.key, timestamp=at_ms)
            key_topic.commit(producer)
        except KafkaException as failure:
            error = self._translated(failure.args[0], group)
            self._abort(producer, failure.args[0])
            raise self._fenced or error from None
        except HeadwaterError:
            self._abort(producer, None)
            raise
        for each, entry in zip(group, entries, strict=True):
            self._index.put(each.key, entry.to_json(), at_ms)
        self._count()
        return [Appended(entry.spans, True) for entry in entries]

    def _delivered(self, producer: Producer, group: list[Request]) -> list[list[Stored]]:
        """The records of each request, and where they are; those without a key stay together, in order."""
        found: list[list[Stored]] = [[] for _ in group]
        failed: list[Any] = []
        taken: Counter[str] = Counter()
        for each, places in zip(group, found, strict=True):
            words = {"on_delivery": partial(key_topic.heard, places, failed)}
            keyless = {**words, "partition": random.choice(each.partitions)}
            for draft in each.drafts:
                size = draft.batch_bytes if each.batches else 0
                if size and taken[each.topic] + size > each.room and taken[each.topic]:
                    self._flush(producer, group, failed)
                    taken.clear()
                taken[each.topic] += size
                given = {**(keyless if draft.key is None else words), **words_of(draft)}
                key_topic.produce(producer, each.topic, given)
        self._flush(producer, group, failed)
        return found

    def _flush(
        self, producer: Producer, group: Sequence[Request], failed: Sequence[KafkaError]
    ) -> None:
        """Wait for what was handed over: what comes after is in other batches."""
        deadline = time.monotonic() + TIMEOUT_S
        while key_topic.flushed(producer, LOOK_S) and not failed:
            missing = deleted(self._log, {each.topic for each in group})
            if missing:
                raise _Gone(missing)
            if time.monotonic() > deadline:
                raise BrokerUnreachable(f"no answer from {self._log.bootstrap}", hint=HINT)
        if failed:
            raise KafkaException(min(failed, key=is_anothers))

    def _abort(self, producer: Producer, error: Any) -> None:
        """Leaves a producer that can begin anew, or none."""
        if error is not None and error.name() in _FENCED:
            self._fenced = InstanceFenced(
                f"another process has taken over as {self._id}",
                hint="give each edges process a name of its own: name = … under [edges]",
            )
        if error is not None and error.fatal():
            self._producer = None
            return
        try:
            producer.abort_transaction(TIMEOUT_S)
        except KafkaException:
            self._producer = None  # it may be committed or not: the next one sees

    def _connect(self) -> None:
        """A producer that has fenced all earlier ones; only then the keys that they have left."""
        if self._fenced is not None:
            raise self._fenced
        if self._producer is not None:
            return
        key_topic.ensure(self._log, self._topic, self._index.window_ms)
        producer = self._log.new_producer(
            transactional_id=self._id,
            linger_ms=1,
            compression_type="lz4",
        )
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException as failure:
            raise self._translated(failure.args[0], []) from None
        self._index.clear()
        for key, value, at_ms in key_topic.read(self._log, self._topic):
            self._index.put(key, value, at_ms)
        self._producer = producer
        self._count()

    def _count(self) -> None:
        _KEYS.set(len(self._index))
        _FORGOTTEN.inc(self._index.forgotten_early)
        self._index.forgotten_early = 0

    def _translated(self, error: Any, group: list[Request]) -> HeadwaterError:
        """Whoever sends is at fault for a few things only; after all others the same request is right."""
        topics = sorted({each.topic for each in group}) or [self._topic]
        found = translated(error, f"appending to {', '.join(topics)}", self._log.bootstrap)
        if isinstance(found, BrokerUnreachable) or error.name() in _SENDERS_FAULT:
            return found
        if error.name() in _PURGED:
            return _Purged(str(found), hint=HINT)
        return BrokerUnreachable(str(found), hint=HINT)


def _now_ms() -> int:
    return int(time.time() * 1000)
