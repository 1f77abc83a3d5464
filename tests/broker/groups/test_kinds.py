"""A group is of one kind for as long as it is there: no commit makes a second one of a share group's name."""

from __future__ import annotations

from pathlib import Path

from tests.broker.serving import serving
from tests.compat.asking import find_coordinator
from tests.compat.sharing import Sharer
from tests.compat.transacting import Transactor
from tests.compat.wire import ErrorCode


def test_a_commit_under_the_name_of_a_share_group_makes_no_other_group(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        topic_id = broker.create("t")
        Sharer(wire, "queue", topic_id).join("t")
        parts = [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]
        asked = [{"name": "t", "partitions": parts}]
        values = {"group_id": "queue", "generation_id_or_member_epoch": -1}
        answer = wire.ask("offset_commit", 8, topics=asked, **values)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.group_id_not_found
        producer = Transactor(wire, "id").init()
        find_coordinator(wire, "queue")
        assert producer.send_offsets("queue", "t", {0: 0}) is ErrorCode.group_id_not_found
        found = wire.ask("list_groups", 5, states_filter=[], types_filter=[]).groups
        assert [(each.group_id, each.group_type) for each in found] == [("queue", "share")]
    with serving(data) as broker, broker.wire() as wire:
        Sharer(wire, "queue", topic_id).join("t")
