"""Readers of committed data whose read from the disk is overtaken: by retention, by compaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import fetch_request, produce
from tests.compat.batches import batch, read_batches
from tests.compat.sharing import Sharer
from tests.compat.transacting import Transactor
from tests.compat.wire import ErrorCode, Wire

LOG = "t-0/*.log"


@pytest.fixture
def disk() -> HandDisk:
    return HandDisk()


@pytest.fixture
def broker(data: Path, disk: HandDisk) -> Iterator[Serving]:
    """`t`: five records of an aborted transaction and its marker, sealed; three plain ones behind."""
    with serving(data, {"log.cleanup.policy": "delete"}, files=disk) as running:
        running.create("t")
        with running.wire() as wire:
            one = Transactor(wire, "one").init()
            one.write("t", *[b"never"] * 5)
            one.end(commit=False)
            running.call(lambda: running.broker.topics.partitions["t", 0].roll(1))
            produce(wire, "t", batch([(None, b"a")] * 3))
        disk.cold = LOG
        yield running


def overtake(broker: Serving) -> None:
    """What retention does on the event loop."""
    log = broker.log("t")
    broker.call(lambda: log.drop_front(1))


def test_a_fetch_that_retention_overtakes_still_names_the_aborted(
    broker: Serving, disk: HandDisk
) -> None:
    with broker.wire() as wire:
        with disk.held("read", name=LOG) as held:
            wire.send("fetch", 12, **fetch_request("t", isolation_level=1, max_wait=0))
            held.until_reached()
            overtake(broker)
        answer = wire.receive()[1].responses[0].partitions[0]
        assert answer.error_code is ErrorCode.none
        first = read_batches(answer.records)[0]
        named = {(each.producer_id, each.first_offset) for each in answer.aborted_transactions}
        assert (first.producer_id, first.base_offset) in named


def is_committed(wire: Wire, group: str) -> None:
    change = {"name": "share.isolation.level", "config_operation": 0, "value": "read_committed"}
    start = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    asked = {"resource_type": 32, "resource_name": group, "configs": [change, start]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
    assert answer.responses[0].error_code is ErrorCode.none


def test_a_share_fetch_that_retention_overtakes_delivers_nothing_aborted(
    broker: Serving, disk: HandDisk
) -> None:
    topic_id = broker.broker.catalogue.topics["t"].id
    with broker.wire() as wire:
        is_committed(wire, "g")
        sharer = Sharer(wire, "g", topic_id)
        sharer.join("t")
        with disk.held("read", name=LOG) as held:
            wire.send("share_fetch", 1, **share_request(sharer))
            held.until_reached()
            overtake(broker)
        rows = wire.receive()[1].responses
        acquired = [each for row in rows for p in row.partitions for each in p.acquired_records]
        assert not [each for each in acquired if each.first_offset < 5], acquired


def share_request(sharer: Sharer) -> dict[str, object]:
    return {
        "group_id": sharer.group,
        "member_id": sharer.member_id,
        "share_session_epoch": 0,
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "max_records": 500,
        "batch_size": 500,
        "topics": [
            {
                "topic_id": sharer.topic_id,
                "partitions": [{"partition_index": 0, "acknowledgement_batches": []}],
            }
        ],
    }
