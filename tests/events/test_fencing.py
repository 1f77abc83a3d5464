"""One owner decides, also when the broker has forgotten whose the partition was: expired ids fence nobody.

old claims (producer 1) ─▶ the transactional id expires ─▶ new claims (producer 2) ─▶ old goes on …
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater import testing
from headwater.broker.broker import Broker
from headwater.events import Accepted, BlockingApplication, Refused, lease
from headwater.events.errors import EventsError, OwnerFenced
from headwater.events.history import Reader
from headwater.testing import ManualClock
from tests.events import bank
from tests.events.bank import Deposit, Withdraw
from tests.events.test_application import running, wait_until

EXPIRING: dict[str, object] = {
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "20",
    "group.min.session.timeout.ms": "500",
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time_ns() // 1_000_000)


@pytest.fixture
def broker(clock: ManualClock) -> Iterator[Broker]:
    with testing.broker(settings=EXPIRING, clock=clock) as found:
        yield found


@pytest.fixture
def no_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody claims anew because its claim is old, however slow the machine is."""
    monkeypatch.setattr(lease, "of", lambda _: lease.LEASE_S)


def expire(broker: Broker, clock: ManualClock) -> None:
    """Until the broker knows no transactional id any more."""
    clock.advance(6_000)
    wait_until(lambda: not broker.transactions.transactions)


def test_an_owner_is_fenced_though_its_transactional_id_has_expired(
    name: str, broker: Broker, clock: ManualClock, no_renewal: None
):
    bootstrap = broker.bootstrap
    with running(name, bootstrap, partitions=1) as old:
        old.send("alice", Deposit(100))
        expire(broker, clock)
        with running(name, bootstrap) as new:
            assert isinstance(new.send("alice", Withdraw(100)), Accepted)
            with pytest.raises((OwnerFenced, EventsError)):
                old.send("alice", Withdraw(100))
            with pytest.raises((OwnerFenced, EventsError)):  # nor may it refuse
                old.send("alice", Withdraw(101))
            assert isinstance(new.send("alice", Deposit(1)), Accepted)
    check(name, bootstrap, {"alice": 1})


def test_every_owner_before_is_fenced_however_many_producer_ids_there_were(
    name: str, broker: Broker, clock: ManualClock, no_renewal: None
):
    bootstrap = broker.bootstrap
    former: list[BlockingApplication[bank.Account]] = []
    for n in range(4):
        app = running(name, bootstrap, partitions=1, snapshot_every=2)
        if n % 2:  # some write nothing at all
            app.send("alice", Deposit(10))
        former.append(app)
        expire(broker, clock)
    with running(name, bootstrap) as last:
        assert last.state("alice").balance == 20
        for each in former:
            with pytest.raises((OwnerFenced, EventsError)):
                each.send("alice", Withdraw(1))
            each.close()
        assert isinstance(last.send("alice", Withdraw(20)), Accepted)
    check(name, bootstrap, {"alice": 0})


def test_a_group_shares_and_decides_once_while_ids_expire(
    name: str, broker: Broker, clock: ManualClock
):
    bootstrap = broker.bootstrap
    options = {"owns": "group", "partitions": 2, "session_timeout_ms": 5000}
    ids = [f"account-{n}" for n in range(6)]
    with running(name, bootstrap, **options) as one:
        for id in ids:
            one.send(id, Deposit(100))
        zombies = dict(one.application._owners)
        expire(broker, clock)
        # As if the group had put it out, and it did not know yet: another process has them all.
        with running(name, bootstrap, owns="all") as two:
            accepted = [two.send(id, Withdraw(100)) for id in ids]
            assert all(isinstance(each, Accepted) for each in accepted)
            answers = [one.submit(id, Withdraw(100)) for id in ids]
            found = [each.result(60) for each in answers]
            assert all(isinstance(each, Refused) for each in found)
            assert zombies
    check(name, bootstrap, dict.fromkeys(ids, 0))


def test_a_claim_is_renewed_well_before_the_broker_forgets_it(
    name: str, broker: Broker, clock: ManualClock
):
    with running(name, broker.bootstrap, partitions=1) as app:
        (owner,) = app.application._owners.values()
        assert owner.desk._lease_s == 5.0 / 4
        app.send("alice", Deposit(1))
        first = owner.desk._writing._claim
        owner.desk._since = float("-inf")  # as after a lease without a command, or with many
        waiting = [app.submit("alice", Deposit(1)) for _ in range(20)]
        found = [each.result(60) for each in waiting]
        assert sorted(each.version for each in found) == list(range(2, 22))  # type: ignore[union-attr]
        second = owner.desk._writing._claim
        assert first is not None and second is not None
        assert second.identity.epoch > first.identity.epoch
        assert second.identity.producer_id == first.identity.producer_id
    check(name, broker.bootstrap, {"alice": 21})


@pytest.mark.parametrize(
    ("memories", "seconds"),
    [
        (["604800000", "86400000"], 3600.0),
        (["5000", "86400000"], 1.25),
        (["604800000", "60000"], 15.0),
        ([None, None], 3600.0),
        (["1", "1"], 0.2),
    ],
)
def test_a_lease_is_a_part_of_the_shortest_memory(memories: list[str | None], seconds: float):
    assert lease.shortest(memories) == seconds


def test_a_tombstone_or_a_fence_behind_the_last_owner_does_not_hide_it(
    name: str, broker: Broker, clock: ManualClock
):
    bootstrap = broker.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    with running(name, bootstrap, partitions=1) as old:
        old.send("alice", Deposit(100))
        for _ in range(300):  # more than one look backwards
            producer.produce(name, None, "bob", 0)
            producer.flush(10)
        expire(broker, clock)
        with running(name, bootstrap) as new:
            # One whose lease has run out claims anew, and decides by what the other has written.
            answers = [answer_of(each, Withdraw(100)) for each in (old, new)]
    assert [isinstance(each, Accepted) for each in answers].count(True) == 1
    check(name, bootstrap, {"alice": 0})


def answer_of(app: BlockingApplication[bank.Account], command: Withdraw) -> object:
    try:
        return app.send("alice", command)
    except (OwnerFenced, EventsError) as error:
        return error


def check(name: str, bootstrap: str, balances: dict[str, int]) -> None:
    """The oracle: every event is the next one of its aggregate, and no balance is ever below zero."""
    aggregate: Any = bank.accounts(name)
    states: dict[str, bank.Account] = {}
    numbers: dict[str, int] = {}
    with Reader(aggregate, bootstrap) as reader:
        for _, found in reader.replay():
            for each in found:
                numbers[each.id] = numbers.get(each.id, 0) + 1
                assert each.n == numbers[each.id]
                before = states.get(each.id, bank.Account())
                states[each.id] = aggregate.apply(before, each.data)
                assert states[each.id].balance >= 0
        for id, balance in balances.items():
            assert reader.state(id).balance == states[id].balance == balance
