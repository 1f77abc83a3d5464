"""The same changefeeds where the log is Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from headwater.client.log import Log
from headwater.testing.targets import gone
from tests.compat.kafka_log import kafka_log
from tests.edges.feeds.clients import following, put, wait_for
from tests.edges.feeds.test_views import ADA, BOB, CAT, Customers, state_of
from tests.edges.running import edges, until

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def kafka() -> Iterator[Log]:
    with kafka_log() as log:
        yield log


def test_topics_are_followed_from_a_snapshot_or_a_place_and_resumed(kafka: Log):
    settings = {"cleanup.policy": "compact"}
    kafka.admin.create_topics([NewTopic("state", 1, 1, config=settings)])["state"].result()
    kafka.admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result()
    until(lambda: {"state", "orders"} <= set(kafka.admin.list_topics(timeout=60).topics), "both")
    put(kafka, "state", ("a", 1), ("b", 2), ("a", 3))
    put(kafka, "orders", *[(str(n), n) for n in range(100)])
    with edges(kafka.bootstrap) as running:
        with following(f"{running.url}/topics/state") as reader:
            until(lambda: reader.named("live") == [{"records": 2}], "the snapshot")
            put(kafka, "state", ("a", None))
            wait_for(reader, 3)
        with following(f"{running.url}/topics/orders", **{"from": "beginning"}) as reader:
            wait_for(reader, 100)
            last = reader.last_id
        producer = kafka.new_producer(transactional_id="writer")
        producer.init_transactions()
        for ends in ("abort_transaction", "commit_transaction"):
            producer.begin_transaction()
            producer.produce("orders", ends.encode(), b"k")
            producer.flush()
            getattr(producer, ends)()
        with following(f"{running.url}/topics/orders", {"last-event-id": last}) as reader:
            wait_for(reader, 1)
            put(kafka, "orders", ("k", 100))
            wait_for(reader, 2)
            assert reader.values() == ["commit_transaction", "100"]


def test_views_are_followed_over_a_restart(kafka: Log, tmp_path: Path):
    customers = Customers(tmp_path)
    customers.write(ADA, BOB)
    with (
        edges(kafka.bootstrap, project=customers.project) as running,
        following(f"{running.url}/views/{customers.name}") as reader,
    ):
        until(lambda: reader.named("live"), "the rows")
        customers.write(CAT)
        until(lambda: state_of(reader) == {"1": "Ada", "2": "Bob", "3": "Cat"}, "the change")
        rows, last = state_of(reader), reader.last_id
    customers.write(gone(1))
    with (
        edges(kafka.bootstrap, project=customers.project) as running,
        following(f"{running.url}/views/{customers.name}", {"last-event-id": last}) as again,
    ):
        until(lambda: state_of(again, rows) == {"2": "Bob", "3": "Cat"}, "what was missed")
        assert len(again.records()) == 1
