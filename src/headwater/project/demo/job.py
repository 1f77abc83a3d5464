"""The demo's steps in order. Called by `headwater demo`.

Also here: the demo reads: everything from offset 0, compared with the producer's notes.

The demo writes: numbered records, notes of what was acknowledged, and a kill -9 half-way.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.client.librdkafka import Message, TopicPartition
from headwater.project.broker_process import BrokerProcess
from headwater.project.demo import clients
from headwater.project.demo.clients import create_topic
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
    from headwater.client.librdkafka import Message, Producer


def run(plan: Plan, audience: Audience) -> Summary:
    """Do all of it; raises only where a step cannot be done, and leaves the verdict to Summary."""
    summary = Summary(topic=plan.topic, durability=plan.durability, data=str(plan.data))
    _keep_log(plan, summary, audience)
    if plan.shop:
        from headwater.project.demo.shop.job import keep_shop

        keep_shop(plan, summary, audience)
    summary.data_bytes = sum(f.stat().st_size for f in plan.data.rglob("*") if f.is_file())
    return summary


def _keep_log(plan: Plan, summary: Summary, audience: Audience) -> None:
    with BrokerProcess(plan.data, durability=plan.durability) as broker:
        audience.begin("Starting the broker")
        summary.start_s = broker.start()
        create_topic(broker.bootstrap, plan.topic)
        audience.end(f"answers after {summary.start_s:.2f} s")

        audience.begin("Producing", plan.records)
        notes = produce(plan, broker, summary, audience)
        audience.end(
            f"{summary.produced:,} records in {summary.produce_s:.2f} s; killed half-way, "
            f"back in {summary.restart_s:.2f} s"
        )

        audience.begin("Replaying from offset 0", summary.produced)
        begin = time.perf_counter()
        replay(broker.bootstrap, plan.topic, notes, summary, audience)
        summary.replay_s = time.perf_counter() - begin
        audience.end(f"{summary.replayed:,} records in {summary.replay_s:.2f} s")

        audience.begin("Stopping the broker")
        summary.resident_bytes = broker.resident_bytes()
        summary.stop_s = broker.stop()
        audience.end(f"gone after {summary.stop_s:.2f} s, all flushed")


def replay(bootstrap: str, topic: str, notes: Notes, summary: Summary, audience: Audience) -> None:
    """Read each partition from its first to its last offset; fills in the summary's findings."""
    consumer = clients.consumer(bootstrap, topic)
    places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    end = sum(consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)[1] for place in places)
    consumer.assign(places)
    judge = Judge(notes, summary)
    deadline = time.monotonic() + TIMEOUT_S
    while summary.replayed < end and time.monotonic() < deadline:
        messages = consumer.consume(5_000, timeout=0.2)
        for message in messages:
            if message.error() is not None:
                raise DemoFailed(f"the replay was refused: {message.error()}")
            judge.look_at(*_place(message), message.key(), message.value())
        if messages:
            deadline = time.monotonic() + TIMEOUT_S
            audience.advance(summary.replayed)
    consumer.close()
    judge.conclude()


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


class Judge:
    """Compares what is read with the notes, record by record; the notes are used up."""

    def __init__(self, notes: Notes, summary: Summary) -> None:
        self._notes = notes
        self._summary = summary
        self._next_of_key: dict[bytes, int] = {}
        self._checksums = [0] * PARTITIONS

    def look_at(self, partition: int, offset: int, key: object, value: object) -> None:
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise DemoFailed(f"a record without key or value came back at {partition}/{offset}")
        self._summary.replayed += 1
        crc = zlib.crc32(value)
        self._checksums[partition] = zlib.crc32(value, self._checksums[partition])
        noted = self._notes.values[partition].pop(offset, None)
        if noted is None:
            self._summary.duplicated += 1  # no acknowledgement named this place
        elif noted != crc:
            self._summary.different += 1
        nth = nth_of(value)
        if nth != self._next_of_key.get(key, 0):
            self._summary.out_of_order += 1
        self._next_of_key[key] = nth + 1

    def conclude(self) -> None:
        self._summary.lost = sum(len(unseen) for unseen in self._notes.values)
        self._summary.checksum = " ".join(f"{crc:08x}" for crc in self._checksums)


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
    work = _Work(clients.producer(broker.bootstrap), plan, summary, audience)
    work.send_to(0.0, at_least=1)
    work.wait_for(1)  # the client has met the broker: from here on the time is the log's
    begin = time.perf_counter()

    work.send_to(0.4)
    work.wait_for(summary.produced // 2)
    work.send_to(0.5)  # some acknowledged, some under way: the moment for an accident
    summary.produce_before_kill_s = time.perf_counter() - begin
    summary.acknowledged_before_kill = work.notes.acknowledged
    broker.kill()
    summary.unacknowledged_at_kill = summary.produced - summary.acknowledged_before_kill
    summary.restart_s = broker.start()

    work.send_to(1.0)
    work.wait_for(summary.produced)
    summary.produce_s = time.perf_counter() - begin
    summary.acknowledged = work.notes.acknowledged
    return work.notes


class _Work:
    """A producer on its way through the plan."""

    def __init__(
        self, producer: Producer, plan: Plan, summary: Summary, audience: Audience
    ) -> None:
        self.notes = Notes()
        self._producer = producer
        self._plan = plan
        self._summary = summary
        self._audience = audience

    def send_to(self, share: float, *, at_least: int = 0) -> None:
        """Hand records to the client until this share of the plan has been written."""
        while (count := max(self._left(share), at_least - self._summary.produced)) > 0:
            for number in range(self._summary.produced, self._summary.produced + count):
                self._send(number)
            self._summary.produced += count
            self._look()

    def wait_for(self, acknowledged: int) -> None:
        """Wait until so many records have been acknowledged."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.notes.acknowledged < acknowledged:
            if time.monotonic() > deadline:
                raise DemoFailed(f"no acknowledgement for {TIMEOUT_S:.0f} s")
            self._look(0.01)

    def _left(self, share: float) -> int:
        """How many records to write next on the way to this share."""
        return min(STRIDE, int(self._plan.records * share) - self._summary.produced)

    def _look(self, patience_s: float = 0.0) -> None:
        try:
            self._producer.poll(patience_s)
        except SystemError:  # what the client library makes of Ctrl-C within a callback
            raise KeyboardInterrupt from None
        self._audience.advance(self.notes.acknowledged)
        if self.notes.refusal is not None:
            raise DemoFailed(f"a record was refused: {self.notes.refusal}")

    def _send(self, number: int) -> None:
        key = b"customer-%04d" % (number % KEYS)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._producer.produce(
                    self._plan.topic, value_of(number), key, on_delivery=self.notes.take
                )
                return
            except BufferError:
                # The client's queue is full: the broker is busy, or just coming back.
                if time.monotonic() > deadline:
                    raise DemoFailed("the broker takes no more records") from None
                self._look(0.01)
