"""Share groups (queues): who is in them and how far they are; asked directly, as librdkafka has no words.

Called by `groups`, which shows them beside the others. A share group has no committed offset but a start: all
before it is settled; records behind it may be settled too. Where the broker tells how many are not
(KIP-1226), that is the lag; otherwise it is all that lies between the start and the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headwater.client.exchange import asking, by_coordinator, check
from headwater.client.log import Log

LIST_GROUPS, DESCRIBE, OFFSETS, ALTER_OFFSETS = 16, 77, 90, 91
_NOT_FOUND = 69
Place = tuple[str, int]


class Member(NamedTuple):
    id: str
    client_id: str
    host: str
    partitions: tuple[Place, ...]


class ShareGroup(NamedTuple):
    """`starts` None where nothing is settled yet; `lags` as far as the broker tells."""

    name: str
    state: str
    assignor: str
    members: tuple[Member, ...]
    starts: dict[Place, int | None]
    lags: dict[Place, int]


def names(log: Log) -> list[str]:
    """Of all there are; none where the broker knows no share groups."""
    with asking(log, "listing share groups") as asked:
        found: set[str] = set()
        for node in asked.metadata([]).brokers:
            connection = asked.node(node)
            if connection.version(LIST_GROUPS) < 5:
                return []
            body = {"states_filter": [], "types_filter": ["share"]}
            answer = connection.ask(LIST_GROUPS, body)
            check(answer.error_code, "listing share groups")
            found |= {each.group_id for each in answer.groups}
        return sorted(found)


def described(log: Log, wanted: Sequence[str]) -> dict[str, ShareGroup]:
    """Those of `wanted` that there are."""
    if not wanted:
        return {}
    with asking(log, "describing share groups") as asked:
        found: dict[str, ShareGroup] = {}
        for node, mine in by_coordinator(asked, wanted).items():
            connection = asked.node(node)
            body = {"group_ids": mine, "include_authorized_operations": False}
            told = {each.group_id: each for each in connection.ask(DESCRIBE, body).groups}
            body = {"groups": [{"group_id": name, "topics": None} for name in mine]}
            offsets = {each.group_id: each for each in connection.ask(OFFSETS, body).groups}
            for name in mine:
                if int(told[name].error_code) == _NOT_FOUND:
                    continue
                check(told[name].error_code, f"describing {name}")
                found[name] = _group(told[name], offsets[name])
        return found


def move(log: Log, name: str, starts: dict[Place, int]) -> None:
    """Let the group, which has no members, go on from these offsets."""
    topics: dict[str, list[dict[str, int]]] = defaultdict(list)
    for (topic, partition), offset in starts.items():
        topics[topic].append({"partition_index": partition, "start_offset": offset})
    asked_for = [{"topic_name": topic, "partitions": each} for topic, each in topics.items()]
    with asking(log, f"resetting {name}") as asked:
        (node,) = by_coordinator(asked, [name])
        answer = asked.node(node).ask(ALTER_OFFSETS, {"group_id": name, "topics": asked_for})
        check(answer.error_code, f"resetting {name}")
        for topic in answer.responses:
            for each in topic.partitions:
                check(each.error_code, f"resetting {name} on {topic.topic_name}")


def _group(told: Any, offsets: Any) -> ShareGroup:
    members = tuple(
        Member(
            each.member_id,
            each.client_id,
            each.client_host.lstrip("/"),
            tuple(sorted(_held(each.assignment))),
        )
        for each in told.members
    )
    starts: dict[Place, int | None] = {}
    lags: dict[Place, int] = {}
    for topic in offsets.topics:
        for each in topic.partitions:
            place = (topic.topic_name, each.partition_index)
            starts[place] = each.start_offset if each.start_offset >= 0 else None
            if getattr(each, "lag", -1) >= 0:
                lags[place] = each.lag
    state = told.group_state.upper()
    return ShareGroup(told.group_id, state, told.assignor_name, members, starts, lags)


def _held(assignment: Any) -> Iterator[Place]:
    for each in assignment.topic_partitions:
        for partition in each.partitions:
            yield each.topic_name, partition


__all__ = ["ShareGroup", "described", "move", "names"]
