"""The same where the log is Apache Kafka: traces, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from headwater.client.log import Log
from tests.compat.kafka_log import kafka_log
from tests.edges.running import until
from tests.edges.seeing import test_following, test_from_http_to_view, test_metrics
from tests.edges.seeing.collector import collector

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def kafka() -> Iterator[Log]:
    with kafka_log() as log:
        yield log


@pytest.fixture
def topic(kafka: Log, request: pytest.FixtureRequest) -> Callable[..., str]:
    def make(partitions: int = 1) -> str:
        name = request.node.name
        kafka.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        until(lambda: name in kafka.admin.list_topics(timeout=60).topics, "the topic")
        return name

    return make


def test_a_request_and_a_change_are_followed(
    kafka: Log, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    test_from_http_to_view.test_a_request_is_followed_to_the_view(kafka, topic, "application/json")
    with collector() as found:
        test_following.test_a_change_is_followed_from_its_commit(
            kafka, tmp_path, found, monkeypatch
        )


def test_topics_groups_views_and_captures_are_told(
    kafka: Log, topic: Callable[..., str], tmp_path: Path
):
    test_metrics.test_a_view_and_a_capture_are_told(kafka, topic, tmp_path)


def test_groups_are_told(kafka: Log, topic: Callable[..., str]):
    test_metrics.test_topics_and_groups_are_told_as_they_are(kafka, topic)
