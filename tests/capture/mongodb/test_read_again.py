"""Collections that are read again while the capture goes on, and what a snapshot reads of a set's members."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.change import Batch
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured
from headwater.capture.mongodb import open_source
from headwater.capture.runner import Runner
from headwater.capture.source import Range
from tests.capture.core.reading import Read, read
from tests.capture.mongodb.mongod import Mongod
from tests.capture.postgres.running import eventually

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def mongod() -> Iterator[Mongod]:
    with contextlib.closing(Mongod()) as running:
        yield running


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "1"}) as running:
        yield running


@pytest.fixture
def config(mongod: Mongod, log: Broker) -> CaptureConfig:
    name = f"again{next(_numbers)}"
    return CaptureConfig(name, mongod.url(name), bootstrap=log.bootstrap)


def ask(config: CaptureConfig, *collections: str, within: Range | None = None) -> str:
    with contextlib.closing(open_source(config)) as source:
        return source.request_snapshot([*collections], within or Range())


@contextlib.contextmanager
def running(config: CaptureConfig) -> Iterator[Runner]:
    runner = Runner(config)
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        eventually("it streams", lambda: runner.status.phase == "streaming")
        yield runner
    finally:
        runner.stop()
        thread.join(60)


def came(config: CaptureConfig, op: str) -> list[Any]:
    """The keys of the records of that kind."""
    records: list[Read] = read(config.bootstrap, f"{config.name}.t")
    shown = [record.value for record in records if record.value is not None]
    return [json.loads(value["after"])["_id"] for value in shown if value["op"] == op]


def test_some_documents_are_read_again_while_it_streams(
    mongod: Mongod, config: CaptureConfig
) -> None:
    documents = mongod.client[config.name]["t"]
    documents.insert_many({"_id": n, "n": n} for n in range(5))
    with running(config):
        ask(config, "t", within=Range(where='{"n": {"$gt": 2}}'))
        eventually("they came again", lambda: came(config, "r")[5:] == [3, 4])
        documents.insert_one({"_id": 10})
        eventually("the stream goes on", lambda: came(config, "c")[-1:] == [10])
        ask(config, "t", within=Range(first="1", last="2"))
        eventually("by their keys", lambda: came(config, "r")[7:] == [1, 2])
    with running(config):  # what was asked for is done once, across a restart too
        documents.insert_one({"_id": 11})
        eventually("the stream goes on", lambda: came(config, "c")[-1:] == [11])
        assert len(came(config, "r")) == 9


def test_a_request_that_cannot_be_met_is_refused_where_it_is_made(
    mongod: Mongod, config: CaptureConfig
) -> None:
    mongod.client[config.name]["t"].insert_one({"_id": 1})
    with pytest.raises(Misconfigured, match="no collection 'other'"):
        ask(config, "other")
    with pytest.raises(Misconfigured, match="no query"):
        ask(config, "t", within=Range(where="n > 5"))


@pytest.mark.timeout(900)
def test_a_snapshot_from_a_secondary_that_is_behind_waits_until_it_has_what_the_stream_will_not_tell() -> (
    None
):
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(contextlib.closing(Mongod(member=True))) for _ in "ab")
        members = [
            {"_id": n, "host": f"127.0.0.1:{one.port}", "priority": 1 - n}
            for n, one in enumerate((first, second))
        ]
        first.client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        first.until(first.is_primary)
        there = first.client.get_database("shop", write_concern=pymongo.WriteConcern(w=2))
        there["t"].insert_one({"_id": 1})
        second.stop_applying(stopped=True)
        with_one = first.client.get_database("shop", write_concern=pymongo.WriteConcern(w=1))
        with_one["t"].insert_one({"_id": 2})  # before the stream begins, and not on the secondary
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (first, second))
        url = f"mongodb://{hosts}/shop?replicaSet=rs0&readPreference=secondary"
        source = stack.enter_context(contextlib.closing(open_source(CaptureConfig("shop", url))))
        batches: list[Batch] = []
        thread = threading.Thread(target=lambda: batches.extend(source.snapshot(None)))
        begun = next(iter(source.snapshot(None)))
        assert begun.position["snapshot"] == {"t": None}
        thread.start()
        # It asks the secondary, whose operation stands there.
        eventually("it waits", lambda: not thread.is_alive() or _reads(second))
        second.stop_applying(stopped=False)
        thread.join(120)
        keys = [record[1] for batch in batches for record in batch.records]
        assert len(keys) == 2


def _reads(mongod: Mongod) -> bool:
    wanted = {"command.find": "t", "op": {"$in": ["query", "command"]}}
    found = mongod.client.admin.aggregate([{"$currentOp": {}}, {"$match": wanted}])
    return bool(list(found))
