"""Requests of one connection that are answered at once: however many, none lies on the stack of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.serving import serving
from tests.compat.asking import produce_request
from tests.compat.batches import batch
from tests.compat.wire import ErrorCode

MANY = 2_000


@pytest.mark.parametrize(
    ("topic", "error"),
    [("t", ErrorCode.none), ("nobodys", ErrorCode.unknown_topic_or_partition)],
)
def test_all_that_a_client_sends_ahead_is_answered(
    tmp_path: Path, topic: str, error: ErrorCode
) -> None:
    with serving(tmp_path / "data", durability="os") as broker, broker.wire() as wire:
        broker.create("t")
        for _ in range(MANY):
            wire.send("produce", 9, **produce_request(topic, batch()))
        answers = [wire.receive()[1].responses[0].partition_responses[0] for _ in range(MANY)]
    assert {answer.error_code for answer in answers} == {error}
