"""Who asks: a question is produced, its answer awaited.

    with Asker("127.0.0.1:9092", replies="balance-replies") as asker:
        answer = asker.ask("balance-requests", "ada", {"account": "ada"}, timeout=5)

One thread reads the topic of the answers and wakes whoever waits for one; many threads may ask at once.
Answers that nobody waits for (somebody else's, or too late) are left alone.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import HeadwaterError
from headwater.pipelines.context import DEFAULT_BOOTSTRAP
from headwater.processing.request_reply.headers import CORRELATION_ID, REPLY_TOPIC, REQUEST

_log = logging.getLogger("headwater.processing")

OPEN_MOST = 10_000
"""Questions that wait for an answer at one time."""
START_S = 10.0
_POLL_S = 0.1
_AGAIN_S = 1.0
_RETENTION_MS = "3600000"


class NotAnswered(HeadwaterError):
    """There is no answer, at least not in time."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    value: object
    """JSON, decoded; None where the record has no value."""
    key: bytes | None
    request: str
    """TOPIC:PARTITION=OFFSET of the question."""
    headers: dict[str, bytes | None] = field(default_factory=dict)


def ask(
    topic: str,
    key: str | bytes | None,
    value: object,
    timeout: float = 10.0,
    *,
    bootstrap: str | None = None,
    replies: str | None = None,
) -> Answer:
    """One question. Whoever asks more often keeps an `Asker`: to begin costs more than to ask."""
    with Asker(bootstrap, replies=replies or f"{topic}.replies") as asker:
        return asker.ask(topic, key, value, timeout)


class Asker:
    """Asks, and receives the answers in the topic `replies`, which is made where it is missing."""

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        replies: str,
        client: Mapping[str, object] | None = None,
    ) -> None:
        from headwater.client.librdkafka import Consumer, Producer
        from headwater.client.options import enduring

        address = bootstrap or os.environ.get("HEADWATER_BOOTSTRAP") or DEFAULT_BOOTSTRAP
        own: dict[str, Any] = {"log_level": 0, **enduring(client), "bootstrap.servers": address}
        self.replies = replies
        self.failures = 0
        """Answers that were not understood, and reads that failed."""
        self._waiting: dict[bytes, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        _ensure(own, replies)
        # Idempotent: a question that the client sends again is in the log once. No waiting for others.
        self._producer = Producer({**own, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer(
            {
                **own,
                "group.id": f"headwater-asker-{uuid.uuid4()}",  # not joined: it only has to have one
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._begin()
        self._thread = threading.Thread(target=self._read, name="headwater-asker", daemon=True)
        self._thread.start()

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self, topic: str, key: str | bytes | None, value: object, timeout: float = 10.0
    ) -> Answer:
        """Send a question, and wait for its answer; NotAnswered when the time is over.

        `value` is written as JSON, unless it is bytes. A question that was not answered in time is still in
        the log, and will be answered; ask again only what may be asked twice.
        """
        deadline = time.monotonic() + timeout
        correlation = uuid.uuid4().bytes
        future: Future[Answer] = Future()
        with self._lock:
            if len(self._waiting) >= OPEN_MOST:
                raise NotAnswered(f"{OPEN_MOST} questions wait for an answer already")
            self._waiting[correlation] = future
        try:
            place = self._send(topic, key, value, correlation, deadline)
            try:
                return future.result(max(0.0, deadline - time.monotonic()))
            except OutOfTime:
                raise NotAnswered(
                    f"no answer from {topic} within {timeout:g} s; the question is at {place}",
                    hint="does the view run that answers (headwater status)? A question that it cannot "
                    "answer is among its dead letters",
                ) from None
        finally:
            with self._lock:
                self._waiting.pop(correlation, None)

    def close(self) -> None:
        """Stop reading. Whoever still waits is told."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _send(self, topic: str, key: Any, value: Any, correlation: bytes, deadline: float) -> str:
        sent: Future[str] = Future()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                sent.set_exception(NotAnswered(f"{topic} did not take the question: {error.str()}"))
            else:
                sent.set_result(f"{topic}:{message.partition()}={message.offset()}")

        self._producer.produce(
            topic,
            value if value is None or isinstance(value, bytes) else _json(value),
            key,
            headers=[(REPLY_TOPIC, self.replies.encode()), (CORRELATION_ID, correlation)],
            on_delivery=delivered,
        )
        while not sent.done() and time.monotonic() < deadline:
            self._producer.poll(min(_POLL_S, max(0.0, deadline - time.monotonic())))
        if not sent.done():
            raise NotAnswered(
                f"{topic} did not take the question in time", hint="does the broker run?"
            )
        return sent.result()

    # ---- answers ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read from the end on: found now, before any question is asked."""
        from headwater.client.librdkafka import KafkaException, TopicPartition

        try:
            known = self._consumer.list_topics(self.replies, timeout=START_S).topics[self.replies]
            places = [TopicPartition(self.replies, number) for number in known.partitions]
            for each in places:
                each.offset = self._consumer.get_watermark_offsets(each, timeout=START_S)[1]
        except KafkaException as error:
            self._consumer.close()
            raise NotAnswered(f"the topic {self.replies} cannot be read: {error}") from error
        self._consumer.assign(places)

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                for message in self._consumer.consume(500, _POLL_S):
                    if message.error() is None:
                        self._hand_over(message)
            except Exception:  # the thread is there for all who wait, and those who will
                self.failures += 1
                _log.exception("%s: reading answers failed", self.replies)
                self._ended.wait(_AGAIN_S)
        with self._lock:
            waiting = list(self._waiting.values())
        for future in waiting:
            future.set_exception(NotAnswered("the asker was closed"))

    def _hand_over(self, message: Any) -> None:
        headers = dict(message.headers() or ())
        with self._lock:
            future = self._waiting.get(headers.get(CORRELATION_ID) or b"")
        if future is not None and not future.done():
            value = message.value()
            try:
                request = (headers.get(REQUEST) or b"").decode()
                decoded = None if value is None else json.loads(value)
            except (ValueError, RecursionError) as error:
                self.failures += 1
                future.set_exception(NotAnswered(f"the answer is not understood: {error}"))
            else:
                future.set_result(Answer(decoded, message.key(), request, headers))


def _ensure(settings: Mapping[str, Any], topic: str) -> None:
    """The topic is there; answers are kept for an hour, as nobody waits longer."""
    from headwater.client import creation
    from headwater.client.cluster import Cluster
    from headwater.client.errors import ClientError
    from headwater.client.options import cluster_settings

    cluster = Cluster(cluster_settings(settings, START_S))
    try:
        creation.ensure_one(cluster, topic, 1, {"retention.ms": _RETENTION_MS})
    except ClientError as error:
        raise NotAnswered(f"the topic {topic} for the answers cannot be made: {error}") from error
    finally:
        cluster.close()


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError as error:
        raise HeadwaterError(
            f"the question cannot be written as JSON: {error}",
            hint='JSON has no NaN and no infinity: send the text, as in "NaN"',
        ) from None
