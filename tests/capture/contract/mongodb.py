"""MongoDB under the contract."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pymongo
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    json_util,
)
from bson.codec_options import CodecOptions, DatetimeConversion

from tests.capture.contract import subject
from tests.capture.contract.subject import OTHER, Row, Subject
from tests.capture.mongodb.mongod import Mongod
from tests.capture.postgres.running import eventually

_RELAXED = json_util.RELAXED_JSON_OPTIONS
BATCH = 20_000
VALUES: tuple[Any, ...] = (
    None, True, -(2**31), 2**31 - 1, Int64(-(2**63)), Int64(2**63 - 1), 0.1, float("nan"),
    float("-inf"), 5e-324, "", "ü🙂\x01", Decimal128("9.999999999999999999999999999999999E+6144"),
    Decimal128("NaN"), Decimal128("-0"), ObjectId("000000000000000000000000"),
    *(Binary(b"\0\xff" * 8, kind) for kind in (0, 2, 3, 4, 5, 6, 128)), Timestamp(2**32 - 1, 1),
    DBRef("other", ObjectId("ffffffffffffffffffffffff"), "elsewhere"), MinKey(), MaxKey(),
    DatetimeMS(-(2**63)), DatetimeMS(2**63 - 1), DatetimeMS(0), DatetimeMS(1_700_000_000_123),
    Regex("^a.*", "imx"), Code("f()"), Code("f(x)", {"x": 1}), [], {}, [[1, [None]], {"a": {"b": 2}}],
    {"$odd": 1, "a.b": 2, "": 3},
)  # fmt: skip


class MongoDB(Subject):
    server: Mongod
    can = frozenset((subject.TRUNCATE, subject.RENAME, subject.PURGE, subject.SILENCE))

    @property
    def database(self) -> pymongo.database.Database[dict[str, Any]]:
        # Acknowledged means in the journal: a server is killed here.
        durable = pymongo.WriteConcern(w=1, j=True)
        return self.server.client.get_database(self.name, write_concern=durable)

    def make_database(self) -> None: ...

    def remove_database(self) -> None:
        self.server.client.drop_database(self.name)

    def url(self, port: int | None = None) -> str:
        return f"mongodb://127.0.0.1:{port or self.server.port}/{self.name}?directConnection=true"

    @property
    def port(self) -> int:
        return self.server.port

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.restart()

    def create(self, table: str) -> None:
        self.database.create_collection(table)

    def insert(self, table: str, first: int, last: int, text: str = "x") -> None:
        for begin in range(first, last + 1, BATCH):
            ids = range(begin, min(begin + BATCH, last + 1))
            self.database[table].insert_many({"_id": i, "n": i, "s": text} for i in ids)

    def set(self, table: str, identity: int, n: int) -> None:
        self.database[table].update_one({"_id": identity}, {"$set": {"n": n}})

    def delete(self, table: str, identity: int) -> None:
        self.database[table].delete_one({"_id": identity})

    def truncate(self, table: str) -> None:
        self.database[table].drop()

    def select(self, table: str) -> list[Row]:
        options = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO, tz_aware=True)
        found = self.database[table].with_options(options).find().sort("_id", 1)
        return [self.row(json_util.dumps(one, json_options=_RELAXED)) for one in found]

    def row(self, after: Any) -> Row:
        read = json.loads(after)
        read["id"] = read.pop("_id")
        return dict(read)

    def write_types(self) -> None:
        self.database.types.insert_many({"_id": n, "v": one} for n, one in enumerate(VALUES))

    def write_types_again(self) -> None:
        self.database.types.insert_many({"_id": n + OTHER, "v": v} for n, v in enumerate(VALUES))

    def selected_types(self) -> list[Row]:
        return self.select("types")[: len(VALUES)]

    def purge(self) -> None:
        """The oplog has 64 MB."""
        assert self.position is not None
        numbers, oplog = itertools.count(), self.server.client.local["oplog.rs"]
        begun = oplog.find_one(sort=[("$natural", -1)])
        assert begun is not None

        def gone() -> bool:
            text = f"{next(numbers)}".zfill(8_000_000)
            self.database.mark.replace_one({"_id": 0}, {"_id": 0, "s": text}, upsert=True)
            try:
                first = oplog.find_one(sort=[("$natural", 1)])
            except pymongo.errors.OperationFailure:
                return False  # it was removed while it was read
            return first is not None and bool(first["ts"] > begun["ts"])

        eventually("the oplog no longer has the position", gone)
        self.database.mark.delete_one({"_id": 0})
