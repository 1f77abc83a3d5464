"""Queues are shown, moved and deleted beside the other groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headwater.client import groups
from headwater.client.errors import NotThere, RequestRefused
from headwater.client.groups import Reset
from headwater.client.log import Log
from headwater.client.places import parse
from tests.client.conftest import put, until


def a_queue(log: Log, name: str) -> None:
    """A group that reads from the beginning."""
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    for future in log.admin.incremental_alter_configs([resource]).values():
        future.result()


def share_group_is_shown_moved_and_deleted(log: Log, topic: str, name: str) -> None:
    put(log, topic, [{"value": b"%d" % number} for number in range(10)])
    a_queue(log, name)
    worker = ShareConsumer({"bootstrap.servers": log.bootstrap, "group.id": name, "log_level": 0})
    worker.subscribe([topic])
    taken: list[bytes] = []

    def all_taken() -> bool:
        taken.extend(each.value() for each in worker.poll(0.2) if each.error() is None)
        return len(taken) >= 10

    until(all_taken, "the records")
    worker.poll(0.2)  # accepts them
    assert sorted(taken) == [b"%d" % number for number in range(10)]
    shown = groups.named(log, name)
    assert shown.kind == "share" and shown.topics == [topic]
    assert [member.partitions for member in shown.members] == [((topic, 0),)]
    with pytest.raises(RequestRefused, match="has 1 member"):
        groups.plan_reset(log, name, Reset(place=parse("beginning")))
    worker.close()
    until(lambda: not groups.named(log, name).is_active, "an empty group")
    until(lambda: groups.named(log, name).lag == 0, "all settled")
    assert name in [each.name for each in groups.listed(log)]
    planned = groups.plan_reset(log, name, Reset(place=parse("4")))
    assert [move.after for move in planned.moves] == [4]
    groups.apply_reset(log, planned)
    assert groups.named(log, name).lag == 6
    groups.delete(log, name)
    with pytest.raises(NotThere):
        groups.named(log, name)


def test_a_share_group_is_shown_moved_and_deleted(log: Log, topic: Callable[..., str]):
    share_group_is_shown_moved_and_deleted(log, topic(), "queue")
