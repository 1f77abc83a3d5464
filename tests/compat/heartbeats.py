"""A member of a consumer group of the newer protocol, driven by hand over the wire."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from .asking import answered, find_coordinator
from .cluster import Cluster
from .waiting import until
from .wire import ErrorCode, Wire

Owned = dict[UUID, list[int]]


class Beating:
    """Says what a test tells it to, and remembers epoch and assignment as a client does."""

    def __init__(self, wire: Wire, group: str, member_id: str, *topics: str, **said: Any) -> None:
        self.wire = wire
        self.group = group
        self.id = member_id
        self.epoch = 0
        self.owned: Owned = {}
        self.said = {"subscribed_topic_names": list(topics), "rebalance_timeout": 60_000, **said}

    def ask(self, **values: Any) -> Any:
        """One heartbeat; what is not said is null."""
        request = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.said.get("instance_id"),
            "rebalance_timeout": -1,
            "topic_partitions": None,
        }
        values = {**request, **values}
        answer = answered(lambda: self.wire.ask("consumer_group_heartbeat", 1, **values))
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {
                    each.topic_id: sorted(each.partitions)
                    for each in answer.assignment.topic_partitions
                }
        return answer

    def join(self, **values: Any) -> Any:
        self.epoch, self.owned = 0, {}
        return self.ask(**{**self.said, "topic_partitions": [], **values})

    def enter(self) -> None:
        """Join; a test that does not look at the answer is in the group after this."""
        answer = self.join()
        assert answer.error_code is ErrorCode.none, answer

    def beat(self, **values: Any) -> Any:
        """Says what it owns, which is what it was told last: it has let go of all else."""
        return self.ask(topic_partitions=listed(self.owned), **values)

    def leave(self, epoch: int = -1) -> Any:
        return self.ask(member_epoch=epoch)

    @property
    def numbers(self) -> list[int]:
        """The partitions of all its topics."""
        return sorted(number for numbers in self.owned.values() for number in numbers)


def listed(owned: Owned) -> list[dict[str, Any]]:
    return [{"topic_id": id, "partitions": numbers} for id, numbers in owned.items()]


def in_group(cluster: Cluster, wire: Wire, group: str, topic: str, partitions: int = 4) -> UUID:
    """Make the topic and wait for the group's coordinator; returns the topic's id."""
    cluster.create_topic(topic, partitions)
    find_coordinator(wire, group)
    return UUID(str(cluster.topic_id(topic)))


def described(wire: Wire, group: str) -> Any:
    return wire.ask("consumer_group_describe", 1, group_ids=[group]).groups[0]


def set_group_config(wire: Wire, group: str, name: str, value: str) -> None:
    configs = [{"name": name, "config_operation": 0, "value": value}]
    resource = {"resource_type": 32, "resource_name": group, "configs": configs}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none, answer


def settled(wire: Wire, group: str, *members: Beating) -> None:
    """Let the members send heartbeats until the group is stable and has this many members."""

    def stable() -> bool:
        for member in members:
            answer = member.beat()
            assert answer.error_code is ErrorCode.none, answer
        state = described(wire, group)
        return state.group_state == "Stable" and len(state.members) == len(members)

    until(stable, f"{group} to be stable")


def subscription(topic: str, owned: list[int], generation: int) -> bytes:
    """What a classic consumer says of itself in JoinGroup, version 2."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    numbers = struct.pack(f">i{len(owned)}i", len(owned), *owned)
    has = struct.pack(">i", 1) + name + numbers if owned else struct.pack(">i", 0)
    return (
        struct.pack(">hi", 2, 1)
        + name
        + struct.pack(">i", -1)
        + has
        + struct.pack(">i", generation)
    )


def assignment(topic: str, numbers: list[int]) -> bytes:
    """What a classic leader gives to a member, version 0."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    listed_numbers = struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return struct.pack(">hi", 0, 1) + name + listed_numbers + struct.pack(">i", -1)


def partitions_in(data: bytes) -> list[int]:
    """The numbers in an assignment of one topic."""
    count = struct.unpack_from(">i", data, 2)[0]
    if count == 0:
        return []
    at = 6 + 2 + struct.unpack_from(">h", data, 6)[0]
    size = struct.unpack_from(">i", data, at)[0]
    return sorted(struct.unpack_from(f">{size}i", data, at + 4))
