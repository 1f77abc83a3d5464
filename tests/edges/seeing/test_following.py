"""One record from the database to the view, as a collector sees it; real broker, capture and collector."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner
from headwater.client.log import Log
from headwater.client.publisher import Draft, Stored, publish
from headwater.edges.services import State, keep_running
from headwater.edges.tracing import follower as following
from headwater.edges.tracing.exporter import Exporter
from headwater.edges.tracing.follower import Follower
from headwater.edges.tracing.settings import read
from tests.edges.running import until
from tests.edges.seeing.collector import Collector, collector, values

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
HEADERS = [("traceparent", f"00-{TRACE}-{PARENT}-01".encode())]


@pytest.fixture(scope="module")
def found() -> Iterator[Collector]:
    with collector() as running:
        yield running


@contextmanager
def tracing(log: Log, found: Collector, topic: str, **words: object) -> Iterator[None]:
    """The service alone, as the edges run it, once it stands at the topic's end."""
    tracing_ = read({"otlp": found.url, "topics": [topic], **words})
    follower = Follower(log, tracing_, Exporter(tracing_))
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    async def run() -> None:
        task = asyncio.ensure_future(keep_running(follower, State()))
        started.append((asyncio.get_running_loop(), task))
        await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="tracing")
    thread.start()
    try:
        until(follower.is_following.is_set, "the follower")
        yield
    finally:
        loop, task = started[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        assert not thread.is_alive()


def pass_over(log: Log, group: str, topic: str, place: Stored) -> None:
    """A reader that has stored all up to this record, and says so."""
    settings = {**log.settings, "group.id": group, "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(
            offsets=[TopicPartition(topic, place.partition, place.offset + 1)], asynchronous=False
        )


def test_an_applications_trace_goes_on_to_the_views(
    log: Log, topic: Callable[..., str], found: Collector
):
    name = topic()
    with tracing(log, found, name):
        publish(log, name, Draft(b"k", b"not followed"))
        place = publish(log, name, Draft(b"k", b"v", HEADERS))
        pass_over(log, f"headwater-{name}", name, place)
        until(lambda: found.named(f"view {name}"), "the view's span")
    (span,) = found.named(f"view {name}")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert values(span.attributes)["messaging.kafka.offset"] == place.offset
    assert values(span.attributes)["headwater.view"] == name
    assert span.start_time_unix_nano <= span.end_time_unix_nano


def test_a_change_is_followed_from_its_commit(
    log: Log, tmp_path: Path, found: Collector, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "TOPICS_EVERY_S", 0.1)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO orders VALUES (1, 'of the snapshot: not traced')")
        config = CaptureConfig(
            "seen", f"sqlite:{tmp_path / 'shop.db'}", bootstrap=log.bootstrap, traced=1.0
        )
        runner = Runner(config)
        thread = threading.Thread(target=runner.run, name="capture")
        thread.start()
        try:
            until(lambda: runner.status.phase == "streaming", "the snapshot")
            with tracing(log, found, "seen.*"):
                database.execute("INSERT INTO orders VALUES (2, 'milk')")
                until(lambda: found.named("capture seen"), "the capture's span")
                offset = values(found.named("capture seen")[0].attributes)["messaging.kafka.offset"]
                pass_over(log, "headwater-milk", "seen.orders", Stored(0, offset))
                until(lambda: found.named("view milk"), "the view's span")
        finally:
            runner.stop()
            thread.join()
    (capture,), (view,) = found.named("capture seen"), found.named("view milk")
    assert capture.parent_span_id == b""
    assert view.trace_id == capture.trace_id
    assert view.parent_span_id == capture.span_id
    assert [event.name for event in capture.events] == ["read from the database"]
    assert capture.start_time_unix_nano <= capture.events[0].time_unix_nano
    assert capture.events[0].time_unix_nano <= capture.end_time_unix_nano
    assert values(capture.attributes)["messaging.destination.name"] == "seen.orders"


def test_a_reader_that_never_comes_is_told_when_patience_ends(
    log: Log, topic: Callable[..., str], found: Collector
):
    name = topic()
    pass_over(log, f"headwater-{name}", name, Stored(0, -1))
    with tracing(log, found, name, patience_seconds=1):
        publish(log, name, Draft(b"k", b"v", HEADERS))
        until(lambda: found.named(f"view {name}"), "the view's span")
    (span,) = found.named(f"view {name}")
    assert span.status.message == "had not passed the record after 1 s"
