"""A row or message that is no event goes to the dead letters, whatever is in it, and stops no capture."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.capture.outbox import OPTIONAL, REQUIRED, Router

ROUTER = Router("shop", "outbox", [*REQUIRED, *OPTIONAL])
EVENT = {"id": "1", "aggregatetype": "a", "aggregateid": "1", "type": "t", "payload": "p"}


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        json.dumps(EVENT | {"headers": "[" * 100_000}).encode(),
        json.dumps(EVENT).encode()[:-1] + b',"partition":1e999}',
    ],
    ids=["nested deeply", "headers nested deeply", "partition without end"],
)
def test_a_message_that_is_no_event_is_a_dead_letter(content: bytes):
    assert ROUTER.message(content)[0] == ROUTER.dead_letters


@pytest.mark.parametrize("more", [("[" * 100_000, None, None), (None, None, float("inf"))])
def test_a_row_that_is_no_event_is_a_dead_letter(more: tuple[Any, ...]):
    assert ROUTER.inserted([*EVENT.values(), *more])[0] == ROUTER.dead_letters


def test_a_header_name_that_is_no_text_is_a_dead_letter():
    content = json.dumps(EVENT | {"headers": {"\ud800": "x"}}).encode()
    topic, _, _, headers, _ = ROUTER.message(content)
    assert topic == ROUTER.dead_letters or all(name.encode() for name, _ in headers)


def test_a_row_whose_texts_are_no_characters_is_a_dead_letter():
    row = [*(EVENT | {"aggregateid": "a\ud800"}).values(), None, None, None]
    for topic, key, value, _, _ in (ROUTER.inserted(row), ROUTER.updated(row)):
        assert (topic, key) == (ROUTER.dead_letters, b"a?")
        assert json.loads(value or b"")["payload"] == "p"
