"""A record of the inbox that is no command is refused in words, whatever is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headwater.events import Aggregate
from headwater.events.commands import CommandCodec, sender_of
from headwater.events.errors import UnknownEvent
from tests.events import bank


@dataclass(frozen=True)
class Careful:
    amount: int

    def __post_init__(self) -> None:
        assert self.amount > 0


ACCOUNTS = Aggregate(
    "accounts", bank.Account(), bank.decide, bank.apply, [Careful, *bank.COMMANDS], bank.EVENTS
)
HEAD = b'{"type":"Careful","command":"c","sent_ms":0,"reply":{"partition":0,"to":"x"},'


@pytest.mark.parametrize(
    "value",
    [
        HEAD + b'"id":"a\xff","data":{"amount":1}}',
        HEAD + b'"id":"a","data":' + b"[" * 100_000,
        HEAD + b'"id":"a","data":{"amount":0}}',
    ],
    ids=["no UTF-8", "nested deeply", "refused by its own class"],
)
def test_a_command_that_cannot_be_read_is_refused_in_words(value: bytes):
    with pytest.raises(UnknownEvent, match=r"is not understood: \S"):  # the inbox sets these aside
        CommandCodec(ACCOUNTS).decode(value)
    sender_of(value)
