"""librdkafka's producers for what strangers send: a batch is never larger than its topic takes.

Called by `appender`. A broker refuses a batch as a whole, also the records in it that are small. librdkafka
bounds batches for a producer, not for a topic, so there is one producer for each of a few sizes, made when a
topic needs it. A record beyond the size is alone in its batch, and so is what the broker says of it; so are
records of a topic whose values the broker looks into.

What may be refused goes through producers of its own (`is_doubtful`): after a refusal, an idempotent producer
waits for all that is under way and begins a new epoch.

What a request waits for is told to it: what became of each record, or of all together (`Deliveries`). That is
heard in a producer's thread or, where it was refused at once, in the loop's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headwater.client.librdkafka import KafkaError, KafkaException, Producer
from headwater.client.publisher import RECORD_OVERHEAD_BYTES, Draft, Stored
from headwater.edges.idempotency.index import Span
from headwater.edges.topics import OF_A_BATCH, TOO_LARGE, Topic
from headwater.record.batch import HEADER_BYTES

BATCH_BYTES = (1, *(1024 << power for power in range(10)), 1_000_000)
"""The last is librdkafka's own; they double, so that none is less than half of what a topic takes."""
_POLL_S = 0.1
_logger = logging.getLogger("headwater.edges")


class Kind(NamedTuple):
    batch_bytes: int
    is_doubtful: bool

    def is_alone(self, record_bytes: int) -> bool:
        """Whether a record of so many bytes shares its batch with none."""
        return self.batch_bytes == 1 or record_bytes > self.batch_bytes


ALONE = Kind(1, True)


def kind_of(topic: Topic, record_bytes: int) -> Kind:
    """For a topic, and the largest of the records that are to go there."""
    if topic.is_checked:
        return ALONE
    batch_bytes_max = topic.batch_bytes_max
    fitting = [size for size in BATCH_BYTES if size <= batch_bytes_max]
    return Kind(max(fitting, default=1), record_bytes + HEADER_BYTES > batch_bytes_max)


class Producers:
    """For one event loop; `make` is told the bytes of a batch."""

    def __init__(self, make: Callable[[int], Producer]) -> None:
        self._make = make
        self._hearing: dict[Kind, _Hearing] = {}

    def get(self, kind: Kind) -> Producer:
        found = self._hearing.get(kind)
        if found is None:
            found = self._hearing[kind] = _Hearing(self._make(kind.batch_bytes))
        return found.producer

    def close(self, seconds: float) -> None:
        """Once everything that was taken is stored, or the time is over."""
        for each in self._hearing.values():
            each.close(seconds)


class _Hearing:
    """A producer, and the thread that hears the broker's answers."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="appender", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        self.producer.flush(seconds)
        self._closed.set()
        self._thread.join()

    def _hear(self) -> None:
        while not self._closed.is_set():
            try:
                self.producer.poll(_POLL_S)
            except Exception:  # of one acknowledgement; the others are to be heard
                _logger.exception("an acknowledgement could not be told")


def is_too_large(outcome: object) -> bool:
    return _code(outcome) in TOO_LARGE


def is_of_batch(outcome: object) -> bool:
    """Whether the broker refused the batch that it was in."""
    return _code(outcome) in OF_A_BATCH


def _code(outcome: object) -> int | None:
    if isinstance(outcome, KafkaException):
        outcome = outcome.args[0]
    return outcome.code() if isinstance(outcome, KafkaError) else None


class Deliveries:
    """Of `count` records; `done` once all are heard of."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop | None) -> None:
        assert loop is not None, "start() comes first"
        self.done: asyncio.Future[None] = loop.create_future()
        self._open = count
        self._loop = loop
        self._lock = threading.Lock()

    def _less(self, count: int) -> None:
        """Under the lock."""
        self._open -= count
        if not self._open:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class EachDelivery(Deliveries):
    """Records of which each has an outcome of its own: its place, or the error; by its number."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(count, loop)
        self.outcomes: dict[int, object] = {}

    def heard(self, number: int, error: object, message: Any) -> None:
        with self._lock:
            place = Stored(message.partition(), message.offset()) if error is None else error
            self.outcomes[number] = place
            self._less(1)


class ManyDeliveries(Deliveries):
    """Records that are counted: per partition the first, the last and how many."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop | None, kind: Kind) -> None:
        super().__init__(count, loop)
        self._kind = kind
        self._found: dict[int, tuple[int, int, int]] = {}
        self.error: object = None
        self.again: list[Draft] = []
        """Refused for the batch that they were in; their partitions stand."""

    def produce(
        self,
        producer: Producer,
        place: tuple[str, int],
        values: Sequence[bytes],
        keys: Sequence[bytes | None] | None,
    ) -> None:
        topic, partition = place
        messages: list[dict[str, Any]]
        if keys is None:
            messages = [{"value": value} for value in values]
        else:
            pairs = zip(values, keys, strict=True)
            messages = [{"value": value, "key": key} for value, key in pairs]
        try:
            producer.produce_batch(topic, messages, partition, on_delivery=self.heard)
        except (KafkaException, BufferError) as failure:
            self.refused(failure, len(messages))
            return
        failed = [message["_error"] for message in messages if "_error" in message]
        if failed:
            self.refused(failed[0], len(failed))

    def heard(self, error: object, message: Any) -> None:
        if error is None:  # of each record: nothing is called that need not be
            number, offset = message.partition(), message.offset()
            with self._lock:
                first, last, records = self._found.get(number, (offset, offset, 0))
                self._found[number] = (min(first, offset), max(last, offset), records + 1)
                self._less(1)
            return
        key, value = message.key(), message.value()
        size = len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
        if not is_of_batch(error) or self._kind.is_alone(size):
            self.refused(error, 1)
            return
        with self._lock:
            self.again.append(Draft(key, value, partition=message.partition()))
            self._less(1)

    def stored(self, place: Stored) -> None:
        number, offset = place
        first, last, records = self._found.get(number, (offset, offset, 0))
        self._found[number] = (min(first, offset), max(last, offset), records + 1)

    def refused(self, error: object, count: int) -> None:
        with self._lock:
            self.error = self.error or error
            self._less(count)

    def spans(self) -> tuple[Span, ...]:
        return tuple(Span(number, *self._found[number]) for number in sorted(self._found))
