"""Real-time speed: Spark's own connector against the embedded broker, and why not, where not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import headwater as hw
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.errors import NotRealTime
from headwater.pipelines.loader import Source
from headwater.pipelines.maven import Connector, connector_for
from headwater.pipelines.query import State
from headwater.views.offset_log import last_batch
from tests.compat.missing import skip_or_fail
from tests.compat.waiting import until
from tests.spark.run.desk import QUIET, Desk

ROW = "id STRING, n INT"
FAST = {"speed": "real-time"}


def declared(name: str, function: Callable[[], Any], **words: Any) -> View:
    hw.view(name, **words)(function)
    return DECLARED.views()[-1]


def test_a_view_of_real_time_speed_answers_at_once(
    desk: Desk, connector: Connector, new_name: Callable[[], str]
):
    if not connector.jars:
        skip_or_fail(f"Real-time mode cannot run here: {connector.reason}")
    source, target = new_name(), new_name()
    # A query of this speed holds a core for each partition, as long as it runs.
    desk.log.ensure_topic(source, {}, partitions=1)
    desk.log.ensure_topic(target, {}, partitions=1)
    view = declared(
        target, lambda: hw.stream(source, schema=ROW).where("n % 2 = 0"), key="id", **FAST
    )
    desk.begin(view)
    desk.send(source, [("a", json.dumps({"id": "a", "n": 0}))])
    desk.step_until(lambda: len(desk.records(target)) == 1, "the first record")

    before, sent = batches(desk, view), range(2, 42, 2)
    for n in sent:
        round_trip(desk, source, target, n)
    # A micro-batch gives out its rows at its end: there would be one for each of these.
    assert batches(desk, view) - before < len(sent)

    desk.step_until(lambda: desk.committed(view.group, source) == 21, "the group's position")
    assert [row["n"] for row in desk.rows(target)] == list(range(0, 42, 2))


def batches(desk: Desk, view: View) -> int:
    last = last_batch(Path(desk.checkpoints.of(view.checkpoint)) / "commits")
    return 0 if last is None else last + 1


def round_trip(desk: Desk, source: str, target: str, n: int) -> None:
    producer = Producer({"bootstrap.servers": desk.bootstrap, "linger.ms": 0, **QUIET})
    consumer = Consumer({"bootstrap.servers": desk.bootstrap, "group.id": "rt", **QUIET})
    (end,) = desk.log.ends([(target, 0)]).values()
    consumer.assign([TopicPartition(target, 0, end)])
    consumer.poll(0.1)
    producer.list_topics(source)
    producer.produce(source, key="a", value=json.dumps({"id": "a", "n": n}))
    producer.poll(0)
    until(lambda: consumer.poll(1) is not None, f"{n} in {target}")
    consumer.close()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda records: records.limit(5), "Limits are not supported"),
        (lambda records: records.mapInArrow(lambda batches: batches, "value BINARY"), "["),
    ],
)
def test_a_plan_that_real_time_mode_does_not_take_is_refused_with_sparks_reason(
    desk: Desk,
    connector: Connector,
    new_name: Callable[[], str],
    function: Callable[[Any], Any],
    reason: str,
):
    if not connector.jars:
        skip_or_fail(f"Real-time mode cannot run here: {connector.reason}")

    source = new_name()
    desk.log.ensure_topic(source, {}, partitions=1)
    desk.begin(declared(new_name(), lambda: function(hw.stream(source).select("value")), **FAST))
    desk.step_until(lambda: desk.queries[0].state is State.REFUSED, "a refusal")
    assert f"cannot run at real-time speed: {reason}" in desk.said[-1]
    assert desk.said[-1].endswith("leave out speed= to run it in micro-batches")


def test_where_the_jars_cannot_be_had_the_view_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    asks = [Source(tmp_path / "a.py", tmp_path, "@hw.view('a', speed='real-time')")]
    view = declared("a", lambda: None, **FAST)
    for remote, reason in ((None, "Maven, which would fetch them"), ("sc://x", "Spark Connect")):
        with pytest.raises(NotRealTime, match=reason):
            connector_for(asks, remote).admit(view)
    DECLARED.clear()
