"""Capture on a real mongod, a replica set of one."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from headwater.capture.change import Batch
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured
from headwater.capture.mongodb import open_source
from headwater.capture.mongodb.events import _key
from headwater.capture.mongodb.source import MongoSource
from tests.capture.mongodb.mongod import Mongod

_numbers = itertools.count(1)
STILL_S = 100.0


@pytest.fixture(scope="module")
def mongod() -> Iterator[Mongod]:
    running = Mongod()
    yield running
    running.close()


class Captured:
    """A database, and a capture of it that is driven by hand."""

    def __init__(self, mongod: Mongod) -> None:
        self.name = f"shop{next(_numbers)}"
        self.mongod = mongod
        self.database = mongod.client[self.name]
        self.records: list[tuple[str, Any, Any]] = []
        self.position: Any = None
        self._sources: list[MongoSource] = []

    def source(self, *collections: str, **options: Any) -> MongoSource:
        url = self.mongod.url(self.name)
        config = CaptureConfig(self.name, url, collections, options=options)
        self._sources.append(open_source(config))
        return self._sources[-1]

    def snapshot(self, *collections: str, batches: int | None = None) -> None:
        for number, batch in enumerate(self.source(*collections).snapshot(self.position), 1):
            self.take(batch)
            if number == batches:
                return

    def stream(self, *collections: str) -> None:
        """Until a document that is written now has come."""
        wanted = collections[0] if len(collections) == 1 else "mark"
        mark = bson.ObjectId()
        self.database[wanted].insert_one({"_id": mark})
        deadline = time.monotonic() + STILL_S
        for batch in self.source(*collections).stream(self.position):
            self.take(batch)
            for _, key, value in self.records[-2000:]:
                if str(mark) in str(key) and value["op"] == "c":
                    return
            assert time.monotonic() < deadline, self.records[-3:]

    def take(self, batch: Batch) -> None:
        self.position = json.loads(json.dumps(batch.position))
        for topic, key, value, *_ in batch.records:
            self.records.append((topic, key, None if value is None else json.loads(value)))

    def fold(self, collection: str) -> dict[bytes, Any]:
        rows: dict[bytes, Any] = {}
        for topic, key, value in self.records:
            if topic != f"{self.name}.{collection}" or value is None:
                continue
            if value["op"] == "t":
                rows.clear()
            elif value["op"] == "d":
                rows.pop(key, None)
            else:
                rows[key] = json.loads(value["after"])
        return rows

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self.mongod.client.drop_database(self.name)


@pytest.fixture
def shop(mongod: Mongod) -> Iterator[Captured]:
    made = Captured(mongod)
    yield made
    made.close()


def test_snapshot_then_stream_then_resume_from_the_token(shop: Captured) -> None:
    orders = shop.database.orders
    orders.insert_many([{"_id": n, "item": "tea"} for n in range(2_500)])
    shop.snapshot("orders")
    assert len(shop.records) == 2_500
    assert shop.records[7][:2] == (f"{shop.name}.orders", b'{"id":"7"}')
    value = shop.records[7][2]
    assert (value["op"], json.loads(value["after"])) == ("r", {"_id": 7, "item": "tea"})

    orders.insert_one({"_id": "new", "n": 1})
    orders.update_one({"_id": "new"}, {"$inc": {"n": 1}})
    orders.delete_one({"_id": 3})
    shop.stream("orders")
    # The stream begins with the last write before the snapshot.
    ops = [None if value is None else value["op"] for _, _, value in shop.records[-5:]]
    assert ops == ["c", "u", "d", None, "c"]

    seen = len(shop.records)
    orders.insert_one({"_id": "later"})
    shop.stream("orders")
    assert shop.records[seen][1] == b'{"id":"\\"later\\""}'
    assert len(shop.records) == seen + 2


def test_who_asks_how_far_the_server_is_hears_it_without_a_run(shop: Captured) -> None:
    """As `capture status` does, whose source has read nothing."""
    shop.database.orders.insert_one({"_id": 1})
    said = shop.source("orders").lag().detail
    assert "the server is at 2" in said and "its oplog goes back 0." in said


def test_a_snapshot_goes_on_where_it_stopped(shop: Captured) -> None:
    shop.database.orders.insert_many([{"_id": n} for n in range(2_500)])
    shop.snapshot("orders", batches=3)
    assert len(shop.records) == 2_000
    shop.snapshot("orders")
    assert shop.records[2_000][1] == b'{"id":"2000"}'
    assert len(shop.records) == 2_500


def test_large_documents_are_read_a_few_at_a_time(shop: Captured) -> None:
    """A thousand of them may be more than the memory."""
    some = shop.database.large
    for number in range(12):
        some.insert_one({"_id": number, "s": "x" * 700_000})
    some.insert_one({"_id": bson.MaxKey(), "s": "x" * 2_000_000})
    sizes = []
    for batch in shop.source().snapshot(None):
        sizes.append(sum(len(record[2] or b"") for record in batch.records))
        shop.take(batch)
    assert len(shop.fold("large")) == 13
    assert max(sizes) < 3_000_000


def test_documents_can_be_objects(shop: Captured) -> None:
    document = {"_id": 1, "nested": {"a": [1, 2.5, None]}}
    shop.database.orders.insert_one(document)
    batches = list(shop.source("orders", documents="object").snapshot(None))
    assert json.loads(batches[1].records[0][2] or b"")["after"] == document


def test_preflight_says_that_a_lone_server_has_no_change_streams() -> None:
    lone = Mongod(lone=True)
    try:
        lone.client.shop.orders.insert_one({"_id": 1})
        source = open_source(CaptureConfig("shop", lone.url("shop"), ("orders",)))
        found = {finding.name: finding for finding in source.check()}
        source.close()
    finally:
        lone.close()
    assert not found["replica set"].ok
    assert found["replica set"].remedy == "start mongod with --replSet rs0, then rs.initiate()"
    assert found["collection orders"].ok


MIXED: list[Any] = [
    *range(1_500), *(f"s{n:04}" for n in range(700)), *(bson.ObjectId() for _ in range(700)),
    None, 1.5, bson.Int64(1 << 60), bson.Decimal128("2.5"), bson.MinKey(), bson.MaxKey(), True,
    bson.Binary(b"\x00\x01", 0), bson.Binary(b"0" * 16, 4), bson.Timestamp(5, 6),
    {"a": 1, "b": "x"}, bson.DatetimeMS(1_700_000_000_123),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["plain", "collation", "clustered"])
def test_a_snapshot_reads_documents_whatever_the_type_of_their_id(
    shop: Captured, kind: str
) -> None:
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "collation": {"collation": {"locale": "de", "strength": 1}},
        "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}},
    }
    made = shop.database.create_collection("orders", **options[kind])
    made.insert_many({"_id": identity} for identity in MIXED)
    while shop.position is None or "snapshot" in shop.position:
        shop.snapshot(batches=1)  # killed after each chunk
    read = [key for _, key, _ in shop.records]
    assert [key for key in map(_key, MIXED) if key not in read] == []
    assert len(shop.records) == len(MIXED)


def test_out_and_renames_bring_the_documents_that_a_name_stands_for_now(shop: Captured) -> None:
    database = shop.database
    database.orders.insert_many([{"_id": n, "old": True} for n in range(20)])
    database.raw.insert_many([{"_id": n, "n": n} for n in range(1_500)])
    shop.snapshot()
    list(database.raw.aggregate([{"$match": {"n": {"$lt": 1_200}}}, {"$out": "orders"}]))
    database.orders.insert_one({"_id": "after"})
    database.raw.rename("archive")
    shop.stream()
    assert len(shop.fold("orders")) == 1_201
    assert shop.fold("orders")[b'{"id":"7"}'] == {"_id": 7, "n": 7}
    assert len(shop.fold("raw")) == 0
    assert len(shop.fold("archive")) == 1_500
    assert not [topic for topic, _, _ in shop.records if "tmp." in topic]


def test_what_is_renamed_to_the_one_captured_collection_is_read_after_a_kill_too(
    shop: Captured,
) -> None:
    database = shop.database
    database.orders.insert_one({"_id": "old"})
    database.raw.insert_many([{"_id": n} for n in range(2_500)])
    shop.snapshot("orders")
    database.raw.rename("orders", dropTarget=True)
    for batch in shop.source("orders").stream(shop.position):
        shop.take(batch)
        if len(shop.fold("orders")) >= 1_000:
            break  # killed while it reads
    shop.stream("orders")
    assert len(shop.fold("orders")) == 2_501
    assert len([1 for _, _, value in shop.records if value and value["op"] == "r"]) == 2_502
    database.orders.drop()
    database.orders.insert_one({"_id": "new"})
    shop.stream("orders")
    assert len(shop.fold("orders")) == 2


def test_years_beyond_9999_and_text_that_is_not_utf_8_are_captured(shop: Captured) -> None:
    far = bson.DatetimeMS(300_000_000_000_000)
    shop.database.orders.insert_one({"_id": far, "at": far})
    broken = bson.encode({"_id": "a\x01", "text": "b\x01"}).replace(b"\x01\x00", b"\xff\x00")
    shop.database.orders.insert_one(RawBSONDocument(broken))
    shop.snapshot()
    shop.database.other.insert_one(RawBSONDocument(broken))
    shop.database.other.insert_one({"_id": 1, "at": far})
    shop.stream()
    assert list(shop.fold("orders").values()) == [
        {"_id": "a�", "text": "b�"},
        {"_id": {"$date": {"$numberLong": "300000000000000"}},
         "at": {"$date": {"$numberLong": "300000000000000"}}},
    ]  # fmt: skip
    assert list(shop.fold("other").values()) == [
        {"_id": "a�", "text": "b�"},
        {"_id": 1, "at": {"$date": {"$numberLong": "300000000000000"}}},
    ]


def test_bytes_that_do_not_fit_their_type_are_captured(shop: Captured) -> None:
    """A server takes a UUID of three bytes, which pymongo cannot read."""
    odd = {
        "_id": bson.Binary(b"abc", 4),
        "own": bson.Binary(b"o", 0x80),
        "list": [bson.Binary(b"", 3)],
    }
    rest = {
        "code": bson.Code("f(x)", {"x": bson.Binary(b"xyz", 3)}),
        "like": bson.Regex("a", "i"),
        "n": 1.5,
    }
    shop.database.orders.insert_one({**odd, **rest, "uuid": bson.Binary(b"u" * 16, 4)})
    shop.database.orders.insert_one({"_id": 1})
    shop.snapshot()
    shop.database.orders.update_one({"_id": odd["_id"]}, {"$set": {"n": bson.Binary(b"1" * 17, 3)}})
    shop.database.other.insert_one({**odd, **rest})
    shop.database.orders.delete_one({"_id": 1})
    shop.stream()
    read = {"$binary": {"base64": "YWJj", "subType": "04"}}
    (found,), (other,) = shop.fold("orders").values(), shop.fold("other").values()
    assert found["_id"] == other["_id"] == read
    assert found["own"] == {"$binary": {"base64": "bw==", "subType": "80"}}
    assert found["list"] == other["list"] == [{"$binary": {"base64": "", "subType": "03"}}]
    assert found["code"]["$scope"] == {"x": {"$binary": {"base64": "eHl6", "subType": "03"}}}
    assert other["like"] == {"$regularExpression": {"pattern": "a", "options": "i"}}
    assert (
        found["uuid"] == {"$uuid": "75757575-7575-7575-7575-757575757575"}
        or "$binary" in found["uuid"]
    )
    assert found["n"] == {"$binary": {"base64": "MTExMTExMTExMTExMTExMTE=", "subType": "03"}}


def test_an_event_above_16_mb_comes_without_what_makes_it_so_large(shop: Captured) -> None:
    images = {"changeStreamPreAndPostImages": {"enabled": True}}
    made = shop.database.create_collection("orders", **images)
    made.insert_one({"_id": 1, "n": 0, "text": "x" * 9_000_000})
    shop.snapshot()
    made.update_one({"_id": 1}, {"$set": {"n": 1}})
    made.update_one({"_id": 1}, {"$set": {"text": "y" * 9_000_000}})
    made.insert_one({"_id": 2})
    made.update_one({"_id": 2}, {"$set": {"n": 2}})
    shop.stream()
    told = [value for topic, _, value in shop.records if value and topic.endswith(".orders")]
    ops = [(value["op"], value["before"] is not None) for value in told[-4:]]
    assert ops == [("u", False), ("u", False), ("c", False), ("u", True)]
    assert shop.fold("orders")[b'{"id":"1"}'] == {"_id": 1, "n": 1, "text": "y" * 9_000_000}


def test_check_knows_what_has_no_changes_and_says_what_is_wrong_with_a_login(
    shop: Captured,
) -> None:
    shop.database.orders.insert_one({"_id": 1})
    shop.database.command("create", "seen", viewOn="orders", pipeline=[])
    shop.database.create_collection("weather", timeseries={"timeField": "at"})
    found = {finding.name: finding for finding in shop.source().check()}
    assert [name for name in found if name.startswith("collection")] == ["collection orders"]
    named = {finding.name: finding for finding in shop.source("seen", "weather").check()}
    assert "is a view" in named["collection seen"].sentence
    assert "is a timeseries" in named["collection weather"].sentence
    shop.snapshot()
    assert {topic for topic, _, _ in shop.records} == {f"{shop.name}.orders"}
    url = shop.mongod.url(shop.name).replace("mongodb://", "mongodb://nobody:wrong@")
    refused = open_source(CaptureConfig("shop", url))
    (finding,) = refused.check()
    refused.close()
    assert not finding.ok and "refuses the login" in finding.sentence
    assert "{" not in finding.sentence


def test_collections_that_would_share_a_topic_are_refused(shop: Captured) -> None:
    for name in ("caffè", "caff_"):
        shop.database[name].insert_one({"_id": 1})
    with pytest.raises(Misconfigured, match="would share the topic"):
        shop.snapshot()
    shop.position = None
    shop.snapshot("caffè")
    with pytest.raises(Misconfigured, match="would share the topic"):
        shop.stream()
