"""Consumer groups in `__consumer_offsets`: Apache Kafka's own formats (KIP-848), byte for byte.

`snapshot` writes them, `replay` reads them back at start, and so do Kafka's formatters. Keys begin
with an int16 that says what the record is, and use plain strings; values begin with version 0 and
are flexible (compact lengths, tagged fields at the end of every struct).

    key                          fields           value
    3  group                     group            epoch int32 | tag 0: metadata_hash int64
    4  partition metadata        group            (Kafka before 4.1; we only read over it)
    5  member                    group, member    instance_id? | rack_id? | client_id | client_host
                                                  | topic names [] | topic regex? | rebalance_timeout
                                                  int32 | server_assignor? | tag 0: classic side
                                                  (marker int8 = 1 | session_timeout int32
                                                  | protocols [] of name, metadata bytes)
    6  target assignment         group            epoch int32 | tag 0: timestamp int64
    7  target of a member        group, member    [] of topic_id uuid, partitions [] int32
    8  current assignment        group, member    epoch int32 | previous_epoch int32 | state int8
                                                  | assigned [] | revoking [], each of topic_id uuid,
                                                  partitions [] int32, tag 0: epochs [] int32
    16 regular expression        group, regex     topics [] | version int64 | timestamp int64

A value of None removes its key. A member must be written before its assignments: Kafka's replay
wants to know of a thing before it hears what it has.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.broker.groups.consumer.member import ClassicSide, Held, Partitions
from headwater.broker.groups.modern.flexible import ints, string, tags
from headwater.broker.groups.modern.member import MemberState
from headwater.broker.groups.modern.records import Kinds
from headwater.broker.groups.records import uvarint

GROUP, PARTITIONS, MEMBER, TARGET, MEMBER_TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
KINDS = Kinds(GROUP, TARGET, MEMBER, MEMBER_TARGET, CURRENT, (PARTITIONS,), (REGEX,))


@dataclass(frozen=True, slots=True)
class MemberValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: frozenset[str]
    topic_regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicSide | None


@dataclass(frozen=True, slots=True)
class CurrentValue:
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Held
    revoking: Held


@dataclass(frozen=True, slots=True)
class RegexValue:
    topics: frozenset[str]
    version: int
    timestamp: int


# ---- writing -------------------------------------------------------------------------------------


def group_value(epoch: int, metadata_hash: int) -> bytes:
    found = tags(struct.pack(">q", metadata_hash)) if metadata_hash else tags()
    return struct.pack(">hi", 0, epoch) + found


def member_value(value: MemberValue) -> bytes:
    names = sorted(value.topic_names)
    return b"".join(
        (
            b"\0\0",
            string(value.instance_id),
            string(value.rack_id),
            string(value.client_id),
            string(value.client_host),
            uvarint(len(names) + 1),
            *(string(name) for name in names),
            string(value.topic_regex),
            struct.pack(">i", value.rebalance_timeout_ms),
            string(value.assignor),
            tags(_classic(value.classic)) if value.classic else tags(),
        )
    )


def member_target_value(partitions: Partitions) -> bytes:
    parts = [b"\0\0", uvarint(len(partitions) + 1)]
    for topic_id, numbers in sorted(partitions.items()):
        parts += [topic_id.bytes, ints(sorted(numbers)), tags()]
    return b"".join((*parts, tags()))


def current_value(value: CurrentValue) -> bytes:
    head = struct.pack(">hiib", 0, value.epoch, value.previous_epoch, value.state)
    return head + _held(value.assigned) + _held(value.revoking) + tags()


def regex_value(value: RegexValue) -> bytes:
    topics = sorted(value.topics)
    names = b"".join(string(name) for name in topics)
    times = struct.pack(">qq", value.version, value.timestamp)
    return b"\0\0" + uvarint(len(topics) + 1) + names + times + tags()


def _classic(side: ClassicSide) -> bytes:
    parts = [struct.pack(">bi", 1, side.session_timeout_ms), uvarint(len(side.protocols) + 1)]
    for name, metadata in side.protocols:
        parts += [string(name), uvarint(len(metadata) + 1), metadata, tags()]
    return b"".join((*parts, tags()))


def _held(held: Held) -> bytes:
    parts = [uvarint(len(held) + 1)]
    for topic_id, partitions in sorted(held.items()):
        numbers = sorted(partitions)
        epochs = ints([partitions[number] for number in numbers])
        parts += [topic_id.bytes, ints(numbers), tags(epochs)]
    return b"".join(parts)
