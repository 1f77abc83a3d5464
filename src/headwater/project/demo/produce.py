"""The demo writes: numbered records, notes of what was acknowledged, and a kill -9 half-way."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.project.broker_process import BrokerProcess
from headwater.project.demo import clients
from headwater.project.demo.summary import (
    KEYS,
    PARTITIONS,
    TIMEOUT_S,
    VALUE_BYTES,
    Audience,
    DemoFailed,
    Plan,
    Summary,
)

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

# Records between two looks at the clock, the progress bar and the acknowledgements.
STRIDE = 250


@dataclass
class Notes:
    """What the producer was told: the checksum of every acknowledged value, by its place."""

    values: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    acknowledged: int = 0
    refusal: str | None = None

    def take(self, error: object, message: Message) -> None:
        if error is not None:
            self.refusal = str(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and isinstance(value, bytes)
        self.add(partition, offset, value)

    def add(self, partition: int, offset: int, value: bytes) -> None:
        self.values[partition][offset] = zlib.crc32(value)
        self.acknowledged += 1


def value_of(number: int) -> bytes:
    """The record's value: which one it is over all, and which one for its key."""
    text = b"order=%012d customer=%04d nth=%08d " % (number, number % KEYS, number // KEYS)
    return text.ljust(VALUE_BYTES, b".")


def nth_of(value: bytes) -> int:
    """The number of a record among those of its key, read back from `value_of`."""
    return int(value[37:45])


def produce(plan: Plan, broker: BrokerProcess, summary: Summary, audience: Audience) -> Notes:
    """Write what the plan says, with the broker killed under it at the half."""
    notes = Notes()
    producer = clients.producer(broker.bootstrap)
    begin = time.perf_counter()

    def left(share: float) -> int:
        """How many records to write next on the way to this share of the plan."""
        if plan.seconds is None:
            return min(STRIDE, int(plan.records * share) - summary.produced)
        return STRIDE if time.perf_counter() - begin < plan.seconds * share else 0

    _send(producer, plan.topic, notes, summary, audience, lambda: left(0.5))
    producer.poll(0)
    summary.produce_before_kill_s = time.perf_counter() - begin
    summary.acknowledged_before_kill = notes.acknowledged
    broker.kill()
    summary.unacknowledged_at_kill = len(producer)
    summary.restart_s = broker.start()
    _send(producer, plan.topic, notes, summary, audience, lambda: left(1.0))
    while len(producer) and notes.refusal is None:
        producer.poll(0.1)
        audience.advance(notes.acknowledged)
    summary.produce_s = time.perf_counter() - begin
    summary.acknowledged = notes.acknowledged
    if notes.refusal is not None:
        raise DemoFailed(f"a record was refused: {notes.refusal}")
    return notes


def _send(
    producer: Producer,
    topic: str,
    notes: Notes,
    summary: Summary,
    audience: Audience,
    how_many: Callable[[], int],
) -> None:
    while (count := how_many()) > 0:
        for number in range(summary.produced, summary.produced + count):
            _send_one(producer, topic, number, notes)
        summary.produced += count
        producer.poll(0)
        audience.advance(notes.acknowledged)


def _send_one(producer: Producer, topic: str, number: int, notes: Notes) -> None:
    key = b"customer-%04d" % (number % KEYS)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            producer.produce(topic, value_of(number), key, on_delivery=notes.take)
            return
        except BufferError:
            # The client's queue is full: the broker is busy, or just coming back.
            if time.monotonic() > deadline:
                raise DemoFailed("the broker takes no more records") from None
            producer.poll(0.05)
