"""A whole project on this machine, then on Apache Kafka and a Spark cluster: it goes on, exactly once.

here       capture ─▶ log ─▶ local[2]  ─▶ views
promote              │ every offset
there      capture ─▶ Kafka ─▶ cluster ─▶ the same views, from where they were
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headwater.project.demo.shop.project import Up
from headwater.project.file import load
from headwater.project.ports import free_port
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.compat.missing import skip_or_fail
from tests.compat.waiting import until
from tests.project import moving
from tests.spark.quick import QUICK_ENVIRONMENT
from tests.spark.run import servers

PATIENCE_S = 300.0

FILE = """
[log]
data = "data/log"
listen = "127.0.0.1:{port}"

[spark]
master = "local[2]"
[spark.conf]
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.executor.memory" = "512m"
"spark.sql.shuffle.partitions" = "2"

[capture.shop]
from = "sqlite:shop.db"
tables = ["orders"]
partitions = 2

[views.order_list]
to = "sqlite:{folder}/data/list.db"
[views.changes]
to = "sqlite:{folder}/data/changes.db"
"""
PIPELINE = """
import headwater as hw

ORDER = "id LONG, item STRING"

@hw.view("order_list", key="id")
def order_list():
    return hw.table("shop.orders", schema=ORDER, key="id").where("item <> 'rope'")

@hw.view("changes")
def changes():
    return hw.stream("shop.orders", schema=f"op STRING, after STRUCT<{ORDER}>").select("op", "after.*")

@hw.view("passed_on", to="topic:passed-on")
def passed_on():
    return hw.stream("shop.orders").select("key", "value")
"""


class Shop:
    """One table; every change to it is counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changes = 0
        (folder / "pipelines").mkdir(parents=True)
        (folder / "pipelines" / "orders.py").write_text(PIPELINE)
        (folder / "headwater.toml").write_text(FILE.format(port=free_port(), folder=folder))
        self._write("PRAGMA journal_mode=WAL")
        self._write("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")

    def work(self, item: str) -> None:
        for number in range(20):
            self._write("INSERT INTO orders (item) VALUES (?)", f"{item} {number}")
        self._write("UPDATE orders SET item = 'rope' WHERE id = (SELECT max(id) FROM orders)")
        self.changes += 21

    def equal(self) -> bool:
        """Whether the list has the orders, and the changes are all there, once."""
        try:
            listed = self._rows("data/list.db", "SELECT id, item FROM order_list")
            changes = self._rows("data/changes.db", "SELECT op, id, item FROM changes")
        except sqlite3.OperationalError:  # they are being made
            return False
        orders = self._rows("shop.db", "SELECT id, item FROM orders WHERE item <> 'rope'")
        assert len(changes) <= self.changes, "something was done twice"
        return listed == orders and len(changes) == self.changes

    def _write(self, sql: str, *values: str) -> None:
        with closing(sqlite3.connect(self.folder / "shop.db", timeout=60)) as db, db:
            db.execute(sql, values)

    def _rows(self, name: str, sql: str) -> list[tuple[object, ...]]:
        if not (self.folder / name).exists():
            raise sqlite3.OperationalError("not made yet")
        with closing(sqlite3.connect(self.folder / name, timeout=60)) as db:
            return sorted(db.execute(sql).fetchall())


def passed_on(bootstrap: str) -> list[bytes | None]:
    return [seen.value for seen in moving.seen(bootstrap, ["passed-on"], "read_committed")]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_promoted_project_goes_on_exactly_once(tmp_path: Path):
    shop = Shop(tmp_path / "shop")
    shop.work("kettle")
    shop.changes = 20  # the snapshot has the rows as they are
    with Up(shop.folder, QUICK_ENVIRONMENT) as up:
        until(shop.equal, "the views to follow here", PATIENCE_S)
        shop.work("lamp")
        until(shop.equal, "the views to follow here, again", PATIENCE_S)
        bootstrap = load(shop.folder / "headwater.toml").address
        until(lambda: len(passed_on(bootstrap)) == shop.changes, "the topic", PATIENCE_S)
        before = moving.seen(bootstrap, ["shop.orders", "passed-on"])
        assert up.stop() == 0

    shop.work("written while nothing runs")
    try:
        with (
            apache_kafka({"num.partitions": 2}, jvm=QUICK_JVM) as kafka,
            servers.standalone(tmp_path, workers=2) as master,
        ):
            words = ["promote", "--kafka", kafka.bootstrap, "--spark", master]
            moved = subprocess.run(
                [sys.executable, "-m", "headwater", *words],
                cwd=shop.folder,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert moved.returncode == 0, moved.stdout + moved.stderr
            assert "3 checkpoints" in moved.stdout
            assert moving.seen(kafka.bootstrap, ["shop.orders", "passed-on"]) == before

            with Up(shop.folder, QUICK_ENVIRONMENT) as up:
                until(shop.equal, "the views to follow there", PATIENCE_S)
                shop.work("tent")
                until(shop.equal, "the views to follow there, again", PATIENCE_S)
                wanted = shop.changes
                until(lambda: len(passed_on(kafka.bootstrap)) >= wanted, "the topic", PATIENCE_S)
                assert up.stop() == 0, (shop.folder / "up.log").read_text()[-3000:]
            assert len(passed_on(kafka.bootstrap)) == wanted
            assert list((tmp_path / "worker-0").glob("app-*/*/stderr")), "the cluster did no work"
    except MissingServer as missing:
        skip_or_fail(f"Apache Kafka cannot run here: {missing}")
