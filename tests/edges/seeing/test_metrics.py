"""GET /metrics, as Prometheus's own parser reads it: of a real log, a real store, a real database."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from headwater.browse.health import BrokerHealth, HealthReader
from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner
from headwater.client import topics
from headwater.client.log import Log
from headwater.client.position import Position
from headwater.client.publisher import Draft, publish
from headwater.edges import counts
from headwater.edges.config import Edges
from headwater.edges.context import Context
from headwater.edges.guard import Guard
from headwater.edges.metrics import CONTENT_TYPE, Glance, router
from headwater.edges.server import made_context
from headwater.project import control
from headwater.project.file import Project, load
from headwater.testing.targets import Writer
from headwater.views.targets.contract import Applied, Kind, Shape
from headwater.views.targets.registry import target_for
from tests.compat.waiting import until

DOCS = Path(__file__).parents[3] / "docs"
Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(context: Context, path: str = "/metrics") -> Found:
    """Every sample, by name and labels."""
    app = FastAPI()
    app.include_router(router(context))
    guarded = Guard(app, context, loopback_only=False)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=guarded)
        async with httpx.AsyncClient(transport=transport, base_url="http://edges") as client:
            return await client.get(path)

    answer = asyncio.run(ask())
    assert answer.status_code == 200
    assert answer.headers["content-type"] == CONTENT_TYPE
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(found: Found, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


@contextmanager
def context_of(bootstrap: str, project: Project | None = None) -> Iterator[Context]:
    context = made_context(Edges(), project, bootstrap, {})
    with context.log:
        yield context


def test_topics_and_groups_are_told_as_they_are(log: Log, topic: Callable[..., str]):
    name = topic(partitions=2)
    for number in range(5):
        publish(log, name, Draft(None, b"v" * 100, partition=number % 2))
    settings = {**log.settings, "group.id": f"g-{name}", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    with context_of(log.bootstrap) as context:
        context.status.of("bridges.sensors").failures = 3
        found = scraped(context)
    assert value(found, "headwater_topic_end_offset", topic=name, partition="0") == 3
    assert value(found, "headwater_topic_end_offset", topic=name, partition="1") == 2
    assert value(found, "headwater_topic_start_offset", topic=name, partition="0") == 0
    assert (value(found, "headwater_topic_bytes", topic=name, partition="0") or 0) > 300
    place = {"group": f"g-{name}", "topic": name, "partition": "0"}
    assert value(found, "headwater_group_offset", **place) == 1
    assert value(found, "headwater_group_lag_records", **place) == 2
    assert value(found, "headwater_group_members", group=f"g-{name}") == 0
    assert value(found, "headwater_up", part="log") == 1
    assert value(found, "headwater_edge_service_running", service="bridges.sensors") == 0
    assert value(found, "headwater_edge_service_failures", service="bridges.sensors") == 3
    assert (value(found, "process_resident_memory_bytes") or 0) > 1e6
    assert not any("__" in each for name, labels in found for _, each in labels)


def test_topics_and_groups_have_the_names_of_kafkas_exporters(log: Log, topic: Callable[..., str]):
    name = topic(partitions=2)
    for number in range(5):
        publish(log, name, Draft(None, b"v" * 100, partition=number % 2))
    group = f"g-{name}"
    settings = {**log.settings, "group.id": group, "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        places = [TopicPartition(name, 0, 1), TopicPartition(name, 1, 2)]
        consumer.commit(offsets=places, asynchronous=False)
    with context_of(log.bootstrap) as context:
        found = scraped(context, "/metrics/kafka")
    assert value(found, "kafka_brokers") == 1
    assert value(found, "kafka_topic_partitions", topic=name) == 2
    at = {"topic": name, "partition": "0"}
    assert value(found, "kafka_topic_partition_current_offset", **at) == 3
    assert value(found, "kafka_topic_partition_oldest_offset", **at) == 0
    assert value(found, "kafka_topic_partition_replicas", **at) == 1
    assert value(found, "kafka_topic_partition_in_sync_replica", **at) == 1
    assert value(found, "kafka_topic_partition_leader_is_preferred", **at) == 1
    assert value(found, "kafka_topic_partition_under_replicated_partition", **at) == 0
    assert value(found, "kafka_consumergroup_current_offset", consumergroup=group, **at) == 1
    assert value(found, "kafka_consumergroup_lag", consumergroup=group, **at) == 2
    assert value(found, "kafka_consumergroup_lag_sum", consumergroup=group, topic=name) == 2
    assert (
        value(found, "kafka_consumergroup_current_offset_sum", consumergroup=group, topic=name) == 3
    )
    assert value(found, "kafka_consumergroup_members", consumergroup=group) == 0
    of_group = {"group_id": group, "topic_name": name}
    assert value(found, "kminion_kafka_consumer_group_topic_lag", **of_group) == 2
    lag = "kminion_kafka_consumer_group_topic_partition_lag"
    assert value(found, lag, partition_id="0", **of_group) == 2
    assert value(found, "kminion_kafka_topic_high_water_mark_sum", topic_name=name) == 5
    assert (
        value(found, "kminion_kafka_topic_log_dir_total_size_bytes", topic_name=name) or 0
    ) > 300
    info = [dict(labels) for metric, labels in found if metric == "kminion_kafka_topic_info"]
    described = {"partition_count": "2", "replication_factor": "1", "cleanup_policy": "delete"}
    assert {"topic_name": name, **described} in info


def test_every_metric_of_kafkas_exporters_is_in_the_documents(log: Log):
    with context_of(log.bootstrap) as context:
        found = scraped(context, "/metrics/kafka")
    told = set(re.findall(r"`((?:kafka|kminion)_\w+)`", (DOCS / "monitoring.md").read_text()))
    assert {name for name, _ in found} <= told


def test_how_the_broker_is_stands_beside_it(log: Log):
    with context_of(log.bootstrap) as context:
        reader = HealthReader(context.log)

        def told() -> BrokerHealth | None:
            # The topic is there a moment before anything is in it.
            health = reader.look()
            whole = health and health.loop and {"cleaner", "retention"} <= health.tasks.keys()
            return health if whole else None

        health = until(told, "the broker to tell how it is")
        found = scraped(context)
    assert health is not None
    assert value(found, "headwater_broker_task_failures_total", task="cleaner") == 0
    assert value(found, "headwater_broker_task_failing", task="retention") == 0
    assert value(found, "headwater_broker_loop_longest_turn_seconds") is not None
    assert value(found, "headwater_broker_loop_slow_turns_total") is not None
    assert value(found, "headwater_broker_troubles") == 0, health.troubles


def test_what_the_edges_counted_is_there(log: Log):
    counts.arrived("http", "seen", 3, 300)
    with context_of(log.bootstrap) as context:
        found = scraped(context)
    assert (value(found, "headwater_edge_records_in_total", way="http", topic="seen") or 0) >= 3
    assert value(found, "headwater_edge_waiting_bytes") == 0


def test_a_view_and_a_capture_are_told(log: Log, topic: Callable[..., str], tmp_path: Path):
    name = topic()
    for _ in range(4):
        publish(log, name, Draft(b"k", b"v"))
    _project(tmp_path, name)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        shop = f"sqlite:{tmp_path / 'shop.db'}"
        config = CaptureConfig("metered", shop, bootstrap=log.bootstrap)
        Runner(config).run(until_streaming=True)
        with context_of(log.bootstrap, load(tmp_path / "headwater.toml")) as context:
            found = scraped(context)
    assert value(found, "headwater_up", part="views") == 1
    assert value(found, "headwater_up", part="captures") == 1
    assert value(found, "headwater_view_up", view="seen") == 1
    assert value(found, "headwater_view_position", view="seen", topic=name, partition="0") == 3
    assert value(found, "headwater_view_lag_records", view="seen") == 1
    assert (value(found, "headwater_view_lag_seconds", view="seen") or -1) > 0
    assert value(found, "headwater_view_version", view="seen") == 1
    assert value(found, "headwater_capture_streaming", capture="metered") == 1
    stored = value(found, "headwater_capture_stored_timestamp_seconds", capture="metered")
    assert stored is not None and stored > 1.7e9


def _project(folder: Path, topic: str) -> None:
    """With a view that has come to offset 3, without Spark."""
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "views.py").write_text(
        "import headwater as hw\n\n\n@hw.view('seen', key='id', to='sqlite:x')\n"
        f"def seen():\n    return hw.stream('{topic}')\n"
    )
    place = f"sqlite:{folder / 'views.db'}"
    (folder / "headwater.toml").write_text(
        f'[views.seen]\nto = "{place}"\n[capture.metered]\nfrom = "sqlite:{folder}/shop.db"\n'
    )
    shape = Shape("seen", pa.schema([("id", pa.int64())]), ("id",), Kind.UPSERT)
    writer = Writer(target_for(place, shape))
    rows = writer.stage(0, 0, [(1,)])
    writer.target.commit(Applied(0, writer.epoch, Position({topic: {0: 3}})), [rows])


LOOKING_AT_VIEWS = """
import sys
from pathlib import Path
from headwater.client.log import Log
from headwater.edges.metrics import views_seen
from headwater.errors import HeadwaterError
from headwater.project.file import load

look = views_seen(Log("127.0.0.1:1"), load(Path(sys.argv[1])))
try:
    look()
except HeadwaterError as error:
    print(error)
    print("pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._gateway is not None)
"""


def test_files_with_a_mistake_start_no_spark_when_somebody_scrapes(tmp_path: Path):
    _project(tmp_path, "orders")
    (tmp_path / "pipelines" / "views.py").write_text("import headwater as hw\n\nhw.veiw\n")
    words = [sys.executable, "-c", LOOKING_AT_VIEWS, str(tmp_path / "headwater.toml")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    sentence, *_, started = ended.stdout.splitlines()
    assert "veiw" in sentence
    assert started == "False"


def test_a_log_that_is_away_leaves_its_metrics_out_and_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(topics, "TIMEOUT_S", 0.5)  # nobody is going to answer
    with context_of("127.0.0.1:1") as context:
        context.status.of("alerts.x").doing = "running"
        found = scraped(context)
    assert value(found, "headwater_up", part="log") == 0
    assert value(found, "headwater_edge_service_running", service="alerts.x") == 1
    assert not any(name == "headwater_topic_end_offset" for name, _ in found)


# ---- one question for many who ask -------------------------------------------------------------------


async def test_many_who_scrape_ask_once():
    asked, now, go = [], [0.0], threading.Event()

    def look() -> int:
        asked.append(1)
        go.wait(60)
        return len(asked)

    glance = Glance(look, 1.0, lambda: now[0])
    waiting = [asyncio.create_task(glance.fresh(60)) for _ in range(5)]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert await glance.fresh(60) == 1
    now[0] = 1.0
    assert await glance.fresh(60) == 2


async def test_what_does_not_answer_is_left_out_and_comes_later():
    go = threading.Event()
    glance = Glance(lambda: go.wait(60), 1.0, lambda: 0.0)
    assert await glance.fresh(0.0) is None
    assert glance.trouble == "it has not answered in time"
    go.set()
    assert await glance.fresh(60) is True
    assert glance.trouble is None


async def test_a_failure_is_remembered_as_well():
    asked = []

    def look() -> None:
        asked.append(1)
        raise OSError("no route")

    glance = Glance(look, 1.0, lambda: 0.0)
    assert await glance.fresh(60) is None
    assert await glance.fresh(60) is None
    assert glance.trouble == "OSError: no route"
    assert len(asked) == 1


def test_what_somebody_has_paused_is_told(log: Log, tmp_path: Path):
    (tmp_path / "headwater.toml").write_text(
        f'[log]\nbootstrap = "{log.bootstrap}"\n[pipelines]\npaths = ["none.py"]\n'
        '[views.totals]\nto = "sqlite:shop.db"\n[capture.shop]\nfrom = "sqlite:shop.db"\ntables = ["a"]\n'
    )
    (tmp_path / "none.py").write_text("")
    project = load(tmp_path / "headwater.toml")
    control.ask(control.folder_of(project), "view totals", "pause", "User:ann")
    context = made_context(Edges(), project, log.bootstrap, {})
    found = scraped(context)

    def of(name: str) -> float:
        return found["headwater_paused", frozenset({("name", name)})]

    assert of("view totals") == 1
    assert of("capture shop") == of("pipelines") == 0
