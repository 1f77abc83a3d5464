"""Bank accounts: what may be asked for, what can happen, and the rules between the two.

`decide` may refuse a command; `apply` never refuses an event, because it has happened. The balance is in
no table: it is what the events of an account add up to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headwater.events import Aggregate, Refused, Send, upcaster

# ---- commands: what somebody wants; may be refused ------------------------------------------------


@dataclass(frozen=True)
class Open:
    owner: str


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
    sender: str
    amount: int


@dataclass(frozen=True)
class Complete:
    transfer: str


@dataclass(frozen=True)
class Cancel:
    transfer: str
    why: str


# ---- events: what has happened ---------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    owner: str


@dataclass(frozen=True)
class Deposited:
    amount: int
    currency: str = "EUR"


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
    sender: str
    amount: int


@dataclass(frozen=True)
class TransferCompleted:
    transfer: str


@dataclass(frozen=True)
class TransferCancelled:
    transfer: str
    amount: int
    why: str


@upcaster("Deposited", 1)
def with_currency(data: dict[str, Any]) -> dict[str, Any]:
    """The first deposits did not name a currency; there was only one."""
    return {"currency": "EUR", **data}


# ---- state, and the two functions ------------------------------------------------------------------


@dataclass(frozen=True)
class Account:
    owner: str | None = None
    balance: int = 0
    on_the_way: dict[str, int] = field(default_factory=dict)
    """Transfers that have left and have not arrived."""


def decide(account: Account, command: Any) -> Any:
    if isinstance(command, Open):
        return Refused("it is open already") if account.owner is not None else Opened(command.owner)
    if account.owner is None:
        return Refused("there is no such account")
    match command:
        case Deposit(amount) if amount > 0:
            return Deposited(amount)
        case Withdraw(amount) if 0 < amount <= account.balance:
            return Withdrawn(amount)
        case Transfer(transfer, to, amount) if 0 < amount <= account.balance:
            return TransferStarted(transfer, to, amount)
        case Credit(transfer, sender, amount):
            return Credited(transfer, sender, amount)
        case Complete(transfer):
            return TransferCompleted(transfer) if transfer in account.on_the_way else None
        case Cancel(transfer, why):
            amount = account.on_the_way.get(transfer, 0)
            return TransferCancelled(transfer, amount, why) if amount else None
        case Deposit(amount) | Withdraw(amount) | Transfer(_, _, amount) if amount <= 0:
            return Refused("the amount must be more than nothing")
    return Refused(f"overdraft: the balance is {account.balance}")


def apply(account: Account, event: Any) -> Account:
    owner, balance, way = account.owner, account.balance, account.on_the_way
    match event:
        case Opened(owner):
            return Account(owner)
        case Deposited(amount) | Credited(_, _, amount):
            return Account(owner, balance + amount, way)
        case Withdrawn(amount):
            return Account(owner, balance - amount, way)
        case TransferStarted(transfer, _, amount):
            return Account(owner, balance - amount, {**way, transfer: amount})
        case TransferCompleted(transfer):
            return Account(owner, balance, {k: v for k, v in way.items() if k != transfer})
        case TransferCancelled(transfer, amount):
            left = {k: v for k, v in way.items() if k != transfer}
            return Account(owner, balance + amount, left)
    raise TypeError(event)


accounts = Aggregate(
    "accounts",
    Account(),
    decide,
    apply,
    commands=[Open, Deposit, Withdraw, Transfer, Credit, Complete, Cancel],
    events=[
        Opened,
        Deposited,
        Withdrawn,
        TransferStarted,
        Credited,
        TransferCompleted,
        TransferCancelled,
    ],
    upcasters=[with_currency],
)


def transfers(event: Any) -> Iterator[Send]:
    """The saga: money that has left one account arrives at the other, or comes back."""
    match event.data:
        case TransferStarted(transfer, to, amount):
            yield Send(
                accounts,
                to,
                Credit(transfer, event.id, amount),
                refused=lambda no: [Send(accounts, event.id, Cancel(transfer, no.reason))],
            )
        case Credited(transfer, sender, _):
            yield Send(accounts, sender, Complete(transfer))
