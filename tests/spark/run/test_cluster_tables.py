"""A view over tables on a standalone cluster: its state is on shared storage, and nobody is missed for long.

Master and two workers are processes with folders of their own, and so are the two drivers. What they share is
the folder of checkpoints and the view's store.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import headwater.testing
from tests.spark.run import servers
from tests.spark.run.desk import Desk
from tests.spark.run.process import RunProcess
from tests.spark.run.test_elsewhere import CLUSTER

PIPELINE = """
import headwater as hw

@hw.view("named", key="id", to="sqlite:{store}")
def named():
    orders = hw.table("orders", schema="id BIGINT, customer STRING, total DOUBLE", key="id")
    customers = hw.table("customers", schema="customer STRING, name STRING", key="customer")
    return orders.join(customers, "customer", "left").where("total > 1").select("id", "name", "total")
"""


class Shop:
    """Changes of two tables, sent; and what the view must be after them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.orders: dict[int, tuple[str, float]] = {}
        self.customers: dict[str, str] = {}

    def order(self, number: int, customer: str, total: float) -> None:
        self.orders[number] = customer, total
        row = {"id": number, "customer": customer, "total": total}
        self._change("orders", {"id": number}, row)

    def cancel(self, number: int) -> None:
        del self.orders[number]
        self._desk.send("orders", [(json.dumps({"id": number}), None)])

    def customer(self, name: str, called: str) -> None:
        self.customers[name] = called
        self._change("customers", {"customer": name}, {"customer": name, "name": called})

    def leave(self, name: str) -> None:
        del self.customers[name]
        value = {"op": "d", "before": {"customer": name}, "after": None}
        self._desk.send("customers", [(json.dumps({"customer": name}), json.dumps(value))])

    def _change(self, topic: str, key: Any, row: Any) -> None:
        value = {"op": "u", "before": None, "after": row}
        self._desk.send(topic, [(json.dumps(key), json.dumps(value))])

    @property
    def expected(self) -> list[tuple[Any, ...]]:
        rows = ((n, self.customers.get(c), total) for n, (c, total) in self.orders.items())
        return sorted(row for row in rows if row[2] > 1)


def rows_in(store: Path) -> list[tuple[Any, ...]]:
    if not store.exists():
        return []
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        return sorted(connection.execute("SELECT id, name, total FROM named").fetchall())
    except sqlite3.OperationalError:  # no table yet
        return []
    finally:
        connection.close()


@pytest.mark.soak  # eight JVMs; what they share and lose is in views/tables/test_shared_state
@pytest.mark.timeout(1500)
def test_a_worker_and_the_driver_are_lost_and_the_view_is_what_its_tables_say(tmp_path: Path):
    shared, workers = tmp_path / "shared", list[int]()
    shared.mkdir()
    store = shared / "views.db"
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    (pipelines / "views.py").write_text(PIPELINE.format(store=store))
    with (
        headwater.testing.broker(settings={"num.partitions": 2}) as broker,
        servers.standalone(tmp_path, workers=2, killable=workers) as master,
    ):
        desk = Desk(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]
        for topic in ("orders", "customers"):
            desk.log.ensure_topic(topic, {}, partitions=2)
        shop = Shop(desk)
        for n in range(12):
            shop.order(n, f"c{n % 4}", float(n))
        for n in range(3):
            shop.customer(f"c{n}", f"name {n}")
        words = [str(pipelines), "--bootstrap", broker.bootstrap, "--master", master]
        words += ["--checkpoints", str(shared / "checkpoints")]
        words += [word for name, value in CLUSTER.items() for word in ("--conf", f"{name}={value}")]
        with RunProcess(tmp_path / "driver-1", *words) as run:
            run.wait_until(lambda: rows_in(store) == shop.expected, "the first rows", 600)
            os.killpg(workers[0], signal.SIGKILL)
            shop.customer("c3", "late")
            shop.leave("c1")
            shop.cancel(5)
            run.wait_until(lambda: rows_in(store) == shop.expected, "a worker fewer", 600)
            shop.order(6, "c3", 0.5)
            shop.customer("c1", "back")
            run.kill()
        words += ["--conf", "spark.scheduler.minRegisteredResourcesRatio=0.5"]
        with RunProcess(tmp_path / "driver-2", *words) as run:
            run.wait_until(lambda: rows_in(store) == shop.expected, "another driver", 600)
            shop.order(20, "c1", 20.0)
            run.wait_until(lambda: rows_in(store) == shop.expected, "what came later", 600)
            assert run.stop() == 0, run.output
    assert list((shared / "checkpoints" / "named" / "tables" / "manifests").iterdir())
    for driver in ("driver-1", "driver-2"):
        left = {each.name.partition("-")[0] for each in (tmp_path / driver).rglob("*")}
        assert left <= {"output", "artifacts"}, "nothing of the view is in a driver's folder"
