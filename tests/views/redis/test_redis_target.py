"""Views in Redis: what every target must do, and what only this one does."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.testing.target_columns import WideningConformance
from headwater.testing.targets import (
    ADA,
    BOB,
    CAT,
    Make,
    TargetConformance,
    Writer,
    gone,
    rows_of,
    shape,
)
from headwater.views.targets.contract import Kind, Misfit, Part, Unavailable
from headwater.views.targets.redis import reader
from headwater.views.targets.redis import target as target_module
from headwater.views.targets.registry import target_for
from tests.views.redis.server import RedisServer

FEED = pa.schema(
    [("follower", pa.int64()), ("post", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
OPTIONS = {"form": "timeline", "set": "follower", "member": "post", "score": "at"}


def feed(**more: str) -> object:
    return shape(view="feed", schema=FEED, key=("follower", "post"), options={**OPTIONS, **more})


def minute(number: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 0, number, tzinfo=dt.UTC)


class TestConformance(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, server: RedisServer) -> Make:
        return lambda given: target_for(server.url, given)


class TestConformanceOfJson(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, server: RedisServer) -> Make:
        def make(given):
            form = {} if given.kind is Kind.APPEND else {"form": "json"}
            return target_for(server.url, replace(given, options=form))

        return make


def test_readers_find_rows_as_hashes_below_the_current_version(make: Make, server: RedisServer):
    Writer(make(shape(options={"table": "people"}))).write(0, [ADA, CAT])
    with server.client() as client:
        place = client.get("people:current")
        assert place == "people:v1:"
        assert client.hgetall(place + "1") == {"id": "1", "name": "Ada", "total": "1.5"}
        assert client.hgetall(place + "3") == {"id": "3"}  # null is no field
        Writer(make(shape(version=2, options={"table": "people"})))
        make(shape(version=2, options={"table": "people"})).switch()
        assert client.get("people:current") == "people:v2:"


def test_rows_can_be_json(make: Make, server: RedisServer):
    writer = Writer(make(shape(options={"form": "json"})))
    writer.write(0, [ADA, CAT])
    with server.client() as client:
        assert json.loads(client.get("customers:v1:1")) == {"id": 1, "name": "Ada", "total": 1.5}


def test_views_without_a_key_are_streams(make: Make, server: RedisServer):
    Writer(make(shape(Kind.APPEND))).write(0, [ADA, CAT])
    with server.client() as client:
        found = [fields for _, fields in client.xrange("customers:v1")]
    assert found == [{"id": "1", "name": "Ada", "total": "1.5"}, {"id": "3"}]


def test_a_timeline_is_a_sorted_set_in_the_order_of_its_scores(make: Make, server: RedisServer):
    writer = Writer(make(feed()))
    writer.write(0, [(7, "b", minute(2)), (7, "a", minute(1)), (8, "a", minute(1))])
    writer.write(1, [(7, "c", minute(0)), (8, "a", None, True), (7, "b", minute(3))])
    with server.client() as client:
        assert client.zrange("feed:v1:7", 0, -1) == ["c", "a", "b"]
        newest = client.zrange("feed:v1:7", 0, 0, desc=True, withscores=True)
        assert newest == [("b", minute(3).timestamp() * 1e6)]
        assert not client.exists("feed:v1:8")
    rows = [(7, "a", minute(1)), (7, "b", minute(3)), (7, "c", minute(0))]
    assert rows_of(make(feed())) == rows
    keys = pa.table({"follower": [7, 8], "post": ["a", "a"]})
    assert rows_of(make(feed()), keys) == [(7, "a", minute(1))]


def test_a_row_without_a_score_is_refused_and_the_rest_goes_on(make: Make):
    writer = Writer(make(feed()))
    (refusal,) = writer.write(0, [(7, "a", minute(1)), (7, "b", None), (7, "c", minute(2))])
    assert (refusal.number, refusal.reason) == (1, "at is not a number")
    assert json.loads(refusal.row)["post"] == "b"
    assert [row[1] for row in rows_of(writer.target)] == ["a", "c"]


def test_a_timeline_of_other_columns_is_refused(make: Make):
    wrong = shape(options=OPTIONS)
    with pytest.raises(Misfit, match="no others"):
        make(wrong).create()
    with pytest.raises(Misfit, match="needs the option 'score'"):
        make(replace(wrong, options={"form": "timeline", "set": "id", "member": "name"})).create()
    with pytest.raises(Misfit, match="cannot have the form 'tree'"):
        make(shape(options={"form": "tree"})).create()


def test_names_belong_to_one_view(make: Make):
    Writer(make(shape()))
    with pytest.raises(Misfit, match="hold the view 'customers'"):
        make(shape(view="others", options={"table": "customers"})).create()
    with pytest.raises(Misfit, match="reads as a version"):
        make(shape(view="others", options={"table": "customers:v1"})).create()


def test_nothing_but_the_view_is_left_after_a_commit(make: Make, server: RedisServer):
    writer = Writer(make(shape()))
    writer.stage(0, 0, [ADA, BOB])  # of a task that was killed
    writer.write(0, [ADA], [BOB, gone(3)])
    with server.client() as client:
        assert sorted(client.keys()) == [
            "customers:current", "customers:v1:1", "customers:v1:2", "headwater_views",
        ]  # fmt: skip


def test_a_staged_part_that_was_evicted_makes_the_batch_come_again(make: Make, server: RedisServer):
    writer = Writer(make(shape()))
    writer.write(0, [ADA])
    part = writer.stage(1, 0, [BOB, CAT, (1, "Ava", None)])
    with server.client() as client:
        client.delete(f"{part.place}:1")
    with pytest.raises(Unavailable):
        writer.commit(1, [part])
    with pytest.raises(Unavailable):
        writer.commit(1, [Part(0, "nowhere", 1)])
    assert rows_of(writer.target) == [ADA]


def test_a_whole_view_is_read_at_one_position_while_commits_wait(
    make: Make, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(make(shape()))
    writer.write(0, [(n, "old", None) for n in range(5000)])
    part = writer.stage(1, 0, [(n, "new", None) for n in range(5000)])
    monkeypatch.setattr(target_module, "PATIENCE_S", 0.0)
    with make(shape()).reading() as (applied, batches):
        first = next(batches)
        with pytest.raises(Unavailable, match="readers"):
            writer.commit(1, [part])
        names = [name for b in (first, *batches) for name in b.column("name").to_pylist()]
    assert applied is not None and applied.batch == 0
    assert (len(names), set(names)) == (5000, {"old"})
    writer.commit(1, [part])
    assert writer.target.applied() != applied


def test_a_reader_that_sleeps_is_not_waited_for_and_told_so(
    make: Make, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(make(shape()))
    writer.write(0, [(n, "old", None) for n in range(5000)])
    monkeypatch.setattr(reader, "HOLD_S", -1)  # its time is up at once
    with make(shape()).reading() as (_, batches):
        writer.write(1, [ADA])
        with pytest.raises(Unavailable, match="too slow"):
            list(batches)


def test_a_server_that_is_down_is_unavailable():
    target = target_for("redis://127.0.0.1:1/0", shape())
    for call in (target.create, target.claim, target.applied, target.current, target.switch):
        with pytest.raises(Unavailable, match="does not answer"):
            call()


def test_keys_of_another_view_or_of_somebody_else_are_refused(make: Make, server: RedisServer):
    Writer(make(shape(view="one", options={"table": "t"}))).write(0, [ADA])
    for view, table in (("two", "t"), ("two", "t:v1"), ("two", "t:v2:x"), ("two", "headwater_x")):
        with pytest.raises(Misfit):
            make(shape(view=view, options={"table": table})).create()
    with pytest.raises(Misfit, match="the book in Redis"):
        make(shape(view="place")).create()
    with server.client() as client:
        client.set("mine:current", "something")
        with pytest.raises(Misfit, match="not a view's"):
            make(shape(view="mine")).create()
        assert client.get("mine:current") in ("something", b"something")
    Writer(make(shape(view="two", options={"table": "t:orders"}))).write(0, [BOB])
    assert rows_of(make(shape(view="one", options={"table": "t"}))) == [ADA]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.float64(), [1e17, 1e300, 2.0**53 + 2, -1e17, 0.1], []),
        (pa.int64(), [10**17, 2**53, -(2**62)], [2**53 + 1, 2**63 - 1]),
    ],
)
def test_a_score_that_a_double_holds_exactly_is_taken_however_large(
    make: Make, kind: pa.DataType, good: list[float], bad: list[float]
):
    schema = pa.schema([("who", pa.string()), ("what", pa.int64()), ("score", kind)])
    words = {"form": "timeline", "set": "who", "member": "what", "score": "score"}
    target = make(shape(schema=schema, key=("who", "what"), options=words))
    rows = [("ada", number, score) for number, score in enumerate([*good, *bad])]
    refused = Writer(target).write(0, rows)
    assert len(refused) == len(bad)
    assert rows_of(target) == rows[: len(good)]


def test_a_password_that_is_wrong_is_not_waited_for(server: RedisServer):
    target = target_for(server.url.replace("redis://", "redis://nobody:wrong@"), shape())
    with pytest.raises(Misfit, match="Redis does not take the view"):
        target.create()
