"""Queries that run: into topics and files, as consumer groups, through failures and edits.

All on one Spark session; the test steps the application itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

import headwater as hw
from headwater.client import groups
from headwater.pipelines.context import Wanted
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.loop import in_order
from headwater.pipelines.query import State
from headwater.spark.source.position import offsets
from headwater.testing.apache_kafka import java_tool
from tests.spark.run.desk import Desk

ROW = "id STRING, total DOUBLE, at TIMESTAMP"


def declared(name: str, function: Callable[[], Any], **words: Any) -> View:
    hw.view(name, **words)(function)
    return DECLARED.views()[-1]


def orders(numbers: range) -> list[tuple[str | None, str | None]]:
    return [(f"k{n}", order(n)) for n in numbers]


def order(n: int, at: str = "2026-01-01T00:00:00Z") -> str:
    return json.dumps({"id": f"k{n % 3}", "total": float(n), "at": at})


def test_views_run_side_by_side_and_tell_how_far_they_are(
    desk: Desk, topic: str, new_name: Callable[[], str], tmp_path: Path
):
    """
    orders ──▶ large (a topic) ──▶ copies (files)
       └─────▶ counts (a topic, rows change)
    """
    large, counts, copies = new_name(), new_name(), new_name()
    desk.send(topic, orders(range(20)))
    first = declared(
        large, lambda: hw.stream(topic, schema=ROW).where("total >= 10").drop("at"), key="id"
    )
    second = declared(counts, lambda: hw.stream(topic, schema=ROW).groupBy("id").count(), key="id")
    third = declared(copies, lambda: hw.stream(large), to=f"parquet:{tmp_path / 'copies'}")
    queries = desk.begin(first, second, third)
    assert [[each.view.name for each in group] for group in in_order(queries)] == [
        [large, counts],
        [copies],
    ]
    desk.step_until(lambda: desk.committed(first.group, topic) == 20, "large at 20")
    desk.step_until(lambda: desk.committed(second.group, topic) == 20, "counts at 20")
    desk.step_until(lambda: desk.committed(third.group, large) >= 10, "copies at 10")

    found = desk.records(large)
    assert sorted(json.loads(each.value() or b"")["total"] for each in found) == list(range(10, 20))
    assert {each.key() for each in found} == {b"k0", b"k1", b"k2"}
    assert set(json.loads(found[0].value() or b"")) == {"id", "total"}
    assert {row["id"]: row["count"] for row in desk.rows(counts)} == {"k0": 7, "k1": 7, "k2": 6}
    assert desk.spark.read.parquet(str(tmp_path / "copies")).count() == 10

    desk.stop()
    told = desk.progress(counts)
    assert (told[0]["event"], told[-1]["event"]) == ("started", "stopped")
    last = [row for row in told if row["event"] == "progress"][-1]
    assert sum(row.get("input_rows", 0) for row in told) == 20
    assert (last["lag_records"], last["lag_seconds"], last["state_rows"]) == (0, 0, 3)
    assert sum(last["position"][topic].values()) == 20


def test_kafkas_own_tool_sees_the_true_lag_and_a_restart_keeps_it(
    desk: Desk, topic: str, new_name: Callable[[], str], tmp_path: Path
):
    desk.send(topic, orders(range(30)))
    view = declared(new_name(), lambda: hw.stream(topic), to=f"parquet:{tmp_path / 'files'}")
    desk.begin(view)
    desk.step_until(lambda: desk.committed(view.group, topic) == 30, "30 records")
    desk.stop()
    # As after a kill between the sink's commit and the group's: the checkpoint is ahead.
    groups.commit(desk.log, view.group, {(topic, 0): 0, (topic, 1): 0})
    desk.begin(view)
    desk.step_until(lambda: desk.committed(view.group, topic) == 30, "the group caught up")
    desk.stop()
    desk.send(topic, orders(range(12)))
    said = java_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", desk.bootstrap, "--describe", "--group", view.group),
    ).stdout
    rows = [line.split() for line in said.splitlines() if topic in line]
    assert sum(int(row[3]) for row in rows) == 30, said
    assert sum(int(row[5]) for row in rows) == 12, said


def test_a_query_that_fails_is_tried_again_while_the_others_go_on(
    desk: Desk, topic: str, new_name: Callable[[], str], tmp_path: Path
):
    trap = tmp_path / "trap"

    @sf.udf("string")
    def checked(text):  # without hints: Spark would take them for a hint of its own
        if trap.exists():
            raise ValueError(f"{text} is not wanted")
        return text

    def strict() -> Any:
        text = sf.col("value").cast("string")
        return hw.stream(topic).select(checked(text).alias("value"))

    def lenient() -> Any:
        return hw.stream(topic).select("key", "value")

    strict_view, lenient_view = declared(new_name(), strict), declared(new_name(), lenient)
    desk.send(topic, orders(range(5)))
    desk.begin(strict_view, lenient_view)
    for view in (strict_view, lenient_view):
        desk.step_until(lambda view=view: desk.committed(view.group, topic) == 5, view.name)
    trap.touch()
    desk.send(topic, orders(range(5)))
    failures = f"{strict_view.name}: failed, tried again in 2 s: "
    desk.step_until(lambda: any(failures in said for said in desk.said), "a second failure")
    assert any(said.endswith("is not wanted") for said in desk.said)
    desk.step_until(lambda: desk.committed(lenient_view.group, topic) == 10, "the other to go on")
    assert desk.committed(strict_view.group, topic) == 5
    trap.unlink()
    desk.step_until(lambda: desk.committed(strict_view.group, topic) == 10, "recovery")
    assert len(desk.records(strict_view.name)) == 10
    told = [row for row in desk.progress(strict_view.name) if row["event"] == "failed"]
    assert told[0]["retry_s"] == 1
    assert "is not wanted" in told[0]["reason"]


def test_a_view_is_paused_resumed_and_restarted_while_the_others_go_on(
    desk: Desk, topic: str, new_name: Callable[[], str]
):
    def copied() -> Any:
        return hw.stream(topic).select("key", "value")

    held, other = declared(new_name(), copied), declared(new_name(), copied)
    desk.send(topic, orders(range(5)))
    first, _ = desk.begin(held, other)
    for view in (held, other):
        desk.step_until(lambda view=view: desk.committed(view.group, topic) == 5, view.name)
    desk.wanted[held.name] = Wanted(paused_by="User:ann")
    desk.step_until(lambda: first.state is State.PAUSED, "the pause")
    desk.send(topic, orders(range(5)))
    desk.step_until(lambda: desk.committed(other.group, topic) == 10, "the other to go on")
    assert desk.committed(held.group, topic) == 5
    assert f"{held.name}: paused by User:ann" in desk.said
    desk.wanted[held.name] = Wanted()
    desk.step_until(lambda: desk.committed(held.group, topic) == 10, "what waited meanwhile")
    assert len(desk.records(held.name)) == 10
    desk.wanted[held.name] = Wanted(restarts=1)
    desk.step_until(lambda: f"{held.name}: restarted" in desk.said, "the restart")
    desk.send(topic, orders(range(5)))
    desk.step_until(lambda: desk.committed(held.group, topic) == 15, "it to go on")
    told = [row["event"] for row in desk.progress(held.name) if row["event"] != "progress"]
    assert told == ["started", "paused", "resumed", "started", "restarted", "started"]


def test_an_edited_query_is_refused_by_its_note_or_by_its_state_and_the_others_run(
    desk: Desk, topic: str, new_name: Callable[[], str]
):
    name, other = new_name(), new_name()

    def counting(by: str) -> Callable[[], Any]:
        return lambda: hw.stream(topic, schema=ROW).select(sf.expr(by)).groupBy("k").count()

    def begin(by: str, mode: Any = None) -> None:
        DECLARED.clear()
        view = declared(name, counting(by), key="k", mode=mode)
        desk.begin(view, declared(other, lambda: hw.stream(topic).select("value")))

    desk.send(topic, orders(range(6)))
    begin("id AS k")
    desk.step_until(lambda: desk.committed(f"headwater-{name}", topic) == 6, "six records")
    desk.stop()

    begin("id AS k", mode="complete")
    desk.step_until(lambda: desk.queries[0].state is State.REFUSED, "a refusal")
    (refusal,) = [said for said in desk.said if f"{name}: refused: " in said]
    assert "its output mode was update and is now complete" in refusal
    assert f"mv {desk.checkpoints.of(name)} " in refusal
    desk.step_until(lambda: desk.queries[1].state is State.RUNNING, "the other")
    desk.stop()

    # The same words, another type: only Spark notices, when it opens the state.
    begin("CAST(total AS INT) AS k")
    desk.send(topic, orders(range(1)))
    desk.step_until(lambda: desk.queries[0].state is State.REFUSED, "a refusal")
    refusals = [said for said in desk.said if f"{name}: refused: " in said]
    assert "no longer fits its checkpoint: Spark cannot use its stored state" in refusals[-1]
    assert [row["event"] for row in desk.progress(name)][-1] == "refused"


def test_late_rows_are_counted_and_undecodable_ones_kept(
    desk: Desk, topic: str, new_name: Callable[[], str]
):
    """
    event time  00:00 ─────── 01:00 │ watermark 01:00 - 1 min │  00:10 late
    """

    def hourly() -> Any:
        events = hw.stream(topic, schema=ROW).withWatermark("at", "1 minute")
        return events.groupBy(sf.window("at", "1 minute").alias("minute"), "id").count()

    view = declared(new_name(), hourly, key=["id", "minute"])
    desk.begin(view)
    for count, at in enumerate(("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"), start=1):
        desk.send(topic, [("k", order(1, at))])
        desk.step_until(lambda count=count: desk.committed(view.group, topic) == count, at)
    desk.send(topic, [("k", order(1, "2026-01-01T00:10:00Z")), ("k", "{no json")])
    desk.step_until(lambda: desk.committed(view.group, topic) == 4, "the late one")
    desk.stop()
    told = [row for row in desk.progress(view.name) if row["event"] == "progress"]
    assert sum(row["late_rows"] for row in told) == 1
    assert told[-1]["watermark"] == "2026-01-01T00:59:00.000Z"
    assert sum(row["dead_letter_rows"] for row in told) == 1
    (letter,) = desk.records(view.dead_letters)
    assert letter.value() == b"{no json"


def test_a_batch_that_outlives_its_transaction_is_made_smaller(
    desk: Desk, new_name: Callable[[], str]
):
    """Whatever has more than fifty rows takes longer than its transaction may, and nothing else does."""
    source, copy = new_name(), new_name()
    desk.log.ensure_topic(source, {}, partitions=1)
    # So long that a few rows fill the buffers between Spark's processes.
    desk.send(source, [(f"k{n}", f"{n}".ljust(20_000)) for n in range(100)])

    def slowly(batches: Any) -> Any:
        import time

        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if rows == 60:
                time.sleep(20)

    def copied() -> Any:
        return (
            hw.stream(source).select("key", "value").mapInArrow(slowly, "key BINARY, value BINARY")
        )

    timeout = {"kafka.transaction.timeout.ms": "15000"}
    desk.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        (query,) = desk.begin(declared(copy, copied, options=timeout), once=True)
        desk.step_until(lambda: query.state is State.FINISHED, "the end")
    finally:
        desk.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    said = "; ".join(desk.said)
    assert "a batch of 100 records took longer" in said and "with 50 at a time" in said, said
    assert sorted(int(each.value() or b"") for each in desk.records(copy)) == list(range(100))
    told = [row for row in desk.progress(copy) if row["event"] == "failed"]
    assert "batch_records_max" in told[0]["reason"]
    again = desk.checkpoints.with_limit(DECLARED.views()[-1]).batch_records_max
    assert again is not None and again <= 50, "a restart does not begin with what was too large"


def test_a_batch_takes_no_more_records_than_it_may(desk: Desk, new_name: Callable[[], str]):
    source, copy = new_name(), new_name()
    desk.log.ensure_topic(source, {}, partitions=1)
    desk.send(source, [(f"k{n}", f"{n}") for n in range(30)])
    view = replace(declared(copy, lambda: hw.stream(source)), batch_records_max=10)
    (query,) = desk.begin(view, once=True)
    desk.step_until(lambda: query.state is State.FINISHED, "the end")
    folder = Path(desk.checkpoints.of(copy)) / "offsets"
    batches = sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal())
    # A batch ends between two milliseconds, so there may be more than three.
    positions = [json.loads((folder / str(n)).read_text().splitlines()[-1]) for n in batches]
    ends = [0, *(offsets(each)[source, 0] for each in positions)]
    sizes = [end - start for start, end in itertools.pairwise(ends)]
    assert len(sizes) >= 3 and max(sizes) <= 10 and sum(sizes) == 30, sizes
    assert len(desk.records(copy)) == 30
