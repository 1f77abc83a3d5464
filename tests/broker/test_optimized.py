"""A broker under `python -O`, which knows no assert, on a full disk: nothing that it needs was one."""

from __future__ import annotations

import ast
from pathlib import Path

import headwater
from tests.broker.processes import broker_process
from tests.broker.serving import create
from tests.compat.asking import fetch, produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

OPTIMIZED = ("-O", "-m", "tests.broker.full_disk")
NEW = {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": 9000}


def test_state_topics_that_cannot_be_made_are_an_answer_and_no_outage(data: Path) -> None:
    flag = data.with_name("full")
    with broker_process(data, program=OPTIMIZED) as broker, broker.wire() as wire:
        broker.until_said("asserts are off")
        create(wire, "t", internal_segment_bytes=1000)
        assert produce(wire, "t", batch()).error_code is ErrorCode.none
        flag.touch()
        for _ in range(3):
            refused = wire.ask("init_producer_id", 4, transactional_id="x", **NEW)
            assert refused.error_code is ErrorCode.coordinator_not_available
            assert produce(wire, "t", batch()).error_code is ErrorCode.kafka_storage_error
            row = {"name": "u", "num_partitions": 1, "replication_factor": 1}
            made = wire.ask("create_topics", 7, topics=[row], timeout=9000).topics[0]
            assert made.error_code is ErrorCode.kafka_storage_error
            asked = {"group_id": "g", "member_id": "m", "member_epoch": 0}
            wire.ask("share_group_heartbeat", 1, **asked, subscribed_topic_names=["t"])
            assert fetch(wire, "t", 0).records
        flag.unlink()
        until(lambda: produce(wire, "t", batch()).error_code is ErrorCode.none, "room")
        until(
            lambda: (
                wire.ask("init_producer_id", 4, transactional_id="x", **NEW).error_code
                is ErrorCode.none
            ),
            "the coordinator",
        )
        assert broker.stop() == 0


WORDS = ("files.", "self._topics", "catalogue.topics", "header.", "os.")
"""What an assert of the log and of the broker must not look at: disk and data."""


def test_no_assert_of_the_log_or_the_broker_looks_at_the_disk_or_at_data() -> None:
    root = Path(headwater.__file__).parent
    found = [
        f"{path.relative_to(root)}:{node.lineno}: {ast.unparse(node.test)}"
        for folder in ("log", "broker", "record")
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and any(w in ast.unparse(node.test) for w in WORDS)
    ]
    assert found == []
