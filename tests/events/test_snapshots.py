"""What must be written again when snapshots did not arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headwater.events.aggregate import Aggregate
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import BadDefinition
from headwater.events.ledger import Ledger
from headwater.events.snapshots import POSITION, Snapshots
from tests.events import bank
from tests.events.bank import Deposit


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
