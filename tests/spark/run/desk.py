"""An application on the tests' Spark session, stepped by the test itself instead of by a loop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from pyspark.sql import SparkSession

from headwater.client.log import Log
from headwater.pipelines import progress
from headwater.pipelines.application import prepare
from headwater.pipelines.builder import Built, build
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.context import Context, Wanted
from headwater.pipelines.declarations import View
from headwater.pipelines.query import Query
from headwater.pipelines.query_context import QueryContext
from headwater.pipelines.query_settings import tune

QUIET = {"log_level": 0}
_NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
)


class Desk:
    """Builds and steps queries; `said` is what a person would have read."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.log = Log(bootstrap)
        self.said: list[str] = []
        self.queries: list[Query] = []
        self.checkpoints = Checkpoints(str(folder / "checkpoints"), spark)
        self.wanted: dict[str, Wanted] = {}
        """What people want of views, by name."""

    def build(self, view: View) -> Built:
        place = self.checkpoints.of(view.checkpoint)
        context = Context(self.spark, self.bootstrap, {}, view.speed, view, checkpoint=place)
        return build(view, context)

    def begin(self, *views: View, once: bool = False) -> list[Query]:
        around = QueryContext(
            build=self.build,
            tune=lambda built: tune(self.spark, built, self.checkpoints),
            checkpoints=self.checkpoints,
            log=self.log,
            say=self.said.append,
            once=once,
            wanted=lambda name: self.wanted.get(name, Wanted()),
        )
        self.queries = prepare(views, around, self.log.topics())
        return self.queries

    def step_until(self, done: Callable[[], object], what: str, timeout_s: float = 180.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            for query in self.queries:
                query.step()
            assert time.monotonic() < deadline, f"waited for {what}; said: {self.said}"
            time.sleep(0.05)  # between two looks

    def stop(self) -> None:
        for query in self.queries:
            query.stop()
        self.log.close()

    # ---- the log, as others see it --------------------------------------------------------------

    def send(self, topic: str, records: Iterable[tuple[str | None, str | None]]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, **QUIET})
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        assert producer.flush(30) == 0

    def committed(self, group: str, topic: str) -> int:
        """The sum of a group's offsets in a topic; 0 as long as nobody answers for the group."""
        own: dict[str, Any] = {"group.id": group, **QUIET}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **own})
        try:
            places = [TopicPartition(topic, p) for p in range(self.log.topics()[topic])]
            return sum(max(0, each.offset) for each in consumer.committed(places, timeout=10))
        except KafkaException as error:
            # Apache Kafka that has just started makes the topic of the groups at the first question.
            if error.args[0].code() not in _NO_COORDINATOR_YET:
                raise
            return 0
        finally:
            consumer.close()

    def records(self, topic: str) -> list[Message]:
        """Every committed record of a topic."""
        own: dict[str, Any] = {"group.id": "reader", "enable.partition.eof": False, **QUIET}
        own |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        places = [(topic, partition) for partition in range(self.log.topics()[topic])]
        ends = {place: end for place, end in self.log.ends(places).items() if end > 0}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **own})
        try:
            consumer.assign([TopicPartition(*place, 0) for place in ends])
            found: list[Message] = []
            deadline = time.monotonic() + 120  # a transaction may be open meanwhile
            while any(_position(consumer, place) < end for place, end in ends.items()):
                assert time.monotonic() < deadline, f"{topic} ends at {ends}"
                record = consumer.poll(0.1)
                if record is not None and record.error() is None:
                    found.append(record)
            return found
        finally:
            consumer.close()

    def rows(self, topic: str) -> list[Any]:
        return [json.loads(each.value() or b"null") for each in self.records(topic)]

    def progress(self, query: str) -> list[dict[str, Any]]:
        return [row for row in self.rows(progress.TOPIC) if row["query"] == query]


def _position(consumer: Consumer, place: tuple[str, int]) -> int:
    return int(consumer.position([TopicPartition(*place)])[0].offset)
