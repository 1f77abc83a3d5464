"""headwater alone: a consumer group goes on over stops and kill -9 as if nothing had been."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from .cluster import Cluster, headwater_process
from .confluent import poll_until, producer, send
from .heartbeats import described
from .test_confluent_consumer_protocol import member, parts, shared
from .waiting import until


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_members_keep_epochs_and_partitions_over_a_restart(
    tmp_path: Path, topic: str, group: str, how: signal.Signals
) -> None:
    data = tmp_path / "data"
    with headwater_process(data) as (bootstrap, process):
        cluster = Cluster("headwater", bootstrap)
        cluster.create_topic(topic, 4)
        members = [member(cluster, group, topic) for _ in range(2)]
        poll_until(members, shared(members, 4), "both to share")
        before = state(cluster, group)
        had = [parts(each) for each in members]
        process.send_signal(how)
        assert process.wait(60) in (0, -signal.SIGKILL)

    with headwater_process(data, int(bootstrap.rpartition(":")[2])) as (bootstrap, process):
        cluster = Cluster("headwater", bootstrap)
        assert state(cluster, group) == before
        made = producer(cluster)
        for partition in range(4):
            send(made, topic, [b"after"], partition=partition)
        seen: set[int] = set()

        def all_read() -> bool:
            for each in members:
                message = each.poll(0.05)
                if message is not None and not message.error():
                    seen.add(message.partition())
            return len(seen) == 4

        until(all_read, "the records that came after the restart")
        assert [parts(each) for each in members] == had
        assert state(cluster, group) == before, "no rebalance"
        for each in members:
            each.close()


def state(cluster: Cluster, group: str) -> Any:
    with cluster.wire() as wire:
        found = described(wire, group)
    members = sorted((m.member_id, m.member_epoch, m.assignment) for m in found.members)
    return found.group_state, found.group_epoch, members
