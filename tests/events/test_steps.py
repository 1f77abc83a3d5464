"""What a saga's step is called follows from what it sends to whom; and what tells commands apart."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import msgspec

from headwater.events import command_fingerprint
from headwater.events.command_fingerprint import Step, Steps
from headwater.events.personal import Personal


@dataclass(frozen=True)
class Credit:
    amount: float


@dataclass(frozen=True)
class Register:
    name: Personal


def names(*sent: tuple[str, str, Any]) -> list[Step]:
    steps = Steps(Step("saga", "saga"))
    return [steps.next(*each) for each in sent]


def test_steps_keep_their_names_when_others_come_before_them():
    credit, fee = ("accounts", "x", Credit(5)), ("accounts", "x", Credit(1))
    (alone,) = names(credit)
    first, second = names(fee, credit)
    assert second.path == alone.path != first.path
    assert [each.former for each in (alone, first, second)] == ["saga.0", "saga.0", "saga.1"]


def test_equal_steps_are_two_and_other_targets_are_others():
    credit = Credit(5)
    found = names(
        *(("a", "x", credit), ("a", "x", credit), ("a", "y", credit), ("b", "x", credit)),
        *(("a", "x", object()), ("a", "x", object())),
    )
    assert len({each.path for each in found}) == 6
    assert found[0].refused == Step(f"{found[0].path}.no", "saga.0.no")


def test_a_command_has_one_fingerprint_wherever_it_is():
    of = command_fingerprint.of
    assert of(Credit(5)) == of(Credit(5.0)) == of(msgspec.json.decode(b'{"amount":5}', type=Credit))
    assert of(Credit(5)) != of(Credit(6))
    assert of(Register(Personal("alice", "k:abc"))) == of(Register(Personal("alice", "k:def")))
    assert of(Register(Personal("alice", "k:abc"))) != of(Register(Personal("bob", "k:abc")))
    odd = 'a "quoted"\\one'
    assert of(Register(Personal(odd, "k:abc"))) == of(Register(Personal(odd, "k:def")))
    assert of(object()) == ""


def test_a_field_of_a_command_counts_whatever_its_name():
    of = command_fingerprint.of
    ship = make_dataclass("Ship", [("sealed", str), ("subject", str), ("weight", int)])
    assert of(ship("yes", "a", 1)) != of(ship("no", "a", 1))
    assert of(ship("k:abc", "a", 1)) != of(ship("k:def", "a", 1))


def test_a_new_field_with_a_default_makes_no_other_command():
    of = command_fingerprint.of
    before = make_dataclass("Pay", [("amount", int)])
    after = make_dataclass("Pay", [("amount", int), ("note", str, "")])
    assert of(before(3)) == of(after(3)) != of(after(3, "x"))
    old = msgspec.defstruct("Pay", [("amount", int)])
    new = msgspec.defstruct(
        "Pay", [("amount", int), ("tags", list[str], msgspec.field(default_factory=list))]
    )
    assert of(old(3)) == of(new(3)) != of(new(3, ["x"]))
