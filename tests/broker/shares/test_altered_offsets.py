"""A share group is told to begin elsewhere: it then reads what is written, wherever that is."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.broker.serving import Serving, create, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

PLACE = {"partition_index": 0}
LIMITS = {"max_wait": 500, "min_bytes": 1, "max_bytes": 10**6, "max_records": 9, "batch_size": 9}


@pytest.mark.parametrize("asked", [4, 1_000_000, 2**63 - 1])
def test_a_group_that_is_sent_beyond_the_end_begins_at_the_end(data: Path, asked: int) -> None:
    with serving(data) as broker, broker.wire() as wire:
        topic_id = create(wire, "t")
        for _ in range(3):
            assert produce(wire, "t", batch()).error_code is ErrorCode.none
        moved = {"topic_name": "t", "partitions": [{**PLACE, "start_offset": asked}]}
        wire.ask("alter_share_group_offsets", 0, group_id="g", topics=[moved])
        groups = [{"group_id": "g", "topics": None}]
        answer = wire.ask("describe_share_group_offsets", 0, groups=groups)
        assert answer.groups[0].topics[0].partitions[0].start_offset == 3
        read_next(broker, wire, topic_id)


def read_next(broker: Serving, wire: Wire, topic_id: Any) -> None:
    """A member that comes now gets the next record."""
    member, epoch = str(uuid.uuid4()), 0
    names = {"subscribed_topic_names": ["t"], "rack_id": None}
    beat = {"group_id": "g", "member_id": member, "member_epoch": 0, **names}
    assert wire.ask("share_group_heartbeat", 1, **beat).error_code is ErrorCode.none
    found: list[bytes] = []

    def fetched() -> bool:
        nonlocal epoch
        if epoch == 1:
            assert produce(wire, "t", batch()).error_code is ErrorCode.none
        topics = [{"topic_id": topic_id, "partitions": [PLACE]}] if not epoch else []
        session = {"member_id": member, "share_session_epoch": epoch, "topics": topics}
        answer = wire.ask(
            "share_fetch", 1, group_id="g", forgotten_topics_data=[], **LIMITS, **session
        )
        epoch += 1
        found.extend(p.records for t in answer.responses for p in t.partitions if p.records)
        return bool(found)

    until(fetched, "the next record")
    assert epoch >= 2, "what was there before is not delivered"
    assert broker.log("t").next_offset == 4
