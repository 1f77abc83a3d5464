"""What is measured: a project with its views, the load on it, and which of its views are looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headwater.project.demo.shop.database import TABLES
from headwater.project.demo.shop.project import PIPELINES
from headwater.project.ports import free_port

ORDERS, VISITS = "orders", "visits"
TOPIC = "topic"

_TABLES = """
import headwater as hw


def orders():
    schema = "id LONG, customer_id LONG, item STRING, cents LONG"
    return hw.table("shop.orders", schema=schema, key="id")


def customers():
    table = hw.table("shop.customers", schema="id LONG, name STRING, city STRING", key="id")
    return table.withColumnRenamed("id", "customer_id")
"""
_JOIN = """

@hw.view("{name}", key="id")
def {name}():
    return orders().join(customers(), "customer_id").select("id", "name", "city", "item", "cents")
"""
_STATELESS = """
import headwater as hw


@hw.view("visit_list", key="id")
def visit_list():
    columns = "id LONG, customer_id LONG, page STRING, at LONG"
    return hw.stream("shop.visits", schema=f"after STRUCT<{columns}>").select("after.*")
"""
_PROJECT = """\
[log]
data = "data/log"
listen = "{listen}"

[spark]
master = "local[2]"
conf = {{ "spark.driver.memory" = "1g", "spark.sql.shuffle.partitions" = 1 }}

[capture.shop]
from = "sqlite:shop.db"
tables = [{tables}]
partitions = 1
"""


@dataclass(frozen=True)
class Scenario:
    """One project under one load."""

    name: str
    pipelines: Callable[[], str]
    views: dict[str, str]
    """View → target, below the project's folder."""
    watched: tuple[tuple[str, str], ...]
    """View and the table whose new rows are looked for there; none: nothing is written."""
    writes_per_s: float = 150.0
    kill: str | None = None
    goal: str = ""

    def write(self, folder: Path) -> str:
        """Make the project; the log's address."""
        (folder / "pipelines").mkdir(parents=True)
        (folder / "pipelines" / "shop.py").write_text(self.pipelines())
        listen = f"127.0.0.1:{free_port()}"
        text = _PROJECT.format(listen=listen, tables=", ".join(f'"{table}"' for table in TABLES))
        text += "".join(f'[views.{name}]\nto = "{to}"\n' for name, to in self.views.items())
        (folder / "headwater.toml").write_text(text)
        return listen

    def target(self, folder: Path, view: str) -> str:
        """As seen from anywhere."""
        scheme, _, rest = self.views[view].partition(":")
        return f"{scheme}:{rest if scheme == TOPIC else folder / rest}"


def _joins(count: int) -> Callable[[], str]:
    return lambda: _TABLES + "".join(_JOIN.format(name=f"list_{n}") for n in range(count))


_DEMO = {
    "order_list": "sqlite:data/cache.db",
    "order_search": "search:data/order_search",
    "sessions": "duckdb:data/sessions.duckdb",
    "revenue_per_minute": "duckdb:data/revenue.duckdb",
}

SCENARIOS = {
    each.name: each
    for each in (
        Scenario(
            "one",
            _joins(1),
            {"list_0": "sqlite:data/list_0.db"},
            (("list_0", ORDERS),),
            writes_per_s=100,
            goal="p50 ≤ 250 ms, p99 ≤ 1 s",
        ),
        Scenario(
            "demo",
            PIPELINES.read_text,
            _DEMO,
            (("order_list", ORDERS),),
            kill="broker",
            goal="p50 ≤ 500 ms, p99 ≤ 1.5 s, back ≤ 3 s",
        ),
        Scenario(
            "stateless",
            lambda: _STATELESS,
            {"visit_list": "sqlite:data/visits.db"},
            (("visit_list", VISITS),),
            goal="p50 ≤ 150 ms",
        ),
        Scenario(
            "topic",
            lambda: _STATELESS,
            {"visit_list": "topic:visit_list"},
            (("visit_list", VISITS),),
            goal="p50 ≤ 150 ms",
        ),
        Scenario(
            "ten",
            _joins(10),
            {f"list_{n}": f"sqlite:data/list_{n}.db" for n in range(10)},
            (("list_0", ORDERS), ("list_9", ORDERS)),
            writes_per_s=100,
            goal="at most twice the latency of one",
        ),
        Scenario("idle", PIPELINES.read_text, _DEMO, (), goal="≤ 3 % of a core"),
    )
}
