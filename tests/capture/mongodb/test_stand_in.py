"""Change streams through pymongo against mongo-java-server: as much as it can do (see `server`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pymongo
import pymongo.common
import pytest

from headwater.capture.change import Batch
from headwater.capture.config import CaptureConfig
from headwater.capture.mongodb import open_source
from headwater.capture.mongodb.source import MongoSource
from tests.capture.mongodb.server import StandIn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    running = StandIn(tmp_path_factory.mktemp("mongo"))
    yield running
    running.close()


@pytest.fixture
def url(server: StandIn, monkeypatch: pytest.MonkeyPatch, request: Any) -> str:
    # The stand-in calls itself older than pymongo 4.19 likes; what is used here it does have.
    monkeypatch.setattr(pymongo.common, "MIN_SUPPORTED_WIRE_VERSION", 6)
    name = request.node.name[:40].replace("[", "_").replace("]", "_")
    return f"mongodb://127.0.0.1:{server.port}/{name}?directConnection=true"


def taken(batches: Iterator[Batch], last_key: bytes) -> tuple[list[Any], Any]:
    """The next records, until one with this key is the last, and the position behind them."""
    records: list[Any] = []
    for batch in islice(batches, 50):
        records += batch.records
        if records and records[-1][1] == last_key:
            return records, json.loads(json.dumps(batch.position))
    raise AssertionError(records)


@pytest.fixture
def orders(url: str) -> Iterator[Any]:
    client: pymongo.MongoClient[Any] = pymongo.MongoClient(url)
    yield client.get_default_database().orders
    client.close()


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., MongoSource]]:
    """Opens the source, as often as a test wants; all are closed at its end."""
    sources: list[MongoSource] = []

    def source(**options: Any) -> MongoSource:
        sources.append(open_source(CaptureConfig("shop", url, ("orders",), options=options)))
        return sources[-1]

    yield source
    for one in sources:
        one.close()


def test_snapshot_then_stream_then_resume_from_the_token(
    opened: Callable[..., MongoSource], orders: Any
) -> None:
    orders.insert_many([{"_id": n, "item": "tea"} for n in range(2_500)])
    first = opened()
    batches = list(first.snapshot(None))
    read = [record for batch in batches for record in batch.records]
    assert len(read) == 2_500
    assert len(batches) == 5, "a beginning, three chunks, an end"
    assert read[7][:2] == ("shop.orders", b'{"id":"7"}')
    value = json.loads(read[7][2])
    assert (value["op"], json.loads(value["after"])) == ("r", {"_id": 7, "item": "tea"})

    position = batches[-1].position
    orders.insert_one({"_id": "new", "n": 1})
    orders.delete_one({"_id": 3})
    # The stand-in's clock is in seconds: the stream may begin with what the snapshot has.
    records, position = taken(first.stream(position), b'{"id":"3"}')
    ops = [None if r[2] is None else json.loads(r[2])["op"] for r in records[-3:]]
    assert ops == ["c", "d", None]

    orders.insert_one({"_id": "later"})
    second = opened()
    records, _position = taken(second.stream(position), b'{"id":"\\"later\\""}')
    assert len(records) == 1


def test_a_snapshot_goes_on_where_it_stopped(
    opened: Callable[..., MongoSource], orders: Any
) -> None:
    orders.insert_many([{"_id": n} for n in range(2_500)])
    first = opened()
    snapshot = first.snapshot(None)
    position = [next(snapshot) for _ in range(3)][-1].position
    second = opened()
    rest = [record for batch in second.snapshot(position) for record in batch.records]
    assert [record[1] for record in rest[:1]] == [b'{"id":"2000"}']
    assert len(rest) == 500


def test_documents_can_be_objects(opened: Callable[..., MongoSource], orders: Any) -> None:
    orders.insert_one({"_id": 1, "nested": {"a": [1, 2.5, None]}})
    one = opened(documents="object")
    batch = list(one.snapshot(None))[1]
    assert json.loads(batch.records[0][2] or b"")["after"] == {
        "_id": 1,
        "nested": {"a": [1, 2.5, None]},
    }


def test_preflight_says_that_a_lone_server_has_no_change_streams(
    opened: Callable[..., MongoSource], orders: Any
) -> None:
    orders.insert_one({"_id": 1})
    one = opened()
    found = {finding.name: finding for finding in one.check()}
    assert not found["replica set"].ok
    assert found["replica set"].mend == "start mongod with --replSet rs0, then rs.initiate()"
    assert found["collection orders"].ok
