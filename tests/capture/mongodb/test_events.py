"""Events as MongoDB's documentation has them (no mongod is at hand) become Debezium's records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure

from headwater.capture.change import EVERY_PARTITION
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted, Misconfigured, SourceRefused
from headwater.capture.mongodb.driver import Facts, translated
from headwater.capture.mongodb.events import Encoder
from headwater.capture.mongodb.source import MongoSource

ENCODER = Encoder("shop", "store", as_objects=False, tombstones=True)
STAMP = Timestamp(1_700_000_000, 3)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "_id": {"_data": "82"},
        "operationType": kind,
        "clusterTime": STAMP,
        "ns": {"db": "store", "coll": "orders"},
        "documentKey": {"_id": ObjectId("65a000000000000000000001")},
        **more,
    }


def test_an_update_has_the_document_the_pre_image_and_what_was_changed() -> None:
    (record,) = ENCODER.records(
        event(
            "update",
            fullDocument={"_id": 1, "n": 2},
            fullDocumentBeforeChange={"_id": 1, "n": 1},
            updateDescription={"updatedFields": {"n": 2}, "removedFields": ["old"]},
        ),
        "orders",
        5,
    )
    value = json.loads(record[2] or b"")
    assert record[1] == b'{"id":"{\\"$oid\\":\\"65a000000000000000000001\\"}"}'
    assert (value["op"], value["before"], value["after"]) == (
        "u",
        '{"_id":1,"n":1}',
        '{"_id":1,"n":2}',
    )
    assert value["updateDescription"] == {
        "removedFields": ["old"],
        "updatedFields": '{"n":2}',
        "truncatedArrays": None,
    }
    assert value["source"]["ts_ms"] == 1_700_000_000_000
    assert value["source"]["ord"] == 3


def test_a_replacement_that_writes_its_number_in_another_form_leaves_none_in_the_old_one() -> None:
    records = ENCODER.records(
        event("replace", documentKey={"_id": 1.0}, fullDocument={"_id": 1, "n": 2}), "orders", 5
    )
    told = [(key, value and json.loads(value)["op"]) for _, key, value, *_ in records]
    assert told == [(b'{"id":"1.0"}', "d"), (b'{"id":"1.0"}', None), (b'{"id":"1"}', "c")]
    assert json.loads(records[-1][2] or b"")["after"] == '{"_id":1,"n":2}'
    same = event("replace", documentKey={"_id": 1}, fullDocument={"_id": 1})
    assert len(ENCODER.records(same, "orders", 5)) == 1


def test_an_update_of_a_document_deleted_since_has_no_document() -> None:
    (record,) = ENCODER.records(event("update", fullDocument=None), "orders", 5)
    assert json.loads(record[2] or b"")["after"] is None


def test_a_delete_has_its_pre_image_and_a_tombstone() -> None:
    gone, tombstone = ENCODER.records(
        event("delete", fullDocumentBeforeChange={"_id": 1}), "orders", 5
    )
    assert json.loads(gone[2] or b"")["before"] == '{"_id":1}'
    assert tombstone[2] is None


def test_every_type_says_what_it_is() -> None:
    document = {
        "_id": 1,
        "long": Int64(2**60),
        "decimal": Decimal128("1.10"),
        "bytes": Binary(b"\0"),
        "date": datetime(2026, 1, 2, tzinfo=UTC),
        "text": "\u2603",
    }
    record = ENCODER.read("orders", document, 5)
    after = json.loads(json.loads(record[2] or b"")["after"])
    assert after == {
        "_id": 1,
        "long": 2**60,
        "decimal": {"$numberDecimal": "1.10"},
        "bytes": {"$binary": {"base64": "AA==", "subType": "00"}},
        "date": {"$date": "2026-01-02T00:00:00Z"},
        "text": "\u2603",
    }


def test_a_dropped_collection_is_truncated_in_every_partition_and_others_are_refused() -> None:
    (record,) = ENCODER.records(event("drop"), "orders", 5)
    assert record[4] == EVERY_PARTITION  # type: ignore[misc]
    assert json.loads(record[2] or b"")["op"] == "t"
    assert ENCODER.records(event("createIndexes"), "orders", 5) == []
    with pytest.raises(SourceRefused, match="not known here"):
        ENCODER.records(event("somethingNew"), "orders", 5)


class Recorded:
    """A driver that plays back what a server is documented to send."""

    database = "store"

    def __init__(self, *streams: list[tuple[dict[str, Any] | None, str | None, bool]]) -> None:
        self._streams = list(streams)
        self.asked: list[dict[str, Any]] = []

    def facts(self) -> Facts:
        return Facts((7, 0, 0), True, ("lines", "orders"), frozenset())

    def wants(self, collection: str) -> bool:
        return True

    def collections(self) -> list[str]:
        return ["lines", "orders"]

    def operation_time(self) -> tuple[int, int]:
        return 5, 1

    def oplog_place(self) -> str:
        return "the server is at 5"

    def replica_lag_s(self) -> float | None:
        return None

    def read_behind(self, time: tuple[int, int]) -> None: ...

    def estimated_count(self, collection: str) -> int:
        return 0

    def documents(
        self, collection: str, after: str | None, limit: int, where: str | None = None
    ) -> list[dict[str, Any]]:
        return []

    def watch(
        self, token: str | None, time: tuple[int, int], **options: bool
    ) -> Iterator[tuple[dict[str, Any] | None, str | None, bool]]:
        self.asked.append({"token": token, "time": time, **options})
        yield from self._streams.pop(0)

    def close(self) -> None: ...


def test_a_stream_that_was_invalidated_goes_on_behind_that_event() -> None:
    driver = Recorded(
        [
            (event("insert", fullDocument={"_id": 1}), "a", True),
            (event("dropDatabase"), "b", True),
            (event("invalidate"), "c", False),
        ],
        [(event("insert", fullDocument={"_id": 2}), "d", False)],
    )
    stream = MongoSource(CaptureConfig("shop", "mongodb://h/store"), driver).stream(
        {"time": [5, 1]}
    )
    first, second = next(stream), next(stream)
    assert [record[0] for record in first.records] == ["shop.orders", "shop.lines", "shop.orders"]
    assert first.position == {"token": "c", "invalidated": True}
    assert second.position == {"token": "d"}
    assert driver.asked == [
        {"token": None, "time": (5, 1), "invalidated": False, "pre_images": True},
        {"token": "c", "time": (5, 1), "invalidated": True, "pre_images": True},
    ]


def test_settings_that_mean_nothing_here_are_refused() -> None:
    for settings in ({"outbox": "box"}, {"schema": True}, {"options": {"documents": "bson"}}):
        with pytest.raises(Misconfigured):
            MongoSource(CaptureConfig("shop", "mongodb://h/store", **settings), Recorded())  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [43, 134, 189, 237, 10107, 11601, 11602, 13436])
def test_what_time_mends_is_an_interruption(code: int) -> None:
    assert isinstance(translated(OperationFailure("not now", code)), Interrupted)
