"""The same requests where the log is Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka.admin import NewTopic

from headwater.client.log import Log
from tests.compat.kafka_log import kafka_log
from tests.edges.http.reading import values
from tests.edges.running import edges, until


@pytest.fixture(scope="module")
def kafka() -> Iterator[Log]:
    with kafka_log() as log:
        yield log


def test_events_come_in_and_keys_are_remembered_over_a_restart(kafka: Log):
    kafka.admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
    lines = b"".join(b'{"id":%d}\n' % number for number in range(500))
    kind = {"Content-Type": "application/x-ndjson"}
    answers = []
    for _ in range(2):
        with edges(kafka.bootstrap) as running, httpx.Client(base_url=running.url) as http:
            for _ in range(2):
                words = {**kind, "Idempotency-Key": "k"}
                sent = {"params": {"key_field": "id"}, "content": lines, "headers": words}
                answers.append(http.post("/topics/orders", **sent, timeout=60))
            plain = http.post("/topics/orders", content=lines, headers=kind, timeout=60)
            assert plain.json()["records"] == 500, plain.text
            partly = {"params": {"partial": "true"}, "content": b"1\n{\n", "headers": kind}
            assert http.post("/topics/orders", **partly, timeout=60).json()["refused"] == 1
            assert http.post("/topics/ordres", json=1, timeout=60).status_code == 404
    assert len({answer.text for answer in answers}) == 1, [answer.text for answer in answers]
    replays = [answer.headers.get("idempotent-replay") for answer in answers]
    assert replays == [None, "true", "true", "true"]
    # Kafka writes the markers of a transaction after its answer.
    until(lambda: len(values(kafka, "orders")) == 3 * 500 + 2, "all records to be seen")
    assert len(values(kafka, "orders.dead-letters")) == 2
