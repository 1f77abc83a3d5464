"""What must be written again when snapshots did not arrive, and what must not be written at all."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pydantic import BaseModel, Field, PrivateAttr

from headwater import testing
from headwater.client.cluster import Cluster
from headwater.events.aggregate import Aggregate
from headwater.events.answers import Refused
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import BadDefinition
from headwater.events.ledger import Held, Ledger
from headwater.events.snapshots import POSITION, Snapshots
from tests.events import bank
from tests.events import test_tombstones as tombstones
from tests.events.bank import Deposit
from tests.events.test_forgetting import Note
from tests.events.test_verdict import Noted, Put, owner


def written(snapshots: Snapshots, ledger: Ledger) -> list[bytes]:
    return [key for batch in snapshots.records(ledger) for key, _ in batch]


def test_states_whose_snapshots_failed_are_written_with_the_next_position():
    accounts = bank.accounts("accounts")
    ledger = Ledger(accounts, 0, Codec(accounts))
    snapshots = Snapshots(accounts, 0, 2)

    def deposit(id: str) -> None:
        command = Asked(id, Deposit(1), f"{id} {ledger.next_offset}", 0)
        snapshots.touched(ledger.decide([command], 1))

    deposit("alice")
    assert not snapshots.due
    deposit("bob")
    assert snapshots.due
    assert sorted(written(snapshots, ledger)) == sorted([POSITION, b"alice", b"bob"])
    assert not snapshots.due
    deposit("carol")
    snapshots.failed()
    # Without alice and bob, a position behind their events would hide that their states are old.
    assert sorted(written(snapshots, ledger)) == sorted([POSITION, b"alice", b"bob", b"carol"])
    snapshots.landed()
    snapshots.failed()
    deposit("dave")
    keys = written(snapshots, ledger)
    assert sorted(keys) == sorted([POSITION, b"dave"])
    assert keys[-1] == POSITION  # behind what it vouches for


class Hidden(BaseModel):
    total: int = 0
    _seen: int = PrivateAttr(default=0)


class Excluded(BaseModel):
    total: int = 0
    seen: int = Field(default=0, exclude=True)


@dataclass
class Beside:
    total: int = 0


@dataclass(frozen=True)
class Whole:
    total: int = 0
    seen: dict[str, list[Decimal]] = field(default_factory=dict)

    @cached_property
    def worked_out(self) -> int:
        return self.total + 1


@pytest.mark.parametrize("kind", [Hidden, Excluded, Beside])
def test_a_state_of_which_a_part_is_not_written_becomes_no_snapshot(kind: Any):
    name = {Hidden: "_seen"}.get(kind, "seen")
    made = Aggregate("made", kind(), bank.decide, bank.apply, [Deposit], [Deposit], state=kind)
    ledger, snapshots = Ledger(made, 0, Codec(made)), Snapshots(made, 0, 1)
    ledger.held["alice"] = Held(kind(total=3), 1)
    snapshots.replayed({"alice"}, 1)
    assert len(written(snapshots, ledger)) == 2
    setattr(ledger.held["alice"].state, name, 5)
    snapshots.replayed({"alice"}, 1)
    with pytest.raises(BadDefinition, match="does not come back"):
        written(snapshots, ledger)


def test_what_a_property_keeps_and_nested_values_do_no_harm_to_a_snapshot():
    made = Aggregate("made", Whole(), bank.decide, bank.apply, [Deposit], [Deposit])
    ledger, snapshots = Ledger(made, 0, Codec(made)), Snapshots(made, 0, 1)
    state = Whole(3, {"a": [Decimal("1.10")], "b": []})
    assert state.worked_out == 4
    ledger.held["alice"] = Held(state, 1)
    snapshots.replayed({"alice"}, 1)
    assert len(written(snapshots, ledger)) == 2


def test_a_state_that_cannot_be_read_back_is_a_mistake_that_is_told_at_once():
    class Odd:
        pass

    @dataclass
    class Done:
        pass

    def same(state: Any, _: Any) -> Any:
        return state

    odd = Aggregate("odd", Odd(), same, same, [Done], [Done])
    ledger = Ledger(odd, 0, Codec(odd))
    assert not Snapshots(odd, 0, 0).due
    assert ledger.held == {}
    with pytest.raises(BadDefinition, match="cannot be read back"):
        Snapshots(odd, 0, 10)


async def test_a_state_from_a_snapshot_decides_as_the_live_one(bootstrap: str, name: str):
    seats: Aggregate[Any] = Aggregate(
        name,
        {},
        lambda state, command: Refused("taken") if command.what in state else Noted(command.what),
        lambda state, event: {**state, event.what: True},
        [Put],
        [Noted],
    )
    async with owner(seats, bootstrap, snapshot_every=1) as hall:
        await hall.send("hall", Put(17))
        assert isinstance(await hall.send("hall", Put(17)), Refused)
    async with owner(seats, bootstrap, snapshot_every=1) as hall:
        assert isinstance(await hall.send("hall", Put(17)), Refused)


async def test_snapshots_of_which_nobody_knows_whether_they_are_right_are_not_used(
    bootstrap: str, name: str
):
    accounts = bank.accounts(name)
    async with owner(accounts, bootstrap, snapshot_every=1) as app:
        await app.send("alice", Deposit(1))
    with closing(Cluster({"bootstrap.servers": bootstrap})) as cluster:
        snapshots = Snapshots(accounts, 0, 1)
        held, offset = snapshots.load(cluster)
        assert held["alice"].version == 1 and offset
        unchecked = {"fold": accounts.fingerprint, "offset": offset}
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(accounts.snapshots, json.dumps(unchecked), POSITION, 0)
        assert producer.flush(60) == 0
        assert snapshots.load(cluster) == ({}, 0)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.delete_records([TopicPartition(name, 0, offset)]).values():
            await asyncio.to_thread(future.result, 10)
        assert snapshots.load(cluster)[1] == offset  # there is nothing else


async def test_a_record_among_the_snapshots_that_is_no_text_costs_time_and_nothing_else():
    with testing.broker() as broker:
        async with tombstones.owner(tombstones.NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note("hello"))
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("notes.snapshots", b'{"fold":"\xff","n":1,"state":{}}', b"bob")
        assert producer.flush(60) == 0
        async with tombstones.owner(tombstones.NOTES, broker.bootstrap) as notes:
            assert (await notes.state("alice")).texts == ("hello",)
