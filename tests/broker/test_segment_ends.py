"""A segment that somebody has removed with all its files: readers pass over it, and the operator is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.serving import Serving, serving
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode


def produce(broker: Serving, topic: str) -> None:
    with broker.wire() as wire:
        for _ in range(9):
            part = {"index": 0, "records": batch([(b"k", b"v" * 20)])}
            rows = [{"name": topic, "partition_data": [part]}]
            answer = wire.ask("produce", 9, acks=-1, timeout=9000, topic_data=rows)
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


@pytest.mark.parametrize("clean", [True, False])
def test_it_is_named_after_the_start(tmp_path: Path, clean: bool) -> None:
    with serving(tmp_path) as broker:
        for topic in ("holed", "whole"):
            broker.create(topic, internal_segment_bytes=300)
            produce(broker, topic)
        middle = broker.log("holed").segments[1].base_offset
        behind = broker.log("holed").segments[2].base_offset
    for path in (tmp_path / "holed-0").glob(f"{middle:020d}.*"):
        path.unlink()
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    with serving(tmp_path) as broker:
        damage = broker.broker.health.damage
        where = f"holed-0/{middle}"
        until(lambda: where in damage, "the operator is told")
        assert f"from offset {middle} to {behind - 1} are missing" in damage[where]
        assert damage.keys() == {where}
