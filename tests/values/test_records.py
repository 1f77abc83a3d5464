"""Rows that a view writes to a topic, read back by every source: equal, or a dead letter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.pipelines import stores
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.rows import Result
from headwater.pipelines.tables import row_type
from headwater.testing import values
from headwater.views.tables import change_stream
from headwater.views.tables.bad_values import BadValue
from headwater.views.tables.decoder import Decoder, Table
from tests.values import known
from tests.values.records import Log, as_topic, frame_of, wrong

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
READABLE = [each for each in values.COLUMNS if each.name != "by_number"]
"""A map whose keys are numbers cannot be read from JSON: `test_names` has its refusal."""
QUICK = [each for each in READABLE if not pa.types.is_binary(each.kind) and "map" not in str(each.kind)
         and each.name != "blobs"]  # fmt: skip
"""What Arrow's own parser reads; with a map or bytes in the schema, values are read one by one."""


@pytest.fixture(scope="module")
def log(headwater_spark: SparkSession, bootstrap: str) -> Log:
    found = Log(headwater_spark, bootstrap)
    found.write(as_topic(frame_of(headwater_spark, READABLE)), "all")
    found.write(as_topic(frame_of(headwater_spark, QUICK)), "quick")
    return found


def test_the_sink_writes_the_bytes_that_it_is_given(log: Log) -> None:
    given = as_topic(frame_of(log.spark, READABLE)).selectExpr(
        "CAST(key AS BINARY)", "CAST(value AS BINARY)"
    )
    found = log.read("all").select("key", "value")
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, given.collect()))


@pytest.mark.parametrize(("topic", "columns"), [("quick", QUICK), ("all", READABLE)])
def test_json_is_read_as_it_was_written(log: Log, topic: str, columns: list[values.Column]) -> None:
    dead = f"{topic}.dead-letters"
    read = log.read(topic, schema=values.ddl(columns), deadLetterTopic=dead)
    found = read.select("value.*").toArrow()
    known.check(f"json {topic}", wrong(columns, found, log.letters(dead)))


def test_a_table_has_the_rows_that_were_written(log: Log) -> None:
    row, bad = row_type(values.ddl(READABLE), "hurting", (values.ID,)), list[BadValue]()
    (changes,) = Decoder([Table("all", row, (values.ID,))], bad.extend)(log.read("all"))
    found = changes.select([f"c{n}" for n in range(len(row.names))]).rename_columns(row.names)
    refused = {int(json.loads(each.value)["id"]): each.reason for each in bad}
    known.check("table", wrong(READABLE, found, refused))


def test_a_stream_of_changes_has_the_rows_that_were_written(log: Log) -> None:
    row = row_type(values.ddl(READABLE), "hurting", (values.ID,))
    table = Table("all", row, (values.ID,))
    found = change_stream.changes(log.read("all"), table, None).select(*row.names).toArrow()
    there = set(found.column(values.ID).to_pylist())
    refused = {id: "left out" for id in range(values.rows(READABLE).num_rows) if id not in there}
    known.check("changes", wrong(READABLE, found, refused))


def test_a_number_in_place_of_a_time_is_refused_wherever_it_stands(log: Log) -> None:
    schema = "id BIGINT, at TIMESTAMP, days ARRAY<TIMESTAMP>, inside STRUCT<at: TIMESTAMP>"
    good = [
        {"id": 0, "at": "2026-01-01T00:00:00Z", "days": ["2026-01-01T00:00:00Z", None]},
        {"id": 1},
    ]
    bad = [{"at": 1767225600}, {"at": -1}, {"days": [None, 5]}, {"inside": {"at": 1767225600000}}]
    sent = [*good, *({"id": n, **each} for n, each in enumerate(bad, 2))]
    wrapped = [{"op": "u", "after": each, "before": None} for each in sent]
    for topic, forms in (("plain-times", sent), ("wrapped-times", wrapped)):
        rows = [(str(each["id"]), json.dumps(form)) for each, form in zip(sent, forms, strict=True)]
        log.write(log.spark.createDataFrame(rows, "key STRING, value STRING"), topic)
        row, refused = row_type(schema, topic, ("id",)), list[BadValue]()
        (changes,) = Decoder([Table(topic, row, ("id",))], refused.extend)(log.read(topic))
        assert sorted(changes.column("c0").to_pylist()) == [0, 1]
        said = [json.loads(each.value) for each in refused]
        assert sorted(each.get("after", each)["id"] for each in said) == [2, 3, 4, 5]
        assert all("which is no timestamp" in each.reason for each in refused), refused
        streamed = change_stream.changes(
            log.read(topic), Table(topic, row, ("id",)), None
        ).toArrow()
        assert sorted(streamed.column("id").to_pylist()) == [0, 1]


def test_keys_of_a_topic_tell_every_value_apart(log: Log) -> None:
    for name in ("moment", "local", "blob", "texts", "point", "text", "decimal_38_18"):
        frame = frame_of(log.spark, [values.column(name)]).where(f"`{name}` IS NOT NULL")
        keys = [as_topic(frame, name).select("key").distinct().count()]
        keys.append(as_topic(frame, name, values.ID).select("key").distinct().count())
        assert keys == [frame.select(name).distinct().count(), frame.count()], name


def test_a_map_whose_keys_json_cannot_say_is_refused_before_anything_runs(log: Log) -> None:
    with pytest.raises(
        PipelineError, match="MAP<INT,DOUBLE>, and the names in a JSON object are texts"
    ):
        row_type("id BIGINT, deep ARRAY<STRUCT<m: MAP<INT, DOUBLE>>>", "hurting")


def test_the_sink_of_a_view_gets_the_views_own_options(log: Log) -> None:
    context = Context(log.spark, "here:1")
    view = View("v", lambda: None, to="topic:t", place="here",
                options={"kafka.compression.type": "zstd", "transactions": "marks"})  # fmt: skip
    result = Result(log.spark.range(1), view, context, updates=False)
    assert stores.sink_options(result) == {
        "kafka.bootstrap.servers": "here:1", "kafka.compression.type": "zstd", "topic": "t",
    }  # fmt: skip
