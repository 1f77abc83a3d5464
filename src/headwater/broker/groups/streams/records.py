"""Streams groups in `__consumer_offsets`: Apache Kafka's own formats (KIP-1071), byte for byte.

`changes` writes them, `replay` reads them back at start, and so do Kafka's formatters. Keys begin with
an int16 that says what the record is, and use plain strings; values begin with version 0 and are
flexible (compact lengths, tagged fields at the end of every struct).

    key                          fields           value
    17 group                     group            epoch int32 | metadata_hash int64
                                                  | tag 0: validated topology epoch int32 (-1: none)
                                                  | tag 1: assignment configs [] of key, value
    19 member                    group, member    instance_id? | rack_id? | client_id | client_host
                                                  | rebalance_timeout int32 | topology_epoch int32
                                                  | process_id | endpoint? (int8 1 | host | port
                                                  uint16) | client tags [] of key, value
    20 target assignment         group            epoch int32 | tag 0: timestamp int64
    21 target of a member        group, member    active [] | standby [] | warm-up [], each of
                                                  subtopology, numbers [] int32
    22 current assignment        group, member    epoch int32 | previous_epoch int32 | state int8
                                                  | active [] | standby [] | warm-up [], and the same
                                                  to be revoked, each of subtopology, numbers []
                                                  int32, tag 0: epochs [] int32 (of active ones)
    23 topology                  group            epoch int32 | subtopologies [] of id, sources [],
                                                  regexes [], changelogs [], sinks [], repartition
                                                  topics [], copartition groups [] (three [] int16);
                                                  a topic is name, partitions int32,
                                                  replication_factor int16, configs [] of key, value

A value of None removes its key. A member must be written before its assignments: Kafka's replay wants to
know of a thing before it hears what it has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.broker.groups.modern.flexible import array, ints, string, strings, tagged, tags
from headwater.broker.groups.modern.records import Kinds
from headwater.broker.groups.records import uvarint
from headwater.broker.groups.streams.member import Assignment, Held, StreamsMember, Tasks

if TYPE_CHECKING:  # a topology asks here how long its record is
    from headwater.broker.groups.streams.topology import Subtopology, TopicInfo, Topology

GROUP, MEMBER, TARGET, MEMBER_TARGET, CURRENT, TOPOLOGY = 17, 19, 20, 21, 22, 23
KINDS = Kinds(GROUP, TARGET, MEMBER, MEMBER_TARGET, CURRENT, (TOPOLOGY,))
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class GroupValue:
    epoch: int
    metadata_hash: int
    validated_epoch: int = -1
    configs: tuple[tuple[str, str], ...] = ()


def group_value(value: GroupValue) -> bytes:
    found = {}
    if value.validated_epoch != -1:
        found[0] = struct.pack(">i", value.validated_epoch)
    if value.configs:
        found[1] = _pairs(value.configs)
    return struct.pack(">hiq", 0, value.epoch, value.metadata_hash) + tagged(found)


def member_value(member: StreamsMember) -> bytes:
    endpoint = b"\xff"
    if member.endpoint is not None:
        host, port = member.endpoint
        endpoint = b"\x01" + string(host) + struct.pack(">H", port) + tags()
    return b"".join(
        (
            b"\0\0",
            string(member.instance_id),
            string(member.rack_id),
            string(member.client_id),
            string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.topology_epoch),
            string(member.process_id),
            endpoint,
            _pairs(member.tags),
            tags(),
        )
    )


def member_target_value(target: Assignment) -> bytes:
    return b"\0\0" + b"".join(map(_tasks, target)) + tags()


def current_value(member: StreamsMember) -> bytes:
    head = struct.pack(">hiib", 0, member.epoch, member.previous_epoch, member.state)
    roles = [
        _held(held, with_epochs=role == 0)
        for holding in (member.assigned, member.revoking)
        for role, held in enumerate(holding)
    ]
    return head + b"".join(roles) + tags()


def topology_value(topology: Topology) -> bytes:
    found = array([_subtopology(each) for each in topology.subtopologies])
    return struct.pack(">hi", 0, topology.epoch) + found + tags()


def _subtopology(each: Subtopology) -> bytes:
    groups = [
        _shorts(group.sources) + _shorts(group.regexes) + _shorts(group.repartitions) + tags()
        for group in each.copartitions
    ]
    return b"".join(
        (
            string(each.id),
            strings(each.sources),
            strings(each.regexes),
            array([_topic(topic) for topic in each.changelogs]),
            strings(each.sinks),
            array([_topic(topic) for topic in each.repartitions]),
            array(groups),
            tags(),
        )
    )


def _topic(topic: TopicInfo) -> bytes:
    numbers = struct.pack(">ih", topic.partitions, topic.replication_factor)
    return string(topic.name) + numbers + _pairs(topic.configs) + tags()


def _tasks(tasks: Tasks) -> bytes:
    return array([string(id) + ints(sorted(tasks[id])) + tags() for id in sorted(tasks)])


def _held(held: Held, with_epochs: bool) -> bytes:
    items = []
    for subtopology in sorted(held):
        numbers = sorted(held[subtopology])
        epochs = ints([held[subtopology][number] for number in numbers]) if with_epochs else None
        items.append(string(subtopology) + ints(numbers) + tags(epochs))
    return array(items)


def _pairs(pairs: Pairs) -> bytes:
    return array([string(key) + string(value) + tags() for key, value in pairs])


def _shorts(numbers: Sequence[int]) -> bytes:
    return uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}h", *numbers)
