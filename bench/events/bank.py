"""The same bank for both contestants: accounts that take deposits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Deposited:
    amount: int


@dataclass(frozen=True)
class Withdrawn:
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
