"""Groups: lag, and offsets moved only where nobody is in the way."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from headwater.client import groups
from headwater.client.errors import NotThere, RequestRefused
from headwater.client.groups import Move, Reset
from headwater.client.places import parse
from tests.client.conftest import put, until

T0 = 1_700_000_000_000


@pytest.fixture
def orders(log, topic) -> str:
    name = topic(2, retention_ms=-1)
    rows = [{"value": b"v", "partition": i % 2, "timestamp": T0 + i} for i in range(20)]
    put(log, name, rows)
    return name


def reset(log, group: str, wanted: Reset, **words) -> list[Move]:
    plan = groups.plan_reset(log, group, wanted, **words)
    groups.apply_reset(log, plan)
    return list(plan.moves)


def test_a_group_is_given_a_first_position_moved_and_deleted(log, orders):
    name = f"g-{orders}"
    with pytest.raises(NotThere, match="no committed offsets"):
        groups.plan_reset(log, name, Reset(parse("beginning")))
    assert reset(log, name, Reset(parse("beginning")), topics=[orders]) == [
        Move(orders, 0, None, 0),
        Move(orders, 1, None, 0),
    ]
    assert groups.named(log, name).lag == 20
    assert [m.after for m in reset(log, name, Reset(shift=3))] == [3, 3]
    assert [m.after for m in reset(log, name, Reset(shift=-100))] == [0, 0]
    assert [m.after for m in reset(log, name, Reset(parse("end")), partitions=[1])] == [10]
    found = groups.named(log, name)
    assert [(p.partition, p.committed, p.lag) for p in found.partitions] == [(0, 0, 10), (1, 10, 0)]
    moves = reset(log, name, Reset(parse("2023-11-14T22:13:20.005")))
    assert [m.after for m in moves] == [3, 2]
    assert name in [each.name for each in groups.listed(log)]
    groups.delete(log, name)
    with pytest.raises(NotThere, match="there is no group"):
        groups.named(log, name)


def test_a_dry_run_changes_nothing(log, orders):
    name = f"g-{orders}"
    plan = groups.plan_reset(log, name, Reset(parse("5")), [orders])
    assert len(plan.changes) == 2
    with pytest.raises(NotThere):
        groups.named(log, name)


def test_a_group_with_members_is_neither_reset_nor_deleted(log, orders):
    name = f"g-{orders}"
    consumer = Consumer(
        {
            "bootstrap.servers": log.bootstrap,
            "group.id": name,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([orders])
        until(lambda: consumer.poll(0.2) and consumer.assignment(), "the assignment")
        found = groups.named(log, name)
        assert found.is_active
        assert [each.client_id for each in found.members] == ["reader"]
        assert {p.member for p in found.partitions} == {"reader"}
        assert {p.lag for p in found.partitions} == {None}
        for attempt in (
            lambda: groups.plan_reset(log, name, Reset(parse("end")), [orders]),
            lambda: groups.delete(log, name),
        ):
            with pytest.raises(RequestRefused, match="has 1 member and cannot be") as caught:
                attempt()
            assert "stop them first" in (caught.value.hint or "")
    finally:
        consumer.close()
