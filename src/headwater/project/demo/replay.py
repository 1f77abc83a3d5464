"""The demo reads: everything from offset 0, compared with the producer's notes."""

from __future__ import annotations

import time
import zlib

from confluent_kafka import Message, TopicPartition

from headwater.project.demo import clients
from headwater.project.demo.produce import Notes, nth_of
from headwater.project.demo.summary import PARTITIONS, TIMEOUT_S, Audience, DemoFailed, Summary


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
