"""The parts that know neither Spark nor a broker: backoff, plans as text, shapes, reports, errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.cli.pipeline_words import order_of, understood
from headwater.client.log import Log
from headwater.pipelines import progress
from headwater.pipelines.checkpoints import Checkpoints, Shape
from headwater.pipelines.context import WHOLE, Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError, StateMisfit, brief, misfit
from headwater.pipelines.loop import IDLE_STEP_S, QUIET_STEPS, STEP_S, Pace
from headwater.pipelines.mistakes import Backoff
from headwater.pipelines.plan import parse
from headwater.pipelines.reporter import Reporter
from headwater.pipelines.targets import make_place

NO_SPARK: Any = None
RELATION = (
    "org.x.Provider@2b, headwater, org.x.Table@3c, [kafka.bootstrap.servers=h:1,h:2, "
    "subscribe=orders,more, startingOffsets=earliest], [key#0, value#1], name=<Unassigned>"
)
WINDOWED = """== Parsed Logical Plan ==
'Aggregate ['window('timestamp, 5 seconds)]
+- ~Whatever

== Analyzed Logical Plan ==
window: struct<start:timestamp,end:timestamp>, k: bigint, n: bigint
~Aggregate [window#7-T10000ms, k#2L], [window#7-T10000ms, k#2L, count(1) AS n#3L]
+- ~Project [named_struct(start, x(timestamp#0, 5000000), end, y) AS window#7-T10000ms, {extra}k#2L]
   +- ~Filter isnotnull(timestamp#0-T10000ms)
      +- ~EventTimeWatermark 3a8f38dd-3ca0-4639-a9df-c04a4213ba3e, timestamp#0: timestamp, 10 seconds
         +- ~StreamingRelationV2 {relation}

== Optimized Logical Plan ==
~Aggregate [other#1]
"""
JOINED = """== Analyzed Logical Plan ==
value: bigint
{mark}Join Inner, (value#1L = value#2L)
:- ~SubqueryAlias a
:  +- ~StreamingRelationV2 org.x.Provider@1, rate, org.x.Table@2, [rowsPerSecond=1], [value#1L]
+- {other}LogicalRDD [value#2L], false

== Optimized Logical Plan ==
"""


def windowed(extra: str = "") -> str:
    return WINDOWED.format(extra=extra, relation=RELATION)


def test_a_plan_tells_its_sources_and_its_state():
    plan = parse(windowed())
    assert plan.sources == ("headwater orders,more",)
    assert plan.aggregates
    (state,) = plan.state
    assert state.startswith("Aggregate [window, k], [window, k, count(1)] named_struct(start,")
    assert "5000000" in state


def test_a_column_more_does_not_change_the_state_and_another_window_does():
    before = parse(windowed())
    assert parse(windowed("new#77, ")).state == before.state
    assert parse(windowed().replace("5000000", "9000000")).state != before.state
    other_ids = windowed().replace("#7", "#70").replace("#3L", "#31L")
    assert parse(other_ids).state == before.state


def test_only_a_join_of_two_streams_keeps_state():
    static = parse(JOINED.format(mark="~", other=""))
    assert static.state == ()
    assert len(parse(JOINED.format(mark="~", other="~")).state) == 1


def test_the_wait_doubles_up_to_a_minute_and_starts_over_after_a_calm_time():
    backoff, waits = Backoff(), []
    for _ in range(8):
        backoff = backoff.failed(ran_s=0.5, batches=3)
        waits.append(backoff.wait_s)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.failed(ran_s=30, batches=3).wait_s == 60
    assert backoff.failed(ran_s=61, batches=3).wait_s == 1
    assert backoff.failed(ran_s=61, batches=0).wait_s == 60


SHAPE = Shape(("headwater orders",), ("Aggregate [k]",), "update", "topic:x")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            Shape(("headwater o",), SHAPE.state, "update", "topic:x"),
            "sources were headwater orders",
        ),
        (Shape(SHAPE.sources, ("Aggregate [j]",), "update", "topic:x"), "has changed (aggregate)"),
        (Shape(SHAPE.sources, (), "update", "topic:x"), "no longer keeps state"),
        (
            Shape(SHAPE.sources, SHAPE.state, "append", "topic:x"),
            "mode was update and is now append",
        ),
        (Shape(SHAPE.sources, SHAPE.state, "update", "topic:y"), "target was topic:x and is now"),
    ],
)
def test_an_edited_query_is_refused_with_what_changed_and_what_to_do(
    tmp_path: Path, now: Shape, said: str
):
    spark: Any = None  # a local folder needs none
    checkpoints = Checkpoints(str(tmp_path), spark)
    assert checkpoints.is_new("x")
    checkpoints.admit("x", SHAPE)
    checkpoints.admit("x", SHAPE)
    with pytest.raises(StateMisfit) as refusal:
        Checkpoints(f"file://{tmp_path}", spark).admit("x", now)
    assert said in str(refusal.value)
    assert f"mv {tmp_path}/x {tmp_path}/x.old" in (refusal.value.hint or "")


def test_sparks_own_state_errors_are_understood():
    schema = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match"
    assert "stored state" in (misfit(f"Job aborted: {schema}") or "")
    sources = (
        "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2]"
    )
    assert misfit(sources) == "it had 1 sources and now has 2"
    assert misfit("java.io.IOException: disk full") is None


def test_a_long_error_becomes_its_cause_in_one_line():
    spark = "[CONDITION.SUB] It failed\nfor a reason. SQLSTATE: 42K02\n\tat org.x.Y(Y.scala:1)\n"
    assert brief(RuntimeError(spark)) == "[CONDITION.SUB] It failed for a reason."
    worker = (
        "Job aborted: Lost task\nTraceback (most recent call last):\n  File x, line 1, in f\n"
        "ValueError: too bad\n\n\tat org.apache.spark.api\nCaused by: ValueError: too bad\n"
    )
    assert brief(RuntimeError(worker)) == "ValueError: too bad"
    ours = "Traceback:\nheadwater.spark.errors.BadOption: The source has no option 'x'.\nmore\n"
    assert brief(RuntimeError(ours)) == "The source has no option 'x'."
    assert brief(KeyError("k")) == "KeyError: 'k'"
    assert len(brief("x" * 10_000)) == 400


def test_files_of_an_earlier_life_are_not_met_by_a_query_that_starts_anew(tmp_path: Path):
    view = View("v", lambda: None, f"parquet:{tmp_path}", place="file.py:1")
    make_place(view)
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(PipelineError, match=r"starts over, and .* has files of a query before it"):
        make_place(view)


def report(batch: int, rows: int, end: object, **more: object) -> dict[str, object]:
    return {"batchId": batch, "numInputRows": rows, "sources": [{"endOffset": end}], **more}


def test_a_position_is_read_from_kafkas_form_and_from_nothing_else():
    ends = {"orders": {"0": 5, "1": 7}, "#": {"ids": {"orders": "4b1c"}, "pieces": {"orders": {}}}}
    assert progress.position_of(report(1, 1, ends)) == {("orders", 0): 5, ("orders", 1): 7}
    assert progress.position_of(report(1, 1, '{"orders":{"0":5}}')) == {("orders", 0): 5}
    for other in (8, None, "no json", [1], {"a": 1}):
        assert progress.position_of(report(1, 1, other)) == {}
    twice = {"sources": [{"endOffset": {"o": {"0": 5}}}, {"endOffset": {"o": {"0": 3}}}]}
    assert progress.position_of(twice) == {("o", 0): 3}


def test_several_reports_become_one_record_with_counts_summed_and_states_last():
    operator = {"numRowsTotal": 4, "memoryUsedBytes": 10, "numRowsDroppedByWatermark": 2}
    gathered = progress.Gathered()
    gathered.add(report(1, 10, {}, batchDuration=50, stateOperators=[operator]))
    gathered.add(
        report(2, 5, {}, batchDuration=30, stateOperators=[{**operator, "numRowsTotal": 6}])
    )
    gathered.add(report(2, 0, {}, stateOperators=[{**operator, "numRowsDroppedByWatermark": 0}]))
    said = progress.record(
        gathered,
        query="q",
        to="topic:x",
        at_ms=1,
        lag_records=3,
        lag_ms=1500,
        freshness_ms=250,
        dead_letter_rows=0,
        position={("o", 0): 5},
    )
    assert (said["batches"], said["input_rows"], said["late_rows"]) == (2, 15, 4)
    assert (said["batch_ms_max"], said["state_rows"], said["state_bytes"]) == (50, 4, 10)
    assert (said["lag_seconds"], said["position"]) == (1.5, {"o": {"0": 5}})
    assert said["freshness_seconds"] == 0.25


class Reports:
    """What a query has reported; as many as Spark keeps, with a note of how many were asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.asked = 0

    def add(self, batch: int) -> None:
        said = {"timestamp": f"2026-01-01T00:00:{batch:02}.000Z", "batchId": batch}
        self.texts.append(json.dumps({**said, "numInputRows": 1, "batchDuration": 1}))

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self._seen(self.texts[-1]) if self.texts else None

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return [self._seen(text) for text in self.texts]

    def _seen(self, text: str) -> Any:
        self.asked += 1
        return SimpleNamespace(json=text)


def test_every_report_counts_once_and_old_ones_are_not_asked_for_again():
    log = Log("127.0.0.1:1", {})
    reporter, reports = Reporter(View("told", print, "topic:told"), log, print), Reports()
    reporter.take(reports)
    for batch in range(3):
        reports.add(batch)
    reporter.take(reports)
    assert reporter.batches == 3
    reports.asked = 0
    reporter.take(reports)
    assert (reporter.batches, reports.asked) == (3, 1)
    for batch in range(3, 5):
        reports.add(batch)
    reporter.take(reports)
    assert reporter.batches == 5
    log.close()


def test_a_batch_that_says_when_its_oldest_record_was_written_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
):
    said: list[dict[str, Any]] = []

    class Heard(Log):
        def ends(self, places: Any) -> dict[Any, int]:
            return dict.fromkeys(places, 8)

        def post(self, topic: str, key: str, value: bytes) -> None:
            said.append(json.loads(value))

        def reader(self, *_: Any) -> Any:
            raise AssertionError("the log is read")

    monkeypatch.setattr("headwater.client.groups.commit", lambda *_: None)
    reporter, reports = (
        Reporter(View("told", print, "topic:told"), Heard("nobody:1"), print),
        Reports(),
    )
    source = {"startOffset": {"o": {"0": 3}}, "endOffset": {"o": {"0": 8}}}
    batch = {"timestamp": "1970-01-01T00:00:10Z", "numInputRows": 5, "sources": [source]}
    took = {"durationMs": {"triggerExecution": 250}}
    reports.texts.append(json.dumps({**batch, **took, "oldestMs": 9_750}))
    reporter.take(reports)
    reporter.tell(force=True)
    assert said[0]["freshness_seconds"] == 0.5


def test_a_batch_says_where_it_began_and_when_it_was_shown():
    source = {"startOffset": {"o": {"0": 3, "1": 7}}, "endOffset": {"o": {"0": 5, "1": 7}}}
    said = {"timestamp": "1970-01-01T00:00:10.500Z", "durationMs": {"triggerExecution": 250}}
    assert progress.begin_of({"sources": [source]}) == {("o", 0): 3}
    assert progress.shown_ms(said) == 10_750


def test_lag_is_what_lies_between_position_and_end():
    position, ends = {("o", 0): 5, ("o", 1): 7}, {("o", 0): 9, ("o", 1): 7}
    assert progress.lag_of(position, ends) == 4
    assert progress.behind(position, ends) == {("o", 0): 5}


def test_a_batch_that_is_planned_anew_leaves_no_plan_behind_and_its_size_outlives_a_restart(
    tmp_path: Path,
):
    folder = tmp_path / "told"
    for name, text in {
        "offsets/4": 'v1\n{}\n{"orders":{"0":100}}\n',
        "offsets/5": 'v1\n{}\n{"orders":{"0":180}}\n',
        "commits/4": "v1\n{}",
        "tables/pending": "of batch 5",
        "held/4.arrow": "what batch 5 begins with",
        "held/5.arrow": "",
        "held/5.ends": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert Checkpoints(str(tmp_path), NO_SPARK).forget_batch("told") == 80
    left = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())
    assert left == ["commits/4", "held/4.arrow", "offsets/4"]

    view = View("told", print, "topic:told", ("id",))
    assert Checkpoints(str(tmp_path), NO_SPARK).with_limit(view) == view
    Checkpoints(str(tmp_path), NO_SPARK).keep_limit("told", 40)
    assert Checkpoints(str(tmp_path), NO_SPARK).with_limit(view).batch_records_max == 40
    smaller = replace(view, batch_records_max=7)
    assert Checkpoints(str(tmp_path), NO_SPARK).with_limit(smaller) == smaller


def test_rebuild_takes_the_limits_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    limits = "batch_records_max = 1234\nbatch_bytes_max = 5678"
    (tmp_path / "headwater.toml").write_text(f"[pipelines]\n{limits}\n")
    monkeypatch.chdir(tmp_path)
    order = order_of(understood([], []))
    assert (order.batch_records_max, order.batch_bytes_max) == (1234, 5678)


def test_a_batch_is_limited_in_records_and_bytes_unless_it_must_be_whole():
    context = Context(NO_SPARK, "", batch_records_max=10, batch_bytes_max=20)
    limits = {"maxOffsetsPerTrigger": "10", "maxBytesPerTrigger": "20"}
    assert context.admission({}) == limits
    assert context.admission({"maxbytespertrigger": "5"}) == {"maxOffsetsPerTrigger": "10"}
    whole = {"maxOffsetsPerTrigger": str(WHOLE)}
    assert context.admission(whole) == whole


def test_steps_come_more_slowly_after_a_while_without_anything_new_and_quickly_again_after_it():
    pace = Pace()
    waits = [pace.after(("running", 3)) for _ in range(QUIET_STEPS + 2)]
    assert waits == [STEP_S] * QUIET_STEPS + [IDLE_STEP_S] * 2
    assert pace.after(("running", 4)) == STEP_S
