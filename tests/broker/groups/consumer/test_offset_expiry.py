"""Offsets of a group of the newer protocol expire once it has been empty for long, not once it is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker.internal_topics import CONSUMER_OFFSETS
from headwater.log.config import DAY_MS
from headwater.testing import ManualClock
from tests.broker.serving import Serving, create, serving
from tests.compat.heartbeats import Beating
from tests.compat.wire import ErrorCode, Wire

MINUTE_MS = 60_000
RETENTION_MS = 7 * DAY_MS
"""offsets.retention.minutes"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(tmp_path: Path, clock: ManualClock) -> Iterator[Serving]:
    settings = {"group.consumer.session.timeout.ms": 45_000}
    with serving(tmp_path / "data", settings, clock=clock) as running:
        with running.wire() as wire:
            create(wire, "t")
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def commit(wire: Wire, member: Beating) -> None:
    parts = [{"partition_index": 0, "committed_offset": 5}]
    answer = wire.ask(
        "offset_commit",
        9,
        group_id="g",
        generation_id_or_member_epoch=member.epoch,
        member_id=member.id,
        topics=[{"name": "t", "partitions": parts}],
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def committed(wire: Wire) -> int:
    asked = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    (group,) = wire.ask("offset_fetch", 8, groups=[asked]).groups
    return int(group.topics[0].partitions[0].committed_offset)


def look(broker: Serving) -> None:
    """What that takes away is gone afterwards."""
    broker.call(broker.broker.groups.removal.expire)
    for (topic, _), partition in broker.broker.topics.partitions.items():
        if topic == CONSUMER_OFFSETS:
            broker.run(partition.flushed())


def quiet_group(broker: Serving, wire: Wire, clock: ManualClock) -> Beating:
    """It has committed once, and nothing has come for it for eight days."""
    member = Beating(wire, "g", "m", "t")
    assert member.join().error_code is ErrorCode.none
    commit(wire, member)
    clock.advance(RETENTION_MS + DAY_MS)
    assert member.join().error_code is ErrorCode.none
    look(broker)
    assert committed(wire) == 5
    return member


def test_a_consumer_of_a_quiet_topic_that_is_restarted_finds_its_offset(
    broker: Serving, wire: Wire, clock: ManualClock
) -> None:
    quiet_group(broker, wire, clock).leave()
    clock.advance(MINUTE_MS)
    look(broker)
    assert committed(wire) == 5


def test_an_offset_goes_when_its_group_has_been_empty_for_long_enough(
    broker: Serving, wire: Wire, clock: ManualClock
) -> None:
    quiet_group(broker, wire, clock).leave()
    look(broker)
    clock.advance(RETENTION_MS - MINUTE_MS)
    look(broker)
    assert committed(wire) == 5
    clock.advance(MINUTE_MS)
    look(broker)
    assert committed(wire) == -1
