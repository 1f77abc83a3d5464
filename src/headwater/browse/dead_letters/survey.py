"""The letters of a dead-letter topic, in order, and the account of those that were dealt with.

    with open_letters(settings, "dlq.billing") as letters:
        for letter in letters.waiting():
            ...

`settings` are librdkafka's. Reads committed letters only, up to where the topic ended when it was opened,
so that a topic which still fills does not keep its reader for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.browse.dead_letters.letter import Handled, Letter, handled, letter_of
from headwater.client.dead_letters import is_dead_letters
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.librdkafka import Consumer

TIMEOUT_S = 10.0
REPLAY_GROUP = "headwater-replay."


class LettersRefused(HeadwaterError):
    """A dead-letter topic could not be read, or its letters not be sent."""


class Survey(NamedTuple):
    """What waits in a topic. With `is_whole` False there is more than was looked at."""

    topic: str
    waiting: int
    reasons: dict[str, int]
    """Reason → how many wait, the most frequent first."""
    first: list[Letter]
    """The oldest of them, as many as were asked for."""
    is_whole: bool


def dead_letter_topics(names: Iterable[str]) -> list[str]:
    return sorted(filter(is_dead_letters, names))


class Letters:
    """A dead-letter topic as it was when it was opened."""

    def __init__(self, consumer: Consumer, topic: str, partitions: list[int]) -> None:
        from headwater.client.librdkafka import TopicPartition

        self.consumer = consumer
        self.topic = topic
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.handled: dict[int, Handled] = {}
        places = [TopicPartition(topic, number) for number in partitions]
        for place in consumer.committed(places, TIMEOUT_S):
            number = place.partition
            first, end = consumer.get_watermark_offsets(place, TIMEOUT_S)
            self.starts[number], self.ends[number] = first, end
            self.handled[number] = handled(max(place.offset, 0), place.metadata).moved(first)

    def waiting(self) -> Iterator[Letter]:
        """Those that were neither sent back nor dismissed, oldest first in each partition."""
        for number, done in self.handled.items():
            for letter in self._read(number, done.position):
                if letter.offset not in done:
                    yield letter

    def all(self) -> Iterator[Letter]:
        for number, start in self.starts.items():
            yield from self._read(number, start)

    def at(self, partition: int, offset: int) -> Letter | None:
        """The letter at that place; None if there is none."""
        if not self.starts.get(partition, 0) <= offset < self.ends.get(partition, 0):
            return None
        letter = next(self._read(partition, offset), None)
        return letter if letter is not None and letter.offset == offset else None

    def settled(self, partition: int) -> Handled:
        """The account with its position at the first letter that waits: markers are no letters."""
        done = self.handled[partition]
        for letter in self._read(partition, done.position):
            if letter.offset not in done:
                return done.moved(letter.offset)
        return done.moved(self.ends[partition])

    def counts(self) -> tuple[int, int]:
        """How many letters there are, and how many of them wait.

        By reading them: offsets would count the markers of transactions too.
        """
        places = [(letter.partition, letter.offset) for letter in self.all()]
        return len(places), sum(offset not in self.handled[number] for number, offset in places)

    def survey(self, most: int, first: int = 0) -> Survey:
        """Those that wait, counted by reason; at most `most` of them are read, and `first` handed out."""
        waiting = 0
        reasons: dict[str, int] = {}
        kept: list[Letter] = []
        for letter in self.waiting():
            if waiting == most:
                return Survey(self.topic, waiting, _by_count(reasons), kept, False)
            waiting += 1
            reasons[letter.reason] = reasons.get(letter.reason, 0) + 1
            if len(kept) < first:
                kept.append(letter)
        return Survey(self.topic, waiting, _by_count(reasons), kept, True)

    def _read(self, number: int, begin: int) -> Iterator[Letter]:
        from headwater.client.librdkafka import KafkaError, TopicPartition

        if begin >= self.ends[number]:
            return
        self.consumer.assign([TopicPartition(self.topic, number, begin)])
        while True:
            message = self.consumer.poll(TIMEOUT_S)
            if message is None:
                raise LettersRefused(
                    f"{self.topic} did not go on within {TIMEOUT_S:.0f} s",
                    hint="is the broker still running?",
                )
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            if error is not None:
                raise LettersRefused(f"reading {self.topic} failed: {error}")
            letter = letter_of(message)
            if letter is not None:
                yield letter
            if (message.offset() or 0) + 1 >= self.ends[number]:
                return


@contextmanager
def open_letters(settings: Mapping[str, Any], topic: str) -> Iterator[Letters]:
    """Raises LettersRefused where there is no such topic, and what confluent-kafka raises."""
    from headwater.client.librdkafka import Consumer

    consumer = Consumer(
        {
            **settings,
            "group.id": REPLAY_GROUP + topic,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,  # the last record may be a marker, which is not seen
            "allow.auto.create.topics": False,
            "fetch.wait.max.ms": 50,  # what a second reading waits for the end of the first
            "log_level": 0,
        }
    )
    try:
        found = consumer.list_topics(topic, TIMEOUT_S).topics.get(topic)
        if found is None or found.error is not None:
            raise LettersRefused(
                f"there is no topic {topic!r}",
                hint="headwater deadletters list shows the dead-letter topics",
            )
        yield Letters(consumer, topic, sorted(found.partitions))
    finally:
        consumer.close()


def _by_count(reasons: dict[str, int]) -> dict[str, int]:
    return dict(sorted(reasons.items(), key=lambda each: -each[1]))
