"""The bank of the tests: accounts with a rule (no overdraft) and transfers as a saga."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headwater.events import Aggregate, Refused
from headwater.events.saga import Send


@dataclass(frozen=True)
class Deposit:
    amount: int


@dataclass(frozen=True)
class Withdraw:
    amount: int


@dataclass(frozen=True)
class Transfer:
    transfer: str
    to: str
    amount: int


@dataclass(frozen=True)
class Credit:
    transfer: str
    amount: int


@dataclass(frozen=True)
class Complete:
    transfer: str


@dataclass(frozen=True)
class Cancel:
    transfer: str
    why: str


@dataclass(frozen=True)
class Close:
    pass


@dataclass(frozen=True)
class Deposited:
    amount: int


@dataclass(frozen=True)
class Withdrawn:
    amount: int


@dataclass(frozen=True)
class TransferStarted:
    transfer: str
    to: str
    amount: int


@dataclass(frozen=True)
class Credited:
    transfer: str
    amount: int


@dataclass(frozen=True)
class TransferCompleted:
    transfer: str


@dataclass(frozen=True)
class TransferCancelled:
    transfer: str
    amount: int
    why: str


@dataclass(frozen=True)
class Closed:
    pass


@dataclass(frozen=True)
class Account:
    balance: int = 0
    closed: bool = False
    on_the_way: dict[str, int] = field(default_factory=dict)
    """Transfers that have left and not arrived."""


COMMANDS = [Deposit, Withdraw, Transfer, Credit, Complete, Cancel, Close]
EVENTS = [
    Deposited,
    Withdrawn,
    TransferStarted,
    Credited,
    TransferCompleted,
    TransferCancelled,
    Closed,
]


def decide(account: Account, command: Any) -> Any:
    match command:
        case Complete(transfer):
            return TransferCompleted(transfer) if transfer in account.on_the_way else None
        case Cancel(transfer, why):
            if transfer not in account.on_the_way:
                return None
            return TransferCancelled(transfer, account.on_the_way[transfer], why)
    if account.closed:
        return Refused("the account is closed")
    match command:
        case Deposit(amount):
            return Deposited(amount)
        case Withdraw(amount):
            return Withdrawn(amount) if amount <= account.balance else Refused("overdraft")
        case Transfer(transfer, to, amount):
            if amount > account.balance:
                return Refused("overdraft")
            return TransferStarted(transfer, to, amount)
        case Credit(transfer, amount):
            return Credited(transfer, amount)
        case Close():
            return Closed() if account.balance == 0 else Refused("there is money on it")


def apply(account: Account, event: Any) -> Account:
    balance, closed, way = account.balance, account.closed, account.on_the_way
    match event:
        case Deposited(amount) | Credited(_, amount):
            return Account(balance + amount, closed, way)
        case Withdrawn(amount):
            return Account(balance - amount, closed, way)
        case TransferStarted(transfer, _, amount):
            return Account(balance - amount, closed, {**way, transfer: amount})
        case TransferCompleted(transfer):
            return Account(balance, closed, {k: v for k, v in way.items() if k != transfer})
        case TransferCancelled(transfer, amount):
            way = {k: v for k, v in way.items() if k != transfer}
            return Account(balance + amount, closed, way)
        case Closed():
            return Account(balance, True, way)
    raise AssertionError(event)


def accounts(name: str, **options: Any) -> Aggregate[Account]:
    return Aggregate(name, Account(), decide, apply, COMMANDS, EVENTS, **options)


def transfers(bank: Aggregate[Account]) -> Any:
    """The saga: what left one account arrives at the other, or comes back."""

    def react(event: Any) -> Iterator[Send]:
        match event.data:
            case TransferStarted(transfer, to, amount):
                yield Send(
                    bank,
                    to,
                    Credit(transfer, amount),
                    refused=lambda no: [Send(bank, event.id, Cancel(transfer, no.reason))],
                )
            case Credited(transfer, _):
                yield Send(bank, transfer.split(":")[0], Complete(transfer))

    return react
