"""The dead letters of one source partition, each in its topic once, however often a task is tried.

Spark's source and all operators over its records call `put` before they hand out any row that follows. A
letter has the record's key, value, headers and timestamp, and the headers of all dead letters
(`record.dead_letter`):

    __dlq.errors.topic, .partition, .offset   the record
    __dlq.errors.group                        GROUP: it was no share group
    __dlq.errors.message                      why

What is larger than a record may be is cut, and headers say so (`record.dead_letter`).

A record must be in the topic once, however often a batch is read again, by whomever: a task that was
retried, a batch that came again after a crash, a query that was run twice. So writing is one transaction,
and its id belongs to the source partition:

1. `init_transactions` ends whatever another task had begun under the same id, and shuts it out: it will
   fail when it tries to commit, and come back here.
2. The letters that are there are read, from the first whose time is not before our earliest record's: a
   letter has its record's timestamp, so those of our records cannot be before that.
3. Those that are missing are written and committed; many and large ones in several transactions.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import creation
from headwater.client.cluster import EARLIEST, LATEST, READ_COMMITTED, Cluster, TopicPartition
from headwater.client.creation import Wanted
from headwater.client.dead_letters import beside
from headwater.client.errors import ClientError, RequestRefused, TransactionLost
from headwater.client.options import librdkafka_settings
from headwater.record import dead_letter
from headwater.record.dead_letter import Cause

if TYPE_CHECKING:
    from confluent_kafka import Producer

GROUP = "headwater-spark"
NAME_MAX = 249
TIMEOUT_S = 60.0
ATTEMPTS = 8
QUEUE_KB = 32_768
TRANSACTION_BYTES = 64 << 20
_ANY_MS = str(2**63 - 1)
_CONFIGS = {
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
    # A letter has its record's time, however old that is or far ahead.
    "message.timestamp.before.max.ms": _ANY_MS,
    "message.timestamp.after.max.ms": _ANY_MS,
}
PERMANENT = frozenset(
    int(code)
    for code in (
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_timestamp,
        ErrorCode.invalid_record,
        ErrorCode.policy_violation,
        ErrorCode.topic_authorization_failed,
    )
)
"""What the same batch would be told again, however often it is sent."""
_TOPIC_CONFIGS = 2


class BadRecord(NamedTuple):
    """A record that cannot be used, and why."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    reason: str


def topic_of(source: str, chosen: str | None) -> str:
    """Where the letters of a topic go."""
    name = (chosen or beside(source))[:NAME_MAX]
    if name == source:
        raise ClientError(
            f"The dead letters of {source} would go to {source} itself.",
            hint="Choose another deadLetterTopic.",
        )
    return name


class DeadLetterWriter:
    """Of one source partition, for one task."""

    def __init__(
        self, settings: Mapping[str, str], source: str, partition: int, chosen: str | None
    ) -> None:
        self.topic = topic_of(source, chosen)
        self._settings = settings
        self._source, self._partition = source, partition
        self._cluster = connect.cluster(settings)
        self._place: TopicPartition | None = None
        self._keeps_times = False

    def put(self, letters: Sequence[BadRecord]) -> None:
        """On disk, each once, when this returns."""
        place = self._ensure()
        for attempt in range(ATTEMPTS):
            try:
                self._transact(place, letters)
                return
            except TransactionLost as error:
                # Another task of the same partition came in between. Whose turn comes next is chance.
                if attempt == ATTEMPTS - 1:
                    raise ClientError(
                        f"Dead letters could not be written to {self.topic}: {error}."
                    ) from error
                time.sleep(0.05 * (1 + hash((attempt, letters[0].offset)) % 7))

    def _transact(self, place: TopicPartition, letters: Sequence[BadRecord]) -> None:
        from confluent_kafka import KafkaException, Producer

        refused: list[Any] = []
        producer = Producer(
            {
                **librdkafka_settings(self._settings),
                "transactional.id": f"{self.topic}.{self._source}-{self._partition}",
                "log_level": 0,
                "queue.buffering.max.kbytes": QUEUE_KB,
                "on_delivery": lambda error, _: refused.append(error) if error else None,
            }
        )
        try:
            producer.init_transactions(TIMEOUT_S)
            there = self._there(place, min(each.timestamp_ms for each in letters))
            missing = [each for each in letters if each.offset not in there]
            if not missing:
                return
            self._write(producer, place, missing)
        except KafkaException as error:
            why = refused[0] if refused else error.args[0]
            if why.code() in PERMANENT:
                raise LetterNotTaken(
                    f"{self.topic} does not take dead letters: {why.str()} ({why.name()}).",
                    hint="Look at the topic's settings (headwater topics describe), or choose another "
                    "deadLetterTopic.",
                ) from error
            raise TransactionLost(str(why)) from error

    def _write(
        self, producer: Producer, place: TopicPartition, letters: Sequence[BadRecord]
    ) -> None:
        (topic, number), written = place, 0
        producer.begin_transaction()
        for each in letters:
            cause, at_ms = self._cause(each), max(each.timestamp_ms, 0)
            key, value, headers = dead_letter.letter(each.key, each.value, each.headers, cause)
            written += len(key or b"") + len(value or b"")
            if written > TRANSACTION_BYTES:
                producer.commit_transaction(TIMEOUT_S)
                producer.begin_transaction()
                written = 0
            while True:
                try:
                    producer.produce(topic, value, key, number, timestamp=at_ms, headers=headers)
                    break
                except BufferError:  # it has as much as it may hold
                    producer.poll(0.1)
        producer.commit_transaction(TIMEOUT_S)

    def _cause(self, bad: BadRecord) -> Cause:
        return Cause(GROUP, bad.reason, self._source, self._partition, bad.offset)

    # ---- what is there --------------------------------------------------------------------------

    def _ensure(self) -> TopicPartition:
        """The topic is there; the partition for our letters."""
        if self._place is None:
            known = self._cluster.metadata([self.topic, self._source]).topics
            if self.topic not in known:
                count = len(known[self._source].leaders) if self._source in known else 1
                known = creation.ensure(self._cluster, [Wanted(self.topic, count, _CONFIGS)])
            self._place = (self.topic, self._partition % len(known[self.topic].leaders))
            self._keeps_times = self._is_create_time()
        return self._place

    def _is_create_time(self) -> bool:
        """Whether letters keep their records' timestamps; if nobody tells, they do not."""
        name = "message.timestamp.type"
        asked = {"resource_type": _TOPIC_CONFIGS, "resource_name": self.topic}
        body = {"resources": [asked | {"configuration_keys": [name]}]}
        try:
            result = self._cluster.anyone().ask(api.DESCRIBE_CONFIGS, body).results[0]
        except (RequestRefused, api.Disconnected):
            return False
        return any(each.name == name and each.value == "CreateTime" for each in result.configs)

    def _there(self, place: TopicPartition, since_ms: int) -> set[int]:
        """Offsets of source records whose letters are in the topic, from that time on."""
        begin = since_ms if self._keeps_times and since_ms > 0 else EARLIEST
        start = self._cluster.list_offsets({place: begin})[place]
        end = self._settled_end(place)
        if start < 0 or start >= end:
            return set()
        return set(self._offsets(place, start, end))

    def _settled_end(self, place: TopicPartition) -> int:
        """The end of the log, once no transaction before it is open: ours may lie behind others'."""
        end = self._cluster.list_offsets({place: LATEST})[place]

        def attempt() -> None:
            if self._cluster.list_offsets({place: LATEST}, READ_COMMITTED)[place] < end:
                raise connect.TryAgain(f"{place[0]}-{place[1]} has an open transaction")

        self._cluster.retrying(attempt)
        return end

    def _offsets(self, place: TopicPartition, start: int, end: int) -> Iterator[int]:
        for headers in read_headers(self._cluster, place, start, end):
            said = dead_letter.cause_of((each["key"], each["value"]) for each in headers or ())
            if said is None:
                continue
            if (said.topic, said.partition, said.group) == (self._source, self._partition, GROUP):
                yield said.offset


class LetterNotTaken(ClientError):
    """The dead-letter topic does not take a letter, now or later."""


def read_headers(
    cluster: Cluster, place: TopicPartition, start: int, end: int
) -> Iterator[list[dict[str, Any]]]:
    """The headers of the committed records in a range, read as a task reads them."""
    import pyarrow as pa

    from headwater.client.decode.columns import Bounds, Columns
    from headwater.client.fetch import Fetcher

    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema([("headers", pa.list_(pair))])
    columns = Columns(schema, *place, Bounds(start, end))
    fetcher = Fetcher(cluster, place[0], "", place[1], end, READ_COMMITTED, use="letters")
    try:
        while columns.next_offset < end:
            piece = fetcher.piece(columns.next_offset)
            for batch in columns.decode(piece.data, piece.aborted):
                yield from batch.column(0).to_pylist()
    finally:
        fetcher.close()
