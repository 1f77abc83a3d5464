"""Events as lines of JSON, of every version and every kind of model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from headwater.events import Aggregate, upcaster
from headwater.events.codec import Codec, Meta
from headwater.events.commands import Asked, CommandCodec, ReplyTo
from headwater.events.errors import BadDefinition, UnknownEvent


@dataclass(frozen=True)
class Pay:
    amount: int


class Paid(msgspec.Struct, frozen=True):
    amount: int
    currency: str


class Checked(BaseModel):
    by: str
    tags: list[str] = []


@upcaster("Paid", 1)
def with_currency(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "currency": "EUR"}


@upcaster("Paid", 2)
def in_cents(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "amount": data["amount"] * 100}


@upcaster("Approved", 1, to="Checked")
def approved_is_checked(data: dict[str, Any]) -> dict[str, Any]:
    return {"by": data["who"]}


def nothing(*_: Any) -> Any:
    return None


def invoices(upcasters: Any = (with_currency, in_cents, approved_is_checked)) -> Aggregate[int]:
    return Aggregate("invoices", 0, nothing, nothing, [Pay], [Paid, Checked], upcasters)


def test_an_event_is_one_line_that_says_everything():
    codec = Codec(invoices(()))
    value = codec.encode(Paid(3, "EUR"), "i-1", 7, "c-1", Meta(who="ann", why="due"))
    assert value == (
        b'{"type":"Paid","id":"i-1","n":7,"command":"c-1","data":{"amount":3,"currency":"EUR"},'
        b'"who":"ann","why":"due"}\n'
    )
    assert codec.decode(value, 1)[0].data == Paid(3, "EUR")


def test_dataclasses_structs_and_pydantic_models_come_back_as_they_went():
    codec = Codec(invoices())
    events = [Paid(3, "EUR"), Checked(by="bob\nlee", tags=["x"])]
    lines = b"".join(codec.encode(each, "i", n, "c") for n, each in enumerate(events, 1))
    assert [each.data for each in codec.decode(lines, 2)] == events


def test_old_versions_are_lifted_one_step_after_the_other():
    codec = Codec(invoices())
    lines = (
        b'{"type":"Paid","id":"i","n":1,"command":"a","data":{"amount":3},"who":"ann"}\n'
        b'{"type":"Paid.v2","id":"i","n":2,"command":"b","data":{"amount":4,"currency":"USD"}}\n'
        b'{"type":"Paid.v3","id":"i","n":3,"command":"c","data":{"amount":5,"currency":"EUR"}}\n'
        b'{"type":"Approved","id":"i","n":4,"command":"d","data":{"who":"eve"}}\n'
    )
    found = codec.decode(lines, 4)
    assert [each.data for each in found] == [
        *(Paid(300, "EUR"), Paid(400, "USD"), Paid(5, "EUR")),
        Checked(by="eve"),
    ]
    assert found[0].who == "ann" and [each.n for each in found] == [1, 2, 3, 4]
    assert b'"type":"Paid.v3"' in codec.encode(Paid(1, "EUR"), "i", 5, "e")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"type":"Lost","id":"i","n":1,"command":"c","data":{}}\n', "not understood"),
        (b'{"type":"Paid.v9","id":"i","n":1,"command":"c","data":{}}\n', "not understood"),
        (b'{"type":"Paid.v3","id":"i","n":1,"command":"c","data":{}}\n', "not understood"),
        (b'{"type":"Paid.v2","id":"i","n":1,"command":"c","data":{"amount":1}}\n', "not become"),
    ],
)
def test_an_event_that_nobody_knows_is_an_error_and_not_skipped(line: bytes, said: str):
    with pytest.raises(UnknownEvent, match=said):
        Codec(invoices()).decode(line, 1)


def test_upcasters_must_lead_from_the_first_version_to_a_declared_event():
    with pytest.raises(BadDefinition, match="versions \\[2\\]"):
        invoices((in_cents,))
    with pytest.raises(BadDefinition, match="becomes Gone"):
        invoices((upcaster("Old", 1, to="Gone")(dict),))
    with pytest.raises(BadDefinition, match="two events are named Paid"):
        Aggregate("x", 0, nothing, nothing, [Pay], [Paid, Paid])
    with pytest.raises(BadDefinition, match="cannot be a topic"):
        Aggregate("a/b", 0, nothing, nothing, [Pay], [Paid])


def test_a_command_travels_with_its_meta_and_its_reply_address():
    codec = CommandCodec(invoices())
    asked = Asked("i-1", Pay(3), "c-1", 17, Meta("ann", "due", "x", "y"), 4)
    assert codec.decode(codec.encode(asked, ReplyTo(2, "me"))) == (asked, ReplyTo(2, "me"))
    for bad in (b"", b"{}", b'{"type":"Rob","id":"i","command":"c","data":{},"sent_ms":1}'):
        with pytest.raises(UnknownEvent):
            codec.decode(bad)


def test_the_fold_has_another_fingerprint_when_its_code_changes():
    def plus(state: int, event: Any) -> int:
        return state + 1

    def minus(state: int, event: Any) -> int:
        return state - 1

    def made(apply: Any, **options: Any) -> str:
        return Aggregate("x", 0, nothing, apply, [Pay], [Paid], **options).fingerprint

    assert made(plus) == made(plus)
    assert len({made(plus), made(minus), made(plus, fold=2)}) == 3
