"""headwater's bank: accounts that take deposits. Events are msgspec structs, the quickest to decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from headwater.events import Aggregate, Refused


@dataclass(frozen=True)
class Deposit:
    amount: int


@dataclass(frozen=True)
class Withdraw:
    amount: int


@dataclass(frozen=True)
class Fill:
    """Many deposits in one command, to make a long history quickly."""

    count: int


class Deposited(msgspec.Struct, frozen=True, gc=False):
    amount: int


class Withdrawn(msgspec.Struct, frozen=True, gc=False):
    amount: int


@dataclass(slots=True)
class Account:
    balance: int = 0
    changes: int = 0


def decide(account: Account, command: Any) -> Any:
    match command:
        case Deposit():
            return Deposited(command.amount)
        case Withdraw():
            if command.amount > account.balance:
                return Refused("overdraft")
            return Withdrawn(command.amount)
        case Fill():
            return [Deposited(n) for n in range(command.count)]


def apply(account: Account, event: Any) -> Account:
    if type(event) is Deposited:
        return Account(account.balance + event.amount, account.changes + 1)
    return Account(account.balance - event.amount, account.changes + 1)


def accounts(name: str) -> Aggregate[Account]:
    return Aggregate(
        name, Account(), decide, apply, [Deposit, Withdraw, Fill], [Deposited, Withdrawn]
    )
