"""kill -9 of every process under `headwater up` while the load runs: in the end all views are equal.

The short story has one view and kills the three parts that cannot be missed. The long one (make soak) is
the demo's shop with its four views, and kills each of its processes in turn: the console, Spark's own Java
and the supervisor among them.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from headwater.project.demo.shop import stores, verification
from headwater.project.demo.shop.cache import EMBEDDED
from headwater.project.demo.shop.database import TABLES, Shop, SQLite
from headwater.project.demo.shop.load import CUSTOMERS, Load
from headwater.project.demo.shop.project import ShopProject, Up, write_project
from headwater.project.ports import free_port
from tests.compat.waiting import until
from tests.spark.quick import QUICK_ENVIRONMENT

PATIENCE_S = 300.0

FILE = """
[log]
listen = "127.0.0.1:{port}"
[spark]
master = "local[1]"
[capture.shop]
from = "sqlite:shop.db"
tables = ["orders"]
partitions = 1
[views.order_list]
to = "sqlite:data/views.db"
"""
PIPELINE = """
import headwater as hw

@hw.view("order_list", key="id")
def order_list():
    orders = hw.table("shop.orders", schema="id LONG, item STRING", key="id")
    return orders.where("item <> 'rope'")
"""


class Project:
    """One table, one view."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pipelines").mkdir()
        (folder / "pipelines" / "orders.py").write_text(PIPELINE)
        (folder / "headwater.toml").write_text(FILE.format(port=free_port()))
        self._write("PRAGMA journal_mode=WAL")
        self._write("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")

    def order(self, item: str) -> None:
        self._write("INSERT INTO orders (item) VALUES (?)", item)

    def cancel_first(self) -> None:
        self._write("DELETE FROM orders WHERE id = (SELECT min(id) FROM orders)")

    def _write(self, sql: str, *values: str) -> None:
        with closing(sqlite3.connect(self._folder / "shop.db", timeout=60)) as db, db:
            db.execute(sql, values)

    def expected(self) -> list[tuple[object, ...]]:
        return self._rows("shop.db", "SELECT id, item FROM orders WHERE item <> 'rope'")

    def equal(self) -> bool:
        try:
            return self._rows("data/views.db", "SELECT id, item FROM order_list") == self.expected()
        except sqlite3.OperationalError:  # it is not there yet
            return False

    def _rows(self, name: str, sql: str) -> list[tuple[object, ...]]:
        if not (self._folder / name).exists():
            return []
        with closing(sqlite3.connect(self._folder / name, timeout=60)) as db:
            return sorted(db.execute(sql).fetchall())


@pytest.mark.timeout(900)
def test_whatever_part_is_killed_the_view_ends_equal(tmp_path: Path):
    project = Project(tmp_path)
    project.order("kettle")
    with Up(tmp_path, QUICK_ENVIRONMENT) as up:
        until(project.equal, "the first row", PATIENCE_S)
        for name in ("broker", "capture shop", "pipelines"):
            for item in ("lamp", "rope", "tent"):
                project.order(item)
            up.kill_part(name)
            project.cancel_first()
            project.order(f"ordered while the {name} was away")
            until(lambda name=name: up.parts()[name].restarts == 1, f"{name} to be missed")
        until(project.equal, "all that was written meanwhile", PATIENCE_S)
        assert len(project.expected()) == 8
    said = (tmp_path / "up.log").read_text()
    assert "Traceback" not in said, said[-3000:]


class Traffic:
    """The shop goes on while something is waited for."""

    def __init__(self, load: Load, up: Up, cache: str) -> None:
        self._load, self._up, self._cache = load, up, cache
        self.last = 0

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}: {self._up.parts()}"
            new, gone = self._load.step()
            self.last = new or (0 if gone == self.last else self.last)
            time.sleep(0.01)

    def until_it_flows(self) -> None:
        """An order that was written after this call is in the cache."""
        wanted: list[int] = []

        def arrived() -> bool:
            if self.last and self.last not in wanted:
                wanted.append(self.last)
            try:
                return bool(wanted and stores.present(self._cache, "order_list", wanted[-200:]))
            except sqlite3.OperationalError:
                return False

        self.last = 0
        self.until(arrived, "an order to come through")


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_each_process_of_the_shop_killed_in_turn_under_load(tmp_path: Path):
    project = write_project(tmp_path / "shop", cache=EMBEDDED)
    with ExitStack() as cleanup:
        database = cleanup.enter_context(closing(SQLite(project.folder / "shop.db")))
        shop = Shop(database, CUSTOMERS)
        shop.make()
        load = Load(shop, Random(8))
        load.fill(200)
        up = cleanup.enter_context(Up(project.folder, QUICK_ENVIRONMENT))
        traffic = Traffic(load, up, project.views["order_list"])
        traffic.until_it_flows()
        for name in [*up.parts(), "Java", "supervisor"]:
            kill(up, name)
            traffic.until_it_flows()
        restarts = {name: part.restarts for name, part in up.parts().items()}
        assert set(restarts) >= {"broker", "capture shop", "pipelines"}
        load.close()
        settle(project, up)
        found = verification.verify(database, project.views, PATIENCE_S)
        assert [(view.name, view.different) for view in found] == [(n, 0) for n in project.views]
        assert all(view.rows for view in found)


def kill(up: Up, name: str) -> None:
    if name == "supervisor":
        up.kill()
        up.start()
        until(lambda: "pipelines" in up.parts(), "the supervisor to be back", PATIENCE_S)
        return
    before = up.parts()
    part = "pipelines" if name == "Java" else name
    if name == "Java":
        os.kill(java_of(before[part].pid), signal.SIGKILL)
    else:
        up.kill_part(name)
    # A JVM that is gone is an error for its driver, which ends by itself.
    until(
        lambda: up.parts()[part].restarts > before[part].restarts,
        f"{name} to be missed",
        PATIENCE_S,
    )


def java_of(pid: int | None) -> int:
    """The JVM among the children of a process."""
    said = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    (found,) = [line.split()[0] for line in said.stdout.splitlines() if line.endswith("java")]
    return int(found)


def settle(project: ShopProject, up: Up) -> None:
    """Every view has all that the log has, and the log all that the database had."""
    topics = tuple(f"shop.{table}" for table in TABLES)
    with closing(SQLite(project.folder / "shop.db")) as database:
        rows = sum(database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES)

    def ends() -> dict[str, dict[int, int]]:
        return verification.ends_of(project.bootstrap, topics)

    until(lambda: sum(sum(p.values()) for p in ends().values()) >= rows, "the capture", PATIENCE_S)
    final = ends()
    for name, to in project.views.items():
        until(
            lambda name=name, to=to: verification.has_reached(name, to, final),
            f"the view {name}",
            PATIENCE_S,
        )


if sys.platform != "linux":
    pytestmark = pytest.mark.skip(reason="only Linux tells a child of its parent's end")
