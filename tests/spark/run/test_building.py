"""A view's function to a query: what is made of it, and one sentence for each mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as sf

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.pipelines.context import current
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.query import State
from tests.spark.run.desk import Desk

ROW = "id STRING, total DOUBLE"


def declared(function: Callable[[], Any], name: str = "v", **words: Any) -> View:
    DECLARED.clear()
    hw.view(name, **words)(function)
    return DECLARED.views()[-1]


def refusal(desk: Desk, view: View) -> str:
    with pytest.raises(HeadwaterError) as found:
        desk.begin(view)
    assert "\n" not in str(found.value)
    return f"{found.value}; {found.value.hint}"


def test_a_result_is_written_as_it_comes_unless_its_rows_change(desk: Desk, topic: str):
    events = desk.build(declared(lambda: hw.stream(topic, schema=ROW)))
    counts = desk.build(
        declared(lambda: hw.stream(topic, schema=ROW).groupBy("id").count(), key="id")
    )
    files = declared(lambda: hw.stream(topic).dropDuplicates(["key"]), to="parquet:somewhere")
    assert (events.mode, events.stateful) == ("append", False)
    assert (counts.mode, counts.stateful) == ("update", True)
    assert (desk.build(files).mode, desk.build(files).stateful) == ("append", True)
    assert events.shape.sources == (f"headwater {topic}",)
    assert events.reads == (topic,)
    assert events.dead_letters == "dlq.headwater-v"


def test_a_source_waits_for_records_only_where_no_other_would_wait_for_it(desk: Desk, topic: str):
    waits: list[bool] = []

    def of(count: int) -> Any:
        waits.append(current().alone)
        found = hw.stream(topic)
        return found if count == 1 else found.union(hw.stream(topic))

    desk.build(declared(lambda: of(1)))
    assert waits[-1]
    built = desk.build(declared(lambda: of(2)))
    assert not waits[-1]
    assert (len(built.shape.sources), built.reads) == (2, (topic,))


def test_mistakes_in_a_function_are_told_with_file_and_line(desk: Desk, topic: str):
    def no_such_column() -> Any:
        return hw.stream(topic, schema=ROW).select("ttal")

    said = refusal(desk, declared(no_such_column))
    assert "the view 'v' cannot be built, " in said
    line = no_such_column.__code__.co_firstlineno + 1
    assert f"test_building.py, line {line}: [UNRESOLVED_COLUMN.WITH_SUGGESTION]" in said


def test_what_is_no_stream_is_refused(desk: Desk):
    assert "returned nothing" in refusal(desk, declared(lambda: None))
    assert "returned a int" in refusal(desk, declared(lambda: 3))
    static = declared(lambda: desk.spark.range(3))
    assert "returned a DataFrame that is no stream" in refusal(desk, static)
    assert "begins with hw.stream(TOPIC)" in refusal(desk, static)


def test_a_topic_that_is_not_there_is_named_and_a_near_one_suggested(desk: Desk, topic: str):
    said = refusal(desk, declared(lambda: hw.stream(topic + "x")))
    assert f"reads the topic {topic + 'x'!r}, which is not there" in said
    assert f"did you mean {topic!r}?" in said


def test_rows_that_change_need_a_key_that_is_a_column(desk: Desk, topic: str):
    def counts() -> Any:
        return hw.stream(topic, schema=ROW).groupBy("id").count()

    assert "each needs a key" in refusal(desk, declared(counts))
    said = refusal(desk, declared(counts, key=("id", "day")))
    assert "the key day, which is no column" in said
    assert "its columns are id, count" in said
    said = refusal(desk, declared(lambda: hw.stream(topic), key="id"))
    assert "where no registry knows a schema: give schema=, or register TOPIC-value" in said


def test_a_query_that_spark_cannot_run_as_a_stream_is_refused_once(desk: Desk, topic: str):
    def counts() -> Any:
        return hw.stream(topic, schema=ROW).groupBy("id").count()

    desk.begin(declared(counts, name=topic, key="id", mode="append"))
    desk.step_until(lambda: desk.queries[0].state is State.REFUSED, "a refusal")
    assert "cannot run as a stream: " in desk.said[-1]
    assert "for streaming aggregations without watermark" in desk.said[-1]


def test_a_notebook_needs_no_runner(desk: Desk, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADWATER_BOOTSTRAP", desk.bootstrap)
    assert hw.session() is desk.spark
    events = hw.stream(f"{topic}, {topic}", schema=ROW)
    assert events.isStreaming
    assert events.columns[:3] == ["id", "total", "_key"]


TABLE = {"schema": ROW, "key": "id"}


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda t: t.where("_op <> 'r'").select("id"), "leaves out the column _deleted"),
        (lambda t: t.where("total > 3 AND _op <> 'r'"), "would keep rows that no longer match"),
        (lambda t: t.groupBy("id", "_op").count(), "would count its changes instead of its rows"),
        (
            lambda t: t.select("id", "_deleted").join(
                hw.table("other", **TABLE).select("id", "total"), "id"
            ),
            "joins changes of the tables",
        ),
    ],
)
def test_changes_one_by_one_are_refused_where_a_view_of_them_would_not_stay_current(
    desk: Desk, topic: str, function: Callable[[Any], Any], sentence: str
):
    desk.log.ensure_topic("other", {})
    view = declared(lambda: function(hw.table(topic, **TABLE)), key="id")
    said = refusal(desk, view)
    assert sentence in said
    assert "_deleted" in said


def test_the_marks_of_a_table_may_be_filtered(desk: Desk, topic: str):
    view = declared(lambda: hw.table(topic, **TABLE).where("_op <> 'r' AND _offset > 5"), key="id")
    assert desk.build(view).mode == "append"


def test_a_table_is_refused_with_its_own_mistakes(desk: Desk, topic: str):
    bad = declared(lambda: hw.table(topic, schema="id STRNG", key="id"), key="id")
    assert "the schema of table" in refusal(desk, bad)
    absent = declared(lambda: hw.table(topic, schema=ROW, key=["id", "day"]), key="id")
    assert "names day, which its schema lacks" in refusal(desk, absent)


def test_records_that_are_made_by_hand_are_left_as_they_are(desk: Desk, topic: str):
    own = declared(lambda: hw.stream(topic).select("key", sf.upper(sf.col("value").cast("string"))))
    assert desk.build(own).mode == "append"
