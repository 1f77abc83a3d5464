"""Share groups (queues): who is in them and how far they are; asked directly, as librdkafka has no words.

Called by `groups`, which shows them beside the others. A share group has no committed offset but a start: all
before it is settled; records behind it may be settled too. Where the broker tells how many are not
(KIP-1226), that is the lag; otherwise it is all that lies between the start and the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.client.errors import BrokerUnreachable, RequestRefused
from headwater.client.log import Log

if TYPE_CHECKING:
    from headwater.client.cluster import Cluster

LIST_GROUPS, FIND_COORDINATOR, DESCRIBE, OFFSETS, ALTER_OFFSETS = 16, 10, 77, 90, 91
_GROUP_KEY = 0
_NONE, _NOT_FOUND = 0, 69
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
    with _asking(log, "listing share groups") as asked:
        found: set[str] = set()
        for node in asked.metadata([]).brokers:
            connection = asked.node(node)
            if connection.version(LIST_GROUPS) < 5:
                return []
            body = {"states_filter": [], "types_filter": ["share"]}
            answer = connection.ask(LIST_GROUPS, body)
            _check(answer.error_code, "listing share groups")
            found |= {each.group_id for each in answer.groups}
        return sorted(found)


def described(log: Log, wanted: Sequence[str]) -> dict[str, ShareGroup]:
    """Those of `wanted` that there are."""
    if not wanted:
        return {}
    with _asking(log, "describing share groups") as asked:
        found: dict[str, ShareGroup] = {}
        for node, mine in _by_coordinator(asked, wanted).items():
            connection = asked.node(node)
            body = {"group_ids": mine, "include_authorized_operations": False}
            told = {each.group_id: each for each in connection.ask(DESCRIBE, body).groups}
            body = {"groups": [{"group_id": name, "topics": None} for name in mine]}
            offsets = {each.group_id: each for each in connection.ask(OFFSETS, body).groups}
            for name in mine:
                if int(told[name].error_code) == _NOT_FOUND:
                    continue
                _check(told[name].error_code, f"describing {name}")
                found[name] = _group(told[name], offsets[name])
        return found


def move(log: Log, name: str, starts: dict[Place, int]) -> None:
    """Let the group, which has no members, go on from these offsets."""
    topics: dict[str, list[dict[str, int]]] = defaultdict(list)
    for (topic, partition), offset in starts.items():
        topics[topic].append({"partition_index": partition, "start_offset": offset})
    asked_for = [{"topic_name": topic, "partitions": each} for topic, each in topics.items()]
    with _asking(log, f"resetting {name}") as asked:
        (node,) = _by_coordinator(asked, [name])
        answer = asked.node(node).ask(ALTER_OFFSETS, {"group_id": name, "topics": asked_for})
        _check(answer.error_code, f"resetting {name}")
        for topic in answer.responses:
            for each in topic.partitions:
                _check(each.error_code, f"resetting {name} on {topic.topic_name}")


@contextmanager
def _asking(log: Log, what: str) -> Iterator[Cluster]:
    from headwater.client.cluster import TryAgain
    from headwater.client.connection import Disconnected

    with log.cluster() as asked:
        try:
            yield asked
        except (BrokerUnreachable, Disconnected, TryAgain) as error:
            raise BrokerUnreachable(f"{what}: {error}", hint="is the broker running?") from None


def _by_coordinator(asked: Cluster, wanted: Sequence[str]) -> dict[int, list[str]]:
    body = {"key_type": _GROUP_KEY, "coordinator_keys": list(wanted)}

    def attempt() -> dict[int, list[str]]:
        from headwater.client.cluster import TryAgain

        found: dict[int, list[str]] = defaultdict(list)
        for each in asked.anyone().ask(FIND_COORDINATOR, body).coordinators:
            if int(each.error_code) != _NONE:
                raise TryAgain(f"nobody answers for group {each.key} yet")
            asked.locate(each.node_id, (each.host, each.port))
            found[each.node_id].append(each.key)
        return found

    return asked.retrying(attempt)


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


def _check(code: Any, what: str) -> None:
    if int(code) != _NONE:
        raise RequestRefused(f"{what}: {getattr(code, 'name', code)}")


__all__ = ["ShareGroup", "described", "move", "names"]
