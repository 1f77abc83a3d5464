"""Regular expressions that are too much work are refused, and end nothing but themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater import regex
from tests.broker.serving import Serving, serving
from tests.compat.asking import find_coordinator
from tests.compat.wire import ErrorCode, Wire

COSTLY = "(.|a|b|c){100}.*(a|b|.){100}z"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "data") as running:
        with running.wire() as wire:
            find_coordinator(wire, "g")
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def join(wire: Wire, expression: str, member: str = "m") -> Any:
    return wire.ask(
        "consumer_group_heartbeat",
        1,
        group_id="g",
        member_id=member,
        rebalance_timeout=60_000,
        subscribed_topic_regex=expression,
        subscribed_topic_names=None,
        topic_partitions=[],
    )


def test_an_expression_that_is_too_much_work_is_refused(
    broker: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("b" * 200)
    monkeypatch.setattr(regex, "WORK_S", 0.0)
    answer = join(wire, COSTLY)
    monkeypatch.undo()
    assert answer.error_code is ErrorCode.invalid_regular_expression
    assert "too much work" in answer.error_message
    assert join(wire, "b+").error_code is ErrorCode.none


def test_an_expression_that_becomes_too_much_work_keeps_its_topics(
    broker: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("b" * 200)
    joined = join(wire, "b.*")
    assert joined.error_code is ErrorCode.none
    monkeypatch.setattr(regex, "WORK_S", 0.0)
    broker.create("b" * 201)
    answer = wire.ask(
        "consumer_group_heartbeat",
        1,
        group_id="g",
        member_id="m",
        member_epoch=joined.member_epoch,
        rebalance_timeout=-1,
        subscribed_topic_regex=None,
        subscribed_topic_names=None,
        topic_partitions=None,
    )
    assert answer.error_code is ErrorCode.none, answer


def test_the_names_of_all_transactions_share_the_bound(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regex, "WORK_S", 0.0)
    for number in range(8):
        name = "x" * 3000 + str(number)
        wire.ask("init_producer_id", 4, transactional_id=name, transaction_timeout=60_000)
    few = wire.ask("list_transactions", 2, transactional_id_pattern="none")
    assert few.error_code is ErrorCode.invalid_regular_expression
    assert (
        len(wire.ask("list_transactions", 2, transactional_id_pattern="").transaction_states) == 8
    )
