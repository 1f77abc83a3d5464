"""`headwater deadletters`: look at what share groups rejected or gave up, and at what a Spark query
could not decode, and send it back.

Works on any dead-letter topic with Kafka's headers (KIP-1191), headwater's or Apache Kafka's. How far
a topic was replayed is the committed offset of a group of its own; records and offsets go into one
transaction, so a replay that is interrupted has happened, or has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from headwater.cli.admin import (
    TIMEOUT_S,
    RequestRefused,
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

PREFIX, SUFFIX = "dlq.", ".dead-letters"
"""A share group's topic, and a Spark query's."""
HEADER = "__dlq.errors."
REPLAY_GROUP = "headwater-replay."
BATCH = 500
SHOWN = 20

deadletters = typer.Typer(no_args_is_help=True, help="Show dead letters, and send them back.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(deadletters, name="deadletters")


class Letter(NamedTuple):
    """A dead letter: where it lies, where it came from, and why."""

    partition: int
    offset: int
    source: str
    source_partition: int
    source_offset: int
    group: str
    deliveries: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    def shown(self) -> dict[str, Any]:
        return {
            "offset": f"{self.partition}:{self.offset}",
            "source": f"{self.source}-{self.source_partition}:{self.source_offset}",
            "group": self.group,
            "deliveries": self.deliveries,
            "reason": self.reason,
            "key": _text(self.key),
            "value": _text(self.value),
        }


@deadletters.command("list")
def list_(
    topic: str = typer.Argument("", metavar="[TOPIC]", help="A dead-letter topic; none: all."),
    everything: bool = typer.Option(False, "--all", help="Show those replayed already, too."),
    limit: int = typer.Option(SHOWN, "--limit", min=1, metavar="COUNT", help="Show so many."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """List dead letters that wait, oldest first.

    Example: headwater deadletters list dlq.orders
    """
    if not topic:
        _list_topics(bootstrap, as_json)
        return
    with _reader(bootstrap, topic) as reader:
        begin = reader.starts if everything else reader.replayed
        letters = [letter.shown() for letter in _some(reader.read(begin), limit)]
    if as_json:
        print_json(letters)
    elif letters:
        print_table([name.upper() for name in letters[0]], [list(row.values()) for row in letters])
    else:
        print(f"No dead letters wait in {topic}")


@deadletters.command("replay")
def replay(
    topic: str = typer.Argument(metavar="TOPIC", help="A dead-letter topic."),
    to: str = typer.Option("", "--to", metavar="TOPIC", help="Send there, not to the source."),
    limit: int = typer.Option(0, "--limit", min=0, metavar="COUNT", help="Send so many; 0: all."),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Send dead letters back to the topic they came from.

    Each one once: the next replay goes on behind the last.
    """
    count = 0
    with _reader(bootstrap, topic) as reader:
        producer = _producer(bootstrap, topic)
        batch: list[Letter] = []
        for letter in _some(reader.read(reader.replayed), limit):
            batch.append(letter)
            if len(batch) == BATCH:
                count += _send(producer, reader, batch, to)
                batch = []
        count += _send(producer, reader, batch, to)
    print(f"Replayed {count} dead letter{'' if count == 1 else 's'} from {topic}")


def _send(producer: Any, reader: _Reader, batch: list[Letter], to: str) -> int:
    """Send a batch and note how far it goes, both or neither."""
    from confluent_kafka import TopicPartition

    if not batch:
        return 0
    producer.begin_transaction()
    done: dict[int, int] = {}
    for letter in batch:
        place = {} if to else {"partition": letter.source_partition}
        producer.produce(
            to or letter.source, letter.value, letter.key, headers=letter.headers, **place
        )
        done[letter.partition] = letter.offset + 1
    offsets = [TopicPartition(reader.topic, number, offset) for number, offset in done.items()]
    metadata = reader.consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    return len(batch)


def _producer(bootstrap: str, topic: str) -> Any:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": REPLAY_GROUP + topic,  # a second replay fences the first
            "metadata.recovery.strategy": "none",  # see docs/transactions.md
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


class _Reader:
    """A dead-letter topic, from where the last replay stopped to where it ends now."""

    def __init__(self, consumer: Consumer, topic: str, partitions: list[int]) -> None:
        from confluent_kafka import TopicPartition

        self.consumer = consumer
        self.topic = topic
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.replayed: dict[int, int] = {}
        places = [TopicPartition(topic, number) for number in partitions]
        for place in consumer.committed(places, TIMEOUT_S):
            first, end = consumer.get_watermark_offsets(place, TIMEOUT_S)
            self.starts[place.partition], self.ends[place.partition] = first, end
            self.replayed[place.partition] = max(place.offset, first)

    def counts(self) -> tuple[int, int]:
        """How many letters there are, and how many of them were not replayed yet.

        By reading them: offsets would count the markers of transactions too.
        """
        places = [letter[:2] for letter in self.read(self.starts)]
        return len(places), sum(offset >= self.replayed[number] for number, offset in places)

    def read(self, begin: dict[int, int]) -> Iterator[Letter]:
        for number in sorted(self.ends):
            if begin[number] < self.ends[number]:
                yield from self._read(number, begin[number])

    def _read(self, number: int, begin: int) -> Iterator[Letter]:
        from confluent_kafka import KafkaError, TopicPartition

        self.consumer.assign([TopicPartition(self.topic, number, begin)])
        while (message := self.consumer.poll(TIMEOUT_S)) is not None:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            if error is not None:
                raise RequestRefused(f"reading failed: {error}")
            letter = _letter(message)
            if letter is not None:
                yield letter
            if (message.offset() or 0) + 1 >= self.ends[number]:
                return


@contextmanager
def _reader(bootstrap: str, topic: str) -> Iterator[_Reader]:
    from confluent_kafka import Consumer

    with admin(bootstrap) as client:
        found = client.list_topics(timeout=TIMEOUT_S).topics.get(topic)
        if found is None:
            raise RequestRefused(
                f"there is no topic {topic!r}",
                hint="headwater deadletters list shows the dead-letter topics",
            )
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": REPLAY_GROUP + topic,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,  # the last record may be a marker, which is not seen
                "log_level": 0,
            }
        )
        try:
            yield _Reader(consumer, topic, sorted(found.partitions))
        finally:
            consumer.close()


def _list_topics(bootstrap: str, as_json: bool) -> None:
    with admin(bootstrap) as client:
        names = sorted(filter(_is_dead_letters, client.list_topics(timeout=TIMEOUT_S).topics))
    rows: list[dict[str, Any]] = []
    for name in names:
        with _reader(bootstrap, name) as reader:
            held, waiting = reader.counts()
            rows.append({"topic": name, "letters": held, "waiting": waiting})
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["TOPIC", "LETTERS", "WAITING"], [list(row.values()) for row in rows])
    else:
        print("No dead-letter topics: nothing was rejected or given up")


def _is_dead_letters(topic: str) -> bool:
    return topic.startswith(PREFIX) or topic.endswith(SUFFIX)


def _letter(message: Message) -> Letter | None:
    """None for a record that is no dead letter."""
    headers: list[tuple[str, Any]] = list(message.headers() or [])  # type: ignore[arg-type]
    said = {name.removeprefix(HEADER): value for name, value in headers if value is not None}
    try:
        return Letter(
            message.partition() or 0,
            message.offset() or 0,
            said["topic"].decode(),
            int(said["partition"]),
            int(said["offset"]),
            said["group"].decode(),
            int(said.get("delivery.count", b"0")),
            said.get("message", b"").decode(),
            message.key(),
            message.value(),
            [(name, value) for name, value in headers if not name.startswith(HEADER)],
        )
    except (KeyError, ValueError):
        return None


def _some(letters: Iterator[Letter], limit: int) -> Iterator[Letter]:
    for count, letter in enumerate(letters, 1):
        yield letter
        if count == limit:
            return


def _text(data: bytes | None) -> str:
    if data is None:
        return "-"
    text = data.decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:39] + "…"
