"""Writes that only a primary had, and that its set rolls back: no reader of the log ever sees them."""

from __future__ import annotations

import contextlib
import json
import threading

import pymongo
import pymongo.errors
import pytest

from headwater.capture.errors import Interrupted
from headwater.capture.source import open_source
from tests.capture.contract.test_failover import OfSet, leading, replica_set
from tests.capture.mongodb.mongod import Mongod
from tests.capture.postgres.running import eventually
from tests.capture.servers.builds import MONGOD_6, Build
from tests.capture.servers.versions import MONGOD_4, MONGOD_5

pytestmark = pytest.mark.timeout(900)
PHANTOM = 5_000
LOOKS = 3
_BUILDS = [
    pytest.param(build, id=build.name, marks=() if build is MONGOD_6 else pytest.mark.soak)
    for build in (MONGOD_4, MONGOD_5, MONGOD_6)
]


def replicating(mongod: Mongod, on: bool) -> None:
    """Whether a secondary fetches what its primary writes."""
    mode = "off" if on else "alwaysOn"
    # A member that an election makes something else ends its connections.
    command = mongod.client.admin.command
    mongod.until(lambda: command("configureFailPoint", "stopReplProducer", mode=mode))


def told(shop: OfSet) -> set[int]:
    """The documents that readers were ever told of."""
    found = (json.loads(key)["id"] for topic, key, _ in shop.records if topic == f"{shop.name}.t")
    return {json.loads(one) for one in found}


@pytest.mark.parametrize("build", _BUILDS)
def test_writes_that_are_rolled_back_are_neither_read_nor_streamed(build: Build) -> None:
    with contextlib.ExitStack() as stack:
        members = stack.enter_context(replica_set(build))
        OfSet.members = members
        shop, late = (stack.enter_context(contextlib.closing(OfSet(members[0]))) for _ in "ab")
        late.name, late.marks = shop.name, 50  # another capture of the same database
        late.options = {"silence_s": 10}
        shop.insert("t", 1, 100)
        shop.snapshot()
        shop.stream()
        leader = eventually("one leads", lambda: leading(members))
        others = [one for one in members if one is not leader]
        for one in others:
            eventually("it has all", lambda: _has(one, shop.name, 100))  # noqa: B023
            replicating(one, on=False)

        # Acknowledged by the primary, on its disk, and by nobody else.
        alone = leader.client.get_database(shop.name, write_concern=pymongo.WriteConcern(j=True))
        alone.t.insert_one({"_id": PHANTOM, "n": 0, "s": "x"})
        alone.t.update_one({"_id": 1}, {"$set": {"n": -1}})
        alone.t.delete_one({"_id": 2})
        assert alone.t.count_documents({}) == 100
        before = list(shop.records)
        assert shop.position is not None
        source = open_source(shop.config())
        for number, batch in enumerate(source.stream(shop.position)):
            shop.take(batch)
            if number == LOOKS:
                break
        source.close()
        assert shop.records == before

        failed: list[Exception] = []

        def read_meanwhile() -> None:
            try:
                late.snapshot()
            except Interrupted as error:
                failed.append(error)

        thread = threading.Thread(target=read_meanwhile)
        thread.start()
        eventually("it waits for a majority", lambda: late.position is not None or failed)
        leader.kill()
        thread.join(200)
        assert not thread.is_alive()
        # It ends there, or goes on at the next leader, which has what a majority has.
        assert PHANTOM not in told(late)

        for one in others:
            replicating(one, on=True)
        shop.insert("t", 3_000, 3_010)
        shop.delete("t", 3)
        leader.start()
        eventually("it has rolled back", lambda: _has_rolled_back(leader, shop.name))
        while failed:
            failed.clear()
            read_meanwhile()
        for capture in (shop, late):
            capture.stream()
            assert capture.fold("t") == shop.select("t")
            assert PHANTOM not in told(capture)
        assert {row["id"] for row in shop.fold("t")} == {*range(1, 101), *range(3_000, 3_011)} - {3}


def _has(mongod: Mongod, database: str, count: int) -> bool:
    try:
        return mongod.client[database].t.count_documents({}) == count
    except pymongo.errors.AutoReconnect:
        return False


def _has_rolled_back(mongod: Mongod, database: str) -> bool:
    try:
        state = mongod.client.admin.command("isMaster")
        settled = state.get("secondary") or state.get("ismaster") or state.get("isWritablePrimary")
        return bool(settled) and mongod.client[database].t.find_one({"_id": PHANTOM}) is None
    except pymongo.errors.AutoReconnect:  # it ends its connections when it begins to roll back
        return False
