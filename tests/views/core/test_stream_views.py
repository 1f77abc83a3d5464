"""Views of a stream that keep nothing are followed by the driver; they hold what Spark's own query would."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

import headwater as hw
from headwater.client.transaction import Identity
from headwater.pipelines import stream_views
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.driver_query import DriverWriter
from headwater.spark.sink.decisions import Decision, Decisions
from tests.spark.run.desk import Desk
from tests.views.core.finishing import finish

NewName = Callable[[], str]
Function = Callable[[], DataFrame]
SCHEMA = "id LONG, tags ARRAY<STRING>, total DECIMAL(10,2), at TIMESTAMP"
SPARKS = "0 seconds"
"""An interval is for Spark's queries, also one of no length."""


@pytest.fixture
def topic(desk: Desk, new_name: NewName) -> str:
    name = new_name()
    desk.log.ensure_topic(name, {}, partitions=2)
    return name


def viewed(name: str, function: Function, to: str, **words: Any) -> View:
    hw.view(name, to=to, **words)(function)
    return DECLARED.views()[-1]


def rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return sorted(connection.execute(f'SELECT * FROM "{table}"').fetchall(), key=repr)
    finally:
        connection.close()


def orders(first: int, count: int) -> list[tuple[str | None, str | None]]:
    found: list[tuple[str | None, str | None]] = []
    for n in range(first, first + count):
        value = {"id": n % 50, "tags": ["a", f"t{n}"], "total": n / 4, "at": "2026-01-01T10:00:00Z"}
        found.append((str(n % 50), json.dumps(value)))
    return [*found, ("bad", "{no json"), ("0", json.dumps({"id": 0, "tags": [], "total": "1.005"}))]


def functions(topic: str) -> dict[str, tuple[Function, dict[str, Any]]]:
    def picked() -> DataFrame:
        return hw.stream(topic, schema=SCHEMA).where("id % 3 = 0").select("id", "total", "at")

    def unfolded() -> DataFrame:
        tag = F.explode("tags").alias("tag")
        return hw.stream(topic, schema=SCHEMA).select("id", tag, "_partition", "_offset")

    def raw() -> DataFrame:
        return hw.stream(topic).select("topic", "partition", "offset", F.length("value").alias("n"))

    return {"picked": (picked, {"key": "id"}), "unfolded": (unfolded, {}), "raw": (raw, {})}


@pytest.mark.parametrize(
    ("kind", "few"),
    [
        ("picked", True),
        ("unfolded", False),
        ("raw", True),
        pytest.param("picked", False, marks=pytest.mark.soak),
        pytest.param("unfolded", True, marks=pytest.mark.soak),
        pytest.param("raw", False, marks=pytest.mark.soak),
    ],
)
def test_it_holds_what_spark_s_own_query_would(
    desk: Desk,
    tmp_path: Path,
    topic: str,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    few: bool,
):
    function, words = functions(topic)[kind]
    if not few:
        monkeypatch.setattr(stream_views, "FEW", 1)
    to = f"sqlite:{tmp_path / 'views.db'}"
    ours = viewed(new_name(), function, to, options={"table": "ours"}, **words)
    sparks = viewed(new_name(), function, to, options={"table": "sparks"}, every=SPARKS, **words)
    assert isinstance(desk.build(ours).writer, DriverWriter)
    assert not isinstance(desk.build(sparks).writer, DriverWriter)
    for turn in range(3):
        desk.send(topic, orders(turn * 40, 40))
        finish(desk, ours, sparks)
    found = rows(tmp_path / "views.db", "ours")
    assert found and found == rows(tmp_path / "views.db", "sparks")
    if kind != "raw":
        bad = [
            [each.value() for each in desk.records(view.dead_letters)] for view in (ours, sparks)
        ]
        assert sorted(bad[0]) == sorted(bad[1]) and bad[0].count(b"{no json") == 3


def test_what_is_not_row_by_row_or_not_always_the_same_is_spark_s(
    desk: Desk, tmp_path: Path, topic: str
):
    def stream() -> DataFrame:
        return hw.stream(topic, schema=SCHEMA)

    upper = F.udf(str.upper, StringType())
    static = desk.spark.range(3)
    others: dict[str, Function] = {
        "state": lambda: stream().dropDuplicates(["id"]).select("id"),
        "chance": lambda: stream().select("id", F.rand().alias("r")),
        "moment": lambda: stream().select("id", F.current_timestamp().alias("t")),
        "python": lambda: stream().select("id", upper(F.col("tags")[0]).alias("t")),
        "join": lambda: stream().join(static, "id").select("id"),
        "least": lambda: hw.stream(topic, options={"minOffsetsPerTrigger": "5"}).select("key"),
        "union": lambda: stream().select("id").union(stream().select("id")),
    }
    to = f"sqlite:{tmp_path / 'views.db'}"
    for name, function in others.items():
        assert not isinstance(desk.build(viewed(name, function, to)).writer, DriverWriter), name
    refused = viewed("complete", stream, to, mode="complete", key="id")  # Spark says why
    assert not isinstance(desk.build(refused).writer, DriverWriter)
    assert isinstance(desk.build(viewed("plain", stream, to)).writer, DriverWriter)


def test_either_goes_on_where_the_other_stopped(desk: Desk, tmp_path: Path, topic: str):
    function, _ = functions(topic)["raw"]
    to = f"sqlite:{tmp_path / 'views.db'}"
    sent = 0
    for every in (SPARKS, None, SPARKS, None):
        desk.send(topic, orders(0, 10))
        sent += 12
        finish(desk, viewed("raw", function, to, every=every))
        assert len(rows(tmp_path / "views.db", "raw")) == sent


def test_a_batch_that_the_target_has_and_the_checkpoint_not_comes_once(
    desk: Desk, tmp_path: Path, topic: str
):
    function, _ = functions(topic)["raw"]
    view = viewed("raw", function, f"sqlite:{tmp_path / 'views.db'}")
    desk.send(topic, orders(0, 10))
    finish(desk, view)
    commits = Path(desk.checkpoints.of(view.checkpoint)) / "commits"
    (last,) = (each for each in commits.iterdir() if each.name.isdecimal())
    last.unlink()  # as if the process had been killed before it was written
    desk.send(topic, orders(10, 10))
    finish(desk, view)
    assert len(rows(tmp_path / "views.db", "raw")) == 24


def test_commits_that_a_crash_of_the_machine_lost_stop_nothing(
    desk: Desk, tmp_path: Path, topic: str
):
    function, _ = functions(topic)["raw"]
    view = viewed("raw", function, f"sqlite:{tmp_path / 'views.db'}")
    for turn in range(3):
        desk.send(topic, orders(turn * 10, 10))
        finish(desk, view)
    commits = Path(desk.checkpoints.of(view.checkpoint)) / "commits"
    for lost in sorted(each.name for each in commits.iterdir() if each.name.isdecimal())[1:]:
        (commits / lost).unlink()
    desk.send(topic, orders(30, 10))
    finish(desk, view)
    assert len(rows(tmp_path / "views.db", "raw")) == 48


@pytest.mark.parametrize(
    ("kind", "few"),
    [
        ("picked", False),
        ("unfolded", True),
        pytest.param("picked", True, marks=pytest.mark.soak),
        pytest.param("unfolded", False, marks=pytest.mark.soak),
    ],
)
def test_a_topic_holds_what_spark_s_own_query_would(
    desk: Desk,
    topic: str,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    few: bool,
):
    function, words = functions(topic)[kind]
    if not few:
        monkeypatch.setattr(stream_views, "FEW", 1)
    made = [new_name(), new_name()]
    ours = viewed(made[0], function, f"topic:{made[0]}", **words)
    sparks = viewed(made[1], function, f"topic:{made[1]}", every=SPARKS, **words)
    assert isinstance(desk.build(ours).writer, DriverWriter)
    assert not isinstance(desk.build(sparks).writer, DriverWriter)
    for turn in range(3):
        desk.send(topic, orders(turn * 40, 40))
        finish(desk, ours, sparks)
    found = [sorted((r.key() or b"", r.value()) for r in desk.records(name)) for name in made]
    assert found[0] and found[0] == found[1]


def test_either_goes_on_in_a_topic_where_the_other_stopped(
    desk: Desk, topic: str, new_name: NewName, monkeypatch: pytest.MonkeyPatch
):
    """Also where the checkpoint lacks what the topic has: the batch comes again, and is known."""
    function, _ = functions(topic)["unfolded"]
    name = new_name()
    sent = 0
    for every, few in ((SPARKS, 1), (None, 1), (None, 1000), (SPARKS, 1), (None, 1000), (None, 1)):
        monkeypatch.setattr(stream_views, "FEW", few)
        view = viewed(name, function, f"topic:{name}", every=every)
        desk.send(topic, orders(0, 10))
        sent += 20
        finish(desk, view)
        assert len(desk.records(name)) == sent
        commits = Path(desk.checkpoints.of(view.checkpoint)) / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        (commits / str(last)).unlink()  # as if the process had been killed before it was written


@pytest.mark.parametrize(
    ("few", "written"),
    [
        (1, False),
        (1000, True),
        pytest.param(1, True, marks=pytest.mark.soak),
        pytest.param(1000, False, marks=pytest.mark.soak),
    ],
)
def test_a_batch_that_fails_at_its_decision_comes_once(
    desk: Desk,
    topic: str,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    written: bool,
):
    function, _ = functions(topic)["unfolded"]
    name = new_name()
    view = viewed(name, function, f"topic:{name}")
    monkeypatch.setattr(stream_views, "FEW", few)
    failing = [True]
    whole = Decisions.write

    def write(self: Decisions, identity: Identity, decision: Decision) -> None:
        if not failing or written:
            whole(self, identity, decision)
        if failing:
            failing.pop()
            raise ConnectionError("as if the broker had gone")

    monkeypatch.setattr(Decisions, "write", write)
    desk.send(topic, orders(0, 10))
    finish(desk, view)
    assert not failing and len(desk.records(name)) == 20
    desk.send(topic, orders(0, 10))
    finish(desk, view)
    assert len(desk.records(name)) == 40


def test_a_refused_row_is_a_dead_letter_that_says_where_it_came_from(
    desk: Desk, tmp_path: Path, topic: str, new_name: NewName
):
    def function() -> DataFrame:
        return hw.stream(topic, schema="id LONG, n LONG")

    to = f"sqlite:{tmp_path / 'views.db'}"
    view = viewed(new_name(), function, to, key="id", options={"table": "refusing"})
    assert isinstance(desk.build(view).writer, DriverWriter)
    desk.send(topic, [("a", '{"id": 1, "n": 1}'), ("b", '{"id": null, "n": 2}')])
    finish(desk, view)
    assert rows(tmp_path / "views.db", "refusing") == [(1, 1)]
    (letter,) = desk.records(view.dead_letters)
    assert topic.encode() in [value for _, value in letter.headers() or ()]
