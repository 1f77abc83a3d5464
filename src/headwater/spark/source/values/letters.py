"""Dead letters: records whose value does not fit the schema are kept in a topic of their own.

`output` calls `put` before it hands out any row that follows them. A letter has the record's key, value,
headers and timestamp, and in more headers where it comes from and why it is here, as the letters of share
groups have (docs/queues.md):

    __dlq.errors.topic, .partition, .offset   the record
    __dlq.errors.group                        GROUP: it was no share group
    __dlq.errors.message                      why

A record must be in the topic once, however often a batch is read again, by whomever: a task that was
retried, a batch that came again after a crash, a query that was run twice. So writing is one transaction,
and its id belongs to the source partition:

1. `init_transactions` ends whatever another task had begun under the same id, and shuts it out: it will
   fail when it tries to commit, and come back here.
2. The letters that are there are read, from the first whose time is not before our earliest record's: a
   letter has its record's timestamp, so those of our records cannot be before that.
3. Those that are missing are written and committed.
"""

from __future__ import annotations

from headwater.record import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.spark import connect
from headwater.spark import connection as api
from headwater.spark.connect import EARLIEST, LATEST, READ_COMMITTED, Cluster, TopicPartition
from headwater.spark.errors import KafkaError, SparkError
from headwater.spark.options import librdkafka_settings

SUFFIX = ".dead-letters"
HEADER = "__dlq.errors."
GROUP = "headwater-spark"
NAME_MAX = 249
TIMEOUT_S = 60.0
ATTEMPTS = 8
_CONFIGS = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
_TOPIC_CONFIGS = 2


class Letter(NamedTuple):
    """A record that did not fit."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    reason: str


def topic_of(source: str, chosen: str | None) -> str:
    """Where the letters of a topic go."""
    name = (chosen or source + SUFFIX)[:NAME_MAX]
    if name == source:
        raise SparkError(
            f"The dead letters of {source} would go to {source} itself.",
            hint="Choose another deadLetterTopic.",
        )
    return name


class DeadLetters:
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

    def put(self, letters: Sequence[Letter]) -> None:
        """On disk, each once, when this returns."""
        place = self._ensure()
        for attempt in range(ATTEMPTS):
            try:
                self._transact(place, letters)
                return
            except _Fenced as error:
                # Another task of the same partition came in between. Whose turn comes next is chance.
                if attempt == ATTEMPTS - 1:
                    raise SparkError(
                        f"Dead letters could not be written to {self.topic}: {error}."
                    ) from error
                time.sleep(0.05 * (1 + hash((attempt, letters[0].offset)) % 7))

    def _transact(self, place: TopicPartition, letters: Sequence[Letter]) -> None:
        from confluent_kafka import KafkaException, Producer

        producer = Producer(
            {
                **librdkafka_settings(self._settings),
                "transactional.id": f"{self.topic}.{self._source}-{self._partition}",
                "log_level": 0,
            }
        )
        try:
            producer.init_transactions(TIMEOUT_S)
            there = self._there(place, min(each.timestamp_ms for each in letters))
            missing = [each for each in letters if each.offset not in there]
            if not missing:
                return
            producer.begin_transaction()
            for each in missing:
                producer.produce(
                    place[0],
                    each.value,
                    each.key,
                    partition=place[1],
                    timestamp=max(each.timestamp_ms, 0),
                    headers=[*_own(each), *self._position(each)],
                )
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            raise _Fenced(str(error.args[0])) from error
        except BufferError:
            raise SparkError(
                f"{len(letters)} dead letters at once are too many.",
                hint="Does the schema fit these values at all? mode=FAILFAST shows the first.",
            ) from None

    def _position(self, letter: Letter) -> Iterator[tuple[str, bytes]]:
        said = {
            "topic": self._source,
            "partition": str(self._partition),
            "offset": str(letter.offset),
            "group": GROUP,
            "message": letter.reason,
        }
        yield from ((HEADER + name, value.encode()) for name, value in said.items())

    # ---- what is there --------------------------------------------------------------------------

    def _ensure(self) -> TopicPartition:
        """The topic is there; the partition for our letters."""
        if self._place is None:
            known = self._cluster.metadata([self.topic, self._source]).topics
            if self.topic not in known:
                count = len(known[self._source].leaders) if self._source in known else 1
                self._create(count)
                known = self._wait()
            self._place = (self.topic, self._partition % len(known[self.topic].leaders))
            self._keeps_times = self._is_create_time()
        return self._place

    def _create(self, partitions: int) -> None:
        configs = [{"name": name, "value": value} for name, value in _CONFIGS.items()]
        wanted = {
            "name": self.topic,
            "num_partitions": partitions,
            "replication_factor": -1,
            "assignments": [],
            "configs": configs,
        }
        body = {"topics": [wanted], "timeout": 30_000}

        def attempt() -> None:
            answer = self._cluster.anyone().ask(api.CREATE_TOPICS, body).topics[0]
            if answer.error_code is not ErrorCode.topic_already_exists:
                connect.check(answer.error_code, f"creating the dead-letter topic {self.topic}")

        self._cluster.retrying(attempt)

    def _wait(self) -> Mapping[str, connect.Topic]:
        def attempt() -> Mapping[str, connect.Topic]:
            found = self._cluster.metadata([self.topic]).topics
            if self.topic not in found:
                raise connect.TryAgain(f"{self.topic} was created and is not there yet")
            return found

        return self._cluster.retrying(attempt)

    def _is_create_time(self) -> bool:
        """Whether letters keep their records' timestamps; if nobody tells, they do not."""
        name = "message.timestamp.type"
        asked = {"resource_type": _TOPIC_CONFIGS, "resource_name": self.topic}
        body = {"resources": [asked | {"configuration_keys": [name]}]}
        try:
            result = self._cluster.anyone().ask(api.DESCRIBE_CONFIGS, body).results[0]
        except (KafkaError, api.Disconnected):
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
            said = {
                each["key"].removeprefix(HEADER): (each["value"] or b"").decode("utf-8", "replace")
                for each in headers or ()
                if each["key"].startswith(HEADER)
            }
            source = (said.get("topic"), said.get("partition"), said.get("group"))
            if source == (self._source, str(self._partition), GROUP):
                yield int(said["offset"])


class _Fenced(Exception):
    """The transaction did not happen; another attempt may."""


def _own(letter: Letter) -> list[tuple[str, bytes | None]]:
    """The record's headers. One that was a dead letter before has only the new position."""
    return [each for each in letter.headers if not each[0].startswith(HEADER)]


def read_headers(
    cluster: Cluster, place: TopicPartition, start: int, end: int
) -> Iterator[list[dict[str, Any]]]:
    """The headers of the committed records in a range, read as a task reads them."""
    import pyarrow as pa

    from headwater.spark.decode.columns import Bounds, Columns
    from headwater.spark.source.fetching import Fetcher

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
