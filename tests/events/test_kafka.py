"""The same on Apache Kafka: claims fence, answers are durable, commands count once, owners share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.client.cluster import Cluster
from headwater.events import Accepted, BlockingApplication, Refused
from headwater.events import options as clients
from headwater.events.errors import EventsError, OwnerFenced
from headwater.events.history import Reader
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.compat.missing import skip_or_fail
from tests.events import bank
from tests.events.bank import Deposit, Withdraw
from tests.events.test_application import wait_until

LIST_TRANSACTIONS = 66
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "log.flush.interval.messages": "1",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(apache_kafka(SETTINGS, jvm=QUICK_JVM))
        except MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        yield server.bootstrap


def test_the_library_works_the_same_on_apache_kafka(kafka: str):
    accounts = bank.accounts("accounts")
    options: dict[str, Any] = {"owns": "all", "partitions": 2, "snapshot_every": 3}
    with BlockingApplication(accounts, kafka, **options) as old:
        first = old.send("alice", Deposit(10), command_id="a")
        assert old.send("alice", Withdraw(20), command_id="b") == Refused("overdraft")
        with BlockingApplication(accounts, kafka, **options) as new:
            assert isinstance(new.send("alice", Deposit(5)), Accepted)
            with pytest.raises((OwnerFenced, EventsError)):
                old.send("alice", Withdraw(12))
            again = new.send("alice", Deposit(10), command_id="a")
            assert isinstance(again, Accepted) and isinstance(first, Accepted)
            assert again.repeated and again.position == first.position
            answers = [new.submit("bob", Deposit(1)) for _ in range(50)]
            assert all(isinstance(each.result(60), Accepted) for each in answers)
    with BlockingApplication(accounts, kafka, owns="group", session_timeout_ms=5000) as owner:
        assert isinstance(owner.send("alice", Withdraw(1)), Accepted)
        with BlockingApplication(accounts, kafka, owns="none") as client:
            assert isinstance(client.send("alice", Withdraw(2)), Accepted)
            no = client.send("alice", Withdraw(20), command_id="b")
            assert isinstance(no, Refused) and no.repeated
    with Reader(accounts, kafka) as reader:
        assert reader.state("alice").balance == reader.state("alice", snapshots=False).balance == 12
        assert [each.n for each in reader.history("bob")] == list(range(1, 51))


def producer_id_of(app: BlockingApplication[Any]) -> int:
    (owner,) = app.application._owners.values()
    claim = owner.desk._writing._claim
    assert claim is not None
    return claim.identity.producer_id


def test_an_expired_id_fences_on_apache_kafka_too():
    """Its partitions, too, take an epoch of a producer id from whoever writes under it."""
    settings = {
        **SETTINGS,
        "transactional.id.expiration.ms": "2000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    }
    accounts = bank.accounts("accounts")
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(apache_kafka(settings, jvm=QUICK_JVM))
        except MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        kafka = server.bootstrap
        old = stack.enter_context(BlockingApplication(accounts, kafka, owns="all", partitions=1))
        old.send("alice", Deposit(100))
        (owner,) = old.application._owners.values()
        assert owner.desk._lease_s == 0.5
        first = producer_id_of(old)
        cluster = Cluster(clients.for_cluster(kafka))
        stack.callback(cluster.close)
        every: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
        wait_until(lambda: not cluster.anyone().ask(LIST_TRANSACTIONS, every).transaction_states)
        owner.desk._lease_s = float("inf")  # a zombie that never looks at the clock
        new = stack.enter_context(BlockingApplication(accounts, kafka, owns="all", partitions=1))
        assert producer_id_of(new) != first  # the broker has forgotten
        assert isinstance(new.send("alice", Withdraw(100)), Accepted)
        with pytest.raises((OwnerFenced, EventsError)):
            old.send("alice", Withdraw(100))
        with Reader(accounts, kafka) as reader:
            assert [each.n for each in reader.history("alice")] == [1, 2]
            assert reader.state("alice").balance == 0
