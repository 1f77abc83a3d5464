"""Another server takes over: level with the log, and behind it. PostgreSQL's is in capture/postgres."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pymongo
import pymongo.errors
import pytest

from headwater.capture.errors import Gap, Interrupted
from tests.capture.contract.mongodb import MongoDB
from tests.capture.contract.mysql import MySQLKind
from tests.capture.contract.servers import SERVERS, Entry
from tests.capture.contract.subject import Row
from tests.capture.mongodb.mongod import Mongod
from tests.capture.mysql.replica import follow, level, stop_following
from tests.capture.postgres.running import DEADLINE_S, eventually
from tests.capture.servers.builds import MONGOD_6, Build
from tests.capture.servers.versions import MONGOD_4, MONGOD_5

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
TRIES = 10
Result = TypeVar("Result")
_LIKE_MYSQL = [entry for entry in SERVERS if issubclass(entry.subject, MySQLKind)]


@pytest.mark.parametrize("standing", ["ahead", "level", "behind"])
@pytest.mark.parametrize("entry", _LIKE_MYSQL, ids=lambda entry: entry.name)
def test_a_replica_that_takes_over_goes_on_if_it_has_what_the_log_has(
    entry: Entry, standing: str
) -> None:
    behind = standing == "behind"
    with entry.running() as primary, entry.running() as replica:
        shop = entry.subject(primary)
        follow(replica, primary)
        shop.create("t")
        shop.insert("t", 1, 100)
        shop.snapshot()
        shop.stream()
        level(primary, replica)
        if behind:
            stop_following(replica)
        shop.insert("t", 101, 200)
        if standing != "ahead":  # of the log, which has not got these yet
            shop.stream()
        if not behind:
            level(primary, replica)
            stop_following(replica)
        primary.kill()
        shop.server = replica
        shop.insert("t", 1_001, 1_100)
        if behind:
            with pytest.raises(Gap):
                shop.stream()
        else:
            shop.stream()
            assert shop.fold("t") == shop.select("t")


class OfSet(MongoDB):
    """A database of a replica set: whoever leads it is asked.

    On a busy machine elections come by themselves. So a write is tried until a majority has it, since any
    other may be rolled back, and the capture goes on where it was, as a run does.
    """

    members: list[Mongod]
    client: pymongo.MongoClient[dict[str, Any]] | None = None

    @property
    def database(self) -> pymongo.database.Database[dict[str, Any]]:
        if self.client is None:
            self.client = pymongo.MongoClient(self.url(), serverSelectionTimeoutMS=5_000)
        lasting = pymongo.WriteConcern(w="majority", j=True)
        return self.client.get_database(self.name, write_concern=lasting)

    def url(self, port: int | None = None) -> str:
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"mongodb://{hosts}/{self.name}?replicaSet=rs0"

    def create(self, table: str) -> None:
        if table not in _done(self.database.list_collection_names):
            _done(lambda: super(OfSet, self).create(table))

    def insert(self, table: str, first: int, last: int, text: str = "x") -> None:
        for n in range(first, last + 1):
            row = {"_id": n, "n": n, "s": text}
            _done(lambda: self.database[table].replace_one({"_id": n}, row, upsert=True))  # noqa: B023

    def set(self, table: str, identity: int, n: int) -> None:
        _done(lambda: super(OfSet, self).set(table, identity, n))

    def delete(self, table: str, identity: int) -> None:
        _done(lambda: super(OfSet, self).delete(table, identity))

    def select(self, table: str) -> list[Row]:
        return _done(lambda: super(OfSet, self).select(table))

    def stream(self, *tables: str, port: int | None = None) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                super().stream(*tables, port=port)
                return
            except Interrupted:
                if not tries_left:
                    raise

    def close(self) -> None:
        if self.client is not None:
            self.client.close()


def _done(act: Callable[[], Result]) -> Result:
    """What it gives, once there is a leader that does it."""
    found: list[Result] = []

    def attempt() -> bool:
        try:
            found.append(act())
        except (pymongo.errors.AutoReconnect, pymongo.errors.WTimeoutError):
            return False
        return True

    eventually("somebody leads", attempt, 2 * DEADLINE_S)
    return found[-1]


@contextlib.contextmanager
def replica_set(build: Build) -> Iterator[list[Mongod]]:
    with contextlib.ExitStack() as stack:
        members = [
            stack.enter_context(contextlib.closing(Mongod(build, member=True))) for _ in "abc"
        ]
        asked = [{"_id": n, "host": f"127.0.0.1:{one.port}"} for n, one in enumerate(members)]
        settings = {"_id": "rs0", "members": asked, "settings": {"electionTimeoutMillis": 5_000}}
        members[0].client.admin.command("replSetInitiate", settings)
        members[0].until(members[0].is_primary)
        yield members


def leading(members: list[Mongod]) -> Mongod | None:
    """The one that says so, of those that answer."""
    for one in members:
        with contextlib.suppress(pymongo.errors.AutoReconnect):
            if one.process is not None and one.is_primary():
                return one
    return None


@pytest.mark.parametrize("build", [MONGOD_4, MONGOD_5, MONGOD_6], ids=lambda build: build.name)
def test_a_replica_set_elects_another_and_the_capture_goes_on(build: Build) -> None:
    with replica_set(build) as members:
        OfSet.members = members
        with contextlib.closing(OfSet(members[0])) as shop:
            shop.create("t")
            shop.insert("t", 1, 1_500)
            shop.snapshot()
            shop.insert("t", 2_000, 2_000)
            shop.stream()
            leader = eventually("one leads", lambda: leading(members))
            leader.kill()
            eventually("another leads", lambda: leading(members))
            shop.insert("t", 3_000, 3_100)
            shop.delete("t", 1)
            shop.stream()
            assert shop.fold("t") == shop.select("t")
