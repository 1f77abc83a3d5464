"""A first snapshot that is read from a replica, while the changes come from its primary."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headwater import testing
from headwater.capture.errors import Interrupted, SourceRefused
from headwater.capture.mysql import views
from headwater.capture.runner import Runner
from headwater.capture.source import open_source
from tests.capture.contract.mysql import MySQLKind
from tests.capture.contract.servers import SERVERS, Entry
from tests.capture.contract.subject import Subject
from tests.capture.mysql.replica import follow, go_on_following, level, stop_following
from tests.capture.postgres.running import eventually

_QUICK = [one for one in SERVERS if one.quick and issubclass(one.subject, MySQLKind)]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=_QUICK, ids=lambda entry: entry.name)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Entry, Any, Any]]:
    entry: Entry = request.param
    with entry.running() as primary, entry.running() as replica:
        follow(replica, primary)
        yield entry, primary, replica


@pytest.fixture
def shop(pair: tuple[Entry, Any, Any]) -> Iterator[Subject]:
    entry, primary, replica = pair
    made = entry.subject(primary)
    address = f"{replica.scheme}://root@127.0.0.1:{replica.port}/{made.name}"
    made.options = {"snapshot_from": address, "chunk_rows": 200}
    made.create("t")
    made.insert("t", 1, 1_000)
    level(primary, replica)
    yield made
    made.close()
    level(primary, replica)


def test_rows_are_the_replicas_and_what_it_lacks_comes_from_the_primary(
    shop: Subject, pair: tuple[Entry, Any, Any]
) -> None:
    _, primary, replica = pair
    stop_following(replica)
    shop.insert("t", 2_001, 2_010)
    shop.set("t", 1, -1)
    shop.snapshot(batches=3)
    assert shop.fold("t")[0] == {"id": 1, "n": 1, "s": "x"}
    go_on_following(replica)
    level(primary, replica)
    shop.delete("t", 2)
    shop.snapshot()  # goes on in a later view of the replica
    shop.set("t", 3, -3)
    shop.stream()
    assert shop.fold("t") == shop.select("t")
    source = open_source(shop.config())
    assert [one for one in source.check() if one.name == "snapshot_from" and one.ok]
    source.close()


def test_a_replica_that_is_behind_the_log_is_waited_for(
    shop: Subject, pair: tuple[Entry, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, primary, replica = pair
    monkeypatch.setattr(views, "CATCH_UP_S", 1)
    shop.snapshot(batches=3)
    stop_following(replica)
    shop.set("t", 1, -1)
    assert shop.position is not None
    shop.position["gtid"] = primary.gtids()  # as if another replica had been read before
    with pytest.raises(Interrupted, match="has not yet what the log has"):
        shop.snapshot()
    go_on_following(replica)
    level(primary, replica)
    shop.snapshot()


def test_a_snapshot_waits_while_the_replica_does_not_follow(
    shop: Subject, pair: tuple[Entry, Any, Any]
) -> None:
    _, _, replica = pair
    stop_following(replica)
    said: list[str] = []
    with testing.broker() as log:
        config = shop.config(bootstrap=log.bootstrap, snapshot_max_lag_s=5)
        runner = Runner(config, said.append)
        thread = threading.Thread(target=lambda: runner.run(until_streaming=True))
        thread.start()
        try:
            eventually("it waits", lambda: [one for one in said if "a replica" in one])
            assert thread.is_alive()
        finally:
            go_on_following(replica)
            thread.join(100)
        assert not thread.is_alive()
        assert runner.status.rows == 1_000


def test_a_replica_with_transactions_of_its_own_is_refused(
    shop: Subject, pair: tuple[Entry, Any, Any]
) -> None:
    _, _, replica = pair
    # The last of this file: the two are no longer the same.
    replica.execute(f"CREATE TABLE {shop.name}.own (id INT PRIMARY KEY)")
    with pytest.raises(SourceRefused, match="has transactions that"):
        shop.snapshot()
    stop_following(replica)
    replica.gtids = shop.server.gtids  # what `shop` ends with need not be waited for
