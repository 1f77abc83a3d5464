"""Seats of a theatre: two people, one seat, never sold twice.

The seat is the aggregate, so the seat is what must be unique: its commands are decided one after another,
by one owner. A reservation is tentative first (`Held`) and then confirmed (`Sold`), when another aggregate,
the payment, has gone through. The saga between the two undoes what cannot be done by saying so: `Released`,
`Refunded`; nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwater.events import Aggregate, Refused, Send

PRICE = 40


@dataclass(frozen=True)
class Hold:
    reservation: str
    by: str
    card: str


@dataclass(frozen=True)
class Confirm:
    reservation: str


@dataclass(frozen=True)
class Release:
    reservation: str
    why: str


@dataclass(frozen=True)
class Held:
    reservation: str
    by: str
    card: str


@dataclass(frozen=True)
class Sold:
    reservation: str
    by: str


@dataclass(frozen=True)
class Released:
    reservation: str
    why: str


@dataclass(frozen=True)
class Seat:
    status: str = "free"
    reservation: str = ""
    by: str = ""


def decide_seat(seat: Seat, command: Any) -> Any:
    mine = seat.reservation == command.reservation
    match command:
        case Hold(reservation, by, card):
            return Held(reservation, by, card) if seat.status == "free" else Refused("it is taken")
        case Confirm(reservation):
            if mine and seat.status == "sold":
                return None
            return Sold(reservation, seat.by) if mine else Refused("it is not held for you")
        case Release(reservation, why):
            if mine and seat.status == "sold":
                return Refused("it is sold")
            return Released(reservation, why) if mine else None


def apply_seat(seat: Seat, event: Any) -> Seat:
    match event:
        case Held(reservation, by, _):
            return Seat("held", reservation, by)
        case Sold(reservation, by):
            return Seat("sold", reservation, by)
        case Released():
            return Seat()
    raise TypeError(event)


seats = Aggregate(
    "seats", Seat(), decide_seat, apply_seat, [Hold, Confirm, Release], [Held, Sold, Released]
)


@dataclass(frozen=True)
class Charge:
    seat: str
    card: str
    amount: int


@dataclass(frozen=True)
class Refund:
    why: str


@dataclass(frozen=True)
class Charged:
    seat: str
    amount: int


@dataclass(frozen=True)
class Refunded:
    amount: int
    why: str


@dataclass(frozen=True)
class Payment:
    amount: int = 0
    refunded: bool = False


def decide_payment(payment: Payment, command: Any) -> Any:
    match command:
        case Charge(seat, card, amount):
            if card == "declined":
                return Refused("the card was declined")
            return Charged(seat, amount)
        case Refund(why):
            return None if payment.refunded else Refunded(payment.amount, why)


def apply_payment(payment: Payment, event: Any) -> Payment:
    match event:
        case Charged(_, amount):
            return Payment(amount)
        case Refunded(amount, _):
            return Payment(amount, True)
    raise TypeError(event)


payments = Aggregate(
    "payments", Payment(), decide_payment, apply_payment, [Charge, Refund], [Charged, Refunded]
)


def paying(event: Any) -> Iterator[Send]:
    """A held seat is to be paid; if that fails it is free again."""
    match event.data:
        case Held(reservation, _, card):
            yield Send(
                payments,
                reservation,
                Charge(event.id, card, PRICE),
                refused=lambda no: [Send(seats, event.id, Release(reservation, no.reason))],
            )


def confirming(event: Any) -> Iterator[Send]:
    """A paid seat is sold; if that cannot be, the money goes back."""
    match event.data:
        case Charged(seat, _):
            yield Send(
                seats,
                seat,
                Confirm(event.id),
                refused=lambda no: [Send(payments, event.id, Refund(no.reason))],
            )
