"""The small parts between a query and its store, each by itself: no Spark, no server."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client.dead_letter_writer import LetterNotTaken
from headwater.client.errors import RequestRefused
from headwater.client.position import Position
from headwater.pipelines import errors
from headwater.pipelines.current_version import Following, at_current_version
from headwater.pipelines.declarations import View
from headwater.spark.sink.errors import WriteRefused
from headwater.testing.targets import ADA, Writer, shape
from headwater.views import offset_log, order
from headwater.views.applier import RowRefused
from headwater.views.dead_letters import Letters, RefusedRow
from headwater.views.stage import Staged, identity, key_text
from headwater.views.tables.bad_values import ValueRefused
from headwater.views.targets import registry
from headwater.views.targets.contract import (
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    Refusal,
    RowsRefused,
    Unavailable,
)
from headwater.views.targets.opensearch.http import SearchRequestRefused


def test_the_last_change_of_each_key_stands_and_of_equal_places_the_later_row():
    rows = pa.table(
        {
            "id": ["a", "b", "a", None, "b", "c", "c"],
            "n": [1, 2, 3, 4, 5, 6, 7],
            order.order_of(shape()): pa.array([9, 1, 4, 2, 3, 5, 5], pa.int64()),
        }
    )
    #  order: 1 b=2   2 null=4   3 b=5   4 a=3   5 c=6, c=7   9 a=1
    found = order.in_order(rows, shape(schema=pa.schema([("id", pa.string())])))
    assert sorted(found.column("n").to_pylist()) == [1, 4, 5, 7]
    history = order.in_order(rows, shape(Kind.HISTORY))
    assert history.column("n").to_pylist() == [2, 4, 5, 3, 6, 7, 1]


def test_the_offset_log_says_how_far_a_batch_goes(tmp_path: Path):
    text = 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":5,"1":0},"#":{"ids":{"a":"x"}}}\n-\n'
    assert offset_log.parse(text) == Position({"a": {0: 5, 1: 0}})
    twice = text + '{"a":{"0":3,"1":9},"b":{"0":1}}\n17\n'
    assert offset_log.parse(twice) == Position({"a": {0: 3, 1: 0}, "b": {0: 1}})
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text(text)
    assert offset_log.position_of(str(tmp_path), 7) == Position({"a": {0: 5, 1: 0}})
    with pytest.raises(offset_log.NoOffsets):
        offset_log.position_of(str(tmp_path), 8)
    with pytest.raises(offset_log.NoOffsets):
        offset_log.parse("v9\n{}\n{}")


def test_a_target_that_cannot_be_is_refused_with_a_sentence():
    with pytest.raises(registry.NoSuchTarget, match="names no target"):
        registry.target_for("nothing:x", shape())
    with pytest.raises(registry.NoSuchTarget, match="has no key"):
        registry.target_for("sqlite:x", shape(key=()))
    registry.register("mine", lambda to, given: registry.target_for(f"sqlite:{to}", given))
    try:
        assert registry.is_store("mine:place")
        assert registry.target_for("mine:place", shape()).shape.view == "customers"
    finally:
        del registry._STORES["mine"]


def test_what_a_task_answers_survives_its_way_to_the_driver():
    part = Part(3, "a:b", 7, (Refusal('{"id":1}', "bad", 3, 2),))
    assert Staged.from_json(Staged(part).to_json()).part == part
    assert identity(shape(), '{"total":1.5,"id":1,"_deleted":true}') == (
        '{"id":1,"name":null,"total":1.5}'
    )
    assert RowsRefused(part.refused).refusals == part.refused


@pytest.mark.parametrize(
    ("key", "row", "wanted"),
    [
        (("id",), '{"id":"ada","n":1}', b"ada"),
        (("id",), '{"id":17,"n":1}', b"17"),
        (("n", "id"), '{"id":"ada","n":1}', b'{"n":1,"id":"ada"}'),
        (("id",), '{"id":null,"n":1}', None),
        ((), '{"id":"ada","n":1}', None),
    ],
)
def test_a_letter_of_a_row_that_is_no_record_has_the_rows_key(
    key: tuple[str, ...], row: str, wanted: bytes | None
):
    """By it `headwater forget` finds whom it is about."""
    refused = RefusedRow(Refusal(row, "why", 0), None, key_text(key, row))
    letter = Letters("sums", "dlq.headwater-sums")._record(refused, Applied(0, 0, Position()))
    assert (letter.key, letter.value) == (wanted, row.encode())


def test_a_query_hears_of_another_version_without_waiting_for_the_store(tmp_path: Path):
    to = f"sqlite:{tmp_path / 'shop.db'}"
    view = View("customers", lambda: None, to, ("id",))
    assert at_current_version(view).version == 1
    Writer(registry.target_for(to, shape())).write(0, [ADA])
    Writer(registry.target_for(to, shape(version=2))).write(0, [ADA])
    registry.target_for(to, shape(version=2)).switch()
    assert at_current_version(view).version == 2

    following = Following(view)
    deadline = time.monotonic() + 100
    while (found := following.other_version()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)  # between two looks
    assert found == 2
    following.close()
    elsewhere = View("customers", lambda: None, "topic:customers")
    assert Following(elsewhere).other_version() is None
    assert at_current_version(elsewhere) is elsewhere


@pytest.mark.parametrize(
    "error",
    [Fenced, Misfit, LetterNotTaken, SearchRequestRefused, RowRefused, ValueRefused, WriteRefused],
)
def test_what_no_second_try_mends_ends_a_query(error: type[Exception]):
    text = f"x\n{_as_spark_shows(error)}: somebody else\n\tat org.apache"
    assert errors.told_to_stop(text) == "somebody else"
    assert not errors.is_away(text)


def test_what_passes_does_not():
    assert errors.told_to_stop(f"{_as_spark_shows(RequestRefused)}: no such topic") is None
    away = f"x\n{_as_spark_shows(Unavailable)}: not now\n"
    assert errors.told_to_stop(away) is None
    assert errors.is_away(away)
    assert errors.brief(RuntimeError(away)) == "not now"


def _as_spark_shows(kind: type[Exception]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
