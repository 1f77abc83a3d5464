"""Views as `headwater run` keeps them: from the log through Spark into every store of ours, in one go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest

import headwater as hw
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.query import State
from headwater.views.targets.search.index import SearchIndex
from tests.spark.run.desk import Desk
from tests.views.redis.server import RedisServer, redis_server

SCHEMA = "id BIGINT, name STRING, total DECIMAL(10, 2), tags ARRAY<STRING>"
TARGETS = ("duckdb", "delta", "search", "redis", "history", "bestsellers")


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


def change(key: int, **row: Any) -> tuple[str, str]:
    return json.dumps({"id": key}), json.dumps({"op": "u", "after": {"id": key, **row}})


def deletion(key: int) -> tuple[str, str | None]:
    return json.dumps({"id": key}), None


def sale(name: str, total: float) -> tuple[str, str]:
    return name, json.dumps({"list": "all", "name": name, "total": total})


@pytest.mark.soak  # a stream into each: registry/test_evolution; Redis: joins/test_timeline
def test_one_stream_of_changes_keeps_every_store_current(
    desk: Desk, tmp_path: Path, new_name: Callable[[], str], redis: RedisServer
):
    topic, sales = new_name(), new_name()
    for each in (topic, sales):
        desk.log.ensure_topic(each, {}, partitions=2)
    views = declare(topic, sales, tmp_path, redis.url)
    desk.send(sales, [sale("kettle", 5.0), sale("lamp", 7.0), sale("chair", 6.0)])
    desk.send(topic, [change(n, name=f"item {n}", total=f"{n}.50", tags=["a"]) for n in range(60)])
    finish(desk, views)
    desk.send(sales, [sale("kettle", 9.0)])
    desk.send(topic, [change(7, name="blue kettle", total="7.00", tags=None), deletion(8)])
    finish(desk, views)

    names = {n: f"item {n}" for n in range(60) if n != 8} | {7: "blue kettle"}
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        assert dict(connection.execute("SELECT id, name FROM duckdb").fetchall()) == names
        history = connection.execute(
            "SELECT id, name, valid_to IS NOT NULL, current FROM history WHERE id IN (7, 8) ORDER BY ALL"
        ).fetchall()
    assert history == [
        (7, "blue kettle", False, True), (7, "item 7", True, False), (8, "item 8", True, False),
    ]  # fmt: skip
    delta = deltalake.DeltaTable(tmp_path / "delta" / "current").to_pyarrow_table()
    found = zip(delta.column("id").to_pylist(), delta.column("name").to_pylist(), strict=True)
    assert dict(found) == names
    (hit,) = SearchIndex.current(tmp_path / "search").search("kettle")
    assert (hit["id"], hit["total"]) == (7, "7.00")
    with redis.client() as client:
        place = client.get("redis:current")
        assert client.hgetall(f"{place}7") == {"id": "7", "name": "blue kettle", "total": "7.00"}
        assert not client.exists(f"{place}8")
        best = client.zrange(client.get("bestsellers:current") + "all", 0, 1, desc=True)
        assert best == ["kettle", "lamp"]


def declare(topic: str, sales: str, folder: Path, redis_url: str) -> list[View]:
    def changes() -> Any:
        return hw.table(topic, schema=SCHEMA, key="id").select(
            "id", "name", "total", "tags", "_deleted", "_partition", "_offset", "_timestamp"
        )

    def rows() -> Any:
        return changes().drop("_timestamp")

    def sold() -> Any:
        return hw.stream(sales, schema="list STRING, name STRING, total DOUBLE")

    timeline = {"form": "timeline", "set": "list", "member": "name", "score": "total"}
    hw.view("duckdb", key="id", to=f"duckdb:{folder / 'shop.duckdb'}")(rows)
    hw.view("delta", key="id", to=f"delta:{folder / 'delta'}")(rows)
    hw.view("search", key="id", to=f"search:{folder / 'search'}")(rows)
    hw.view("redis", key="id", to=redis_url)(rows)
    hw.view("history", key="id", kind="history", to=f"duckdb:{folder / 'shop.duckdb'}")(changes)
    hw.view("bestsellers", key=["list", "name"], to=redis_url, options=timeline)(sold)
    return [view for view in DECLARED.views() if view.name in TARGETS]


def finish(desk: Desk, views: list[View]) -> None:
    """Bring views up to date, as `headwater run --once` does."""
    for query in desk.begin(*views, once=True):
        desk.step_until(lambda query=query: query.state is not State.WAITING, "a start")
        desk.step_until(lambda query=query: query.state is State.FINISHED, "the end")
