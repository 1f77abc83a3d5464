"""A shop's database, captured; three views that follow it while it is written to and the broker is
killed; then every row of every view compared with the database. Called by the demo after Spark's step.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from confluent_kafka import TopicPartition

from headwater.project.broker_process import BrokerProcess
from headwater.project.demo.clients import consumer
from headwater.project.demo.shop.database import CUSTOMERS, Shop
from headwater.project.demo.shop.parts import Command, Deadline
from headwater.project.demo.summary import Audience, Plan, Summary, Views
from headwater.views.position import Position

FIRST_ORDERS = 2_000
WRITES_PER_S = 200
PATIENCE_S = 180.0
TOPICS = ("shop.customers", "shop.orders")
VIEWS = {
    "order_list": "sqlite:views.db",
    "order_search": "search:search",
    "spent": "duckdb:spent.db",
}
_READS = {"spent": ("shop.orders",)}
"""The topics of a view that does not read all of them."""
PIPELINES = Path(__file__).with_name("pipelines.py")


def keep_shop(broker: BrokerProcess, plan: Plan, summary: Summary, audience: Audience) -> None:
    """Fill in `summary.views`."""
    folder = plan.data / f"{plan.topic}-shop"
    folder.mkdir(parents=True)
    found = summary.views = Views()
    with closing(Shop(folder / "shop.db", Random(plan.topic))) as shop:
        shop.fill(FIRST_ORDERS)
        with _capture(broker, folder) as capture:
            _snapshot(broker.bootstrap, capture, found, audience)
            with _run(broker, folder) as run:
                deadline = Deadline(PATIENCE_S, capture, run)
                _first(broker.bootstrap, folder, deadline, found, audience)
                _load(broker, shop, folder, plan, found, audience)
                _compare(broker.bootstrap, shop, folder, deadline, found, audience)


def _capture(broker: BrokerProcess, folder: Path) -> Command:
    words = ["capture", "run", "shop", "--from", "sqlite:shop.db", "--bootstrap", broker.bootstrap]
    for topic in TOPICS:
        words += ["--table", topic.partition(".")[2]]
    return Command("capture", words, folder)


def _run(broker: BrokerProcess, folder: Path) -> Command:
    words = ["run", str(PIPELINES), "--bootstrap", broker.bootstrap, "--master", "local[2]"]
    words += ["--checkpoints", "checkpoints"]
    for name, to in VIEWS.items():
        words += ["--to", f"{name}={to}"]
    return Command("views", words, folder)


def _snapshot(bootstrap: str, capture: Command, found: Views, audience: Audience) -> None:
    audience.begin("Capturing a database")
    begin, deadline = time.perf_counter(), Deadline(PATIENCE_S, capture)
    while _total(_ends(bootstrap)) < FIRST_ORDERS + CUSTOMERS:
        deadline.wait("the first snapshot")
    found.snapshot_s = time.perf_counter() - begin
    rows = FIRST_ORDERS + CUSTOMERS
    audience.end(f"{rows:,} rows of SQLite in the log after {found.snapshot_s:.1f} s")


def _first(
    bootstrap: str, folder: Path, deadline: Deadline, found: Views, audience: Audience
) -> None:
    audience.begin("Building three views")
    begin = time.perf_counter()
    _until_there(bootstrap, folder, deadline)
    found.build_s = time.perf_counter() - begin
    audience.end(f"SQLite, search, DuckDB; there after {found.build_s:.1f} s, with Spark's start")


def _load(
    broker: BrokerProcess, shop: Shop, folder: Path, plan: Plan, found: Views, audience: Audience
) -> None:
    """Write for a while, and kill the broker in the middle of it."""
    audience.begin("Writing to the database", int(plan.shop_seconds * WRITES_PER_S))
    written: dict[int, float] = {}
    watcher = _Watcher(folder / "views.db", written)
    killer = threading.Timer(plan.shop_seconds / 2, _kill, (broker,))
    begin = time.monotonic()
    killer.start()
    with watcher:
        while (now := time.monotonic()) < begin + plan.shop_seconds:
            if found.writes % 2:
                shop.change()
            else:
                written[shop.order()] = time.monotonic()
            found.writes += 1
            audience.advance(found.writes)
            time.sleep(max(0.0, begin + found.writes / WRITES_PER_S - now))
        killer.join()
        deadline = time.monotonic() + PATIENCE_S
        while watcher.seen < max(written) and time.monotonic() < deadline:
            time.sleep(0.02)
    latencies = sorted(watcher.latencies)
    if len(latencies) > 1:
        cuts = quantiles(latencies, n=100)
        found.latency_p50_s, found.latency_p99_s = cuts[49], cuts[98]
    audience.end(
        f"{found.writes:,} writes, the broker killed in the middle; in the view after "
        f"{found.latency_p50_s:.2f} s (p50), {found.latency_p99_s:.2f} s (p99)"
    )


def _kill(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


class _Watcher:
    """Looks at the list of orders all the time, and notes when each new one is seen there."""

    def __init__(self, path: Path, written: dict[int, float]) -> None:
        self.seen = 0
        self.latencies: list[float] = []
        self._written = written
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with closing(sqlite3.connect(self._path, timeout=30)) as db:
            while not self._over.wait(0.01):
                newest = db.execute("SELECT max(id) FROM order_list").fetchone()[0] or 0
                now = time.monotonic()
                for number in range(self.seen + 1, newest + 1):
                    if number in self._written:
                        self.latencies.append(now - self._written[number])
                self.seen = max(self.seen, newest)


def _compare(
    bootstrap: str, shop: Shop, folder: Path, deadline: Deadline, found: Views, audience: Audience
) -> None:
    audience.begin("Comparing the views")
    _until_captured(bootstrap, shop, deadline)
    _until_there(bootstrap, folder, deadline)
    for name in VIEWS:
        expected, rows = shop.expected(name), _rows(name, folder)
        found.rows += len(rows)
        found.different += len(expected ^ rows)
    audience.end(f"{found.rows:,} rows in three views, {found.different} differ from the database")


def _until_captured(bootstrap: str, shop: Shop, deadline: Deadline) -> None:
    """The capture has all that was committed once a last order of ours is in the log."""
    before = _total(_ends(bootstrap))
    shop.order()
    while _total(_ends(bootstrap)) <= before:
        deadline.wait("the last change")


def _until_there(bootstrap: str, folder: Path, deadline: Deadline) -> None:
    ends = _ends(bootstrap)
    for name in VIEWS:
        end = Position({topic: ends[topic] for topic in _READS.get(name, TOPICS)})
        while (position := _position(name, folder)) is None or not position.covers(end):
            deadline.wait(f"the view {name}")


def _position(name: str, folder: Path) -> Position | None:
    from headwater.views.waiting import View

    try:
        return View(name, _to(name, folder)).position()
    except Exception:  # it is being made, or its one writer has it open: look again
        return None


def _rows(name: str, folder: Path) -> set[tuple[object, ...]]:
    from headwater.views.registry import target_for
    from headwater.views.target import Shape

    target = target_for(_to(name, folder), Shape(name, _SCHEMAS[name](), _KEYS[name]))
    with target.reading() as (_, batches):
        return {tuple(row.values()) for batch in batches for row in batch.to_pylist()}


_KEYS = {"order_list": ("id",), "order_search": ("id",), "spent": ("customer_id",)}


def _schema(*names: str) -> Any:
    import pyarrow as pa

    numbers = {"id", "customer_id", "cents", "orders"}
    return pa.schema([(name, pa.int64() if name in numbers else pa.string()) for name in names])


_SCHEMAS = {
    "order_list": lambda: _schema("id", "name", "city", "item", "cents"),
    "order_search": lambda: _schema("id", "name", "city", "item"),
    "spent": lambda: _schema("customer_id", "orders", "cents"),
}


def _to(name: str, folder: Path) -> str:
    scheme, _, rest = VIEWS[name].partition(":")
    return f"{scheme}:{folder / rest}"


def _ends(bootstrap: str) -> dict[str, dict[int, int]]:
    """Where each topic of the shop ends now."""
    with closing(consumer(bootstrap, "shop")) as client:
        known = client.list_topics(timeout=30).topics
        return {
            topic: {
                number: client.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
                for number in known[topic].partitions
            }
            for topic in TOPICS
            if topic in known
        }


def _total(ends: dict[str, dict[int, int]]) -> int:
    return sum(sum(partitions.values()) for partitions in ends.values())
