"""Forget what a group has committed for some topics; consumer groups (KIP-496) and share groups (KIP-932)."""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections.abc import Sequence

from headwater.client.errors import NotThere
from headwater.client.exchange import asking, by_coordinator, check
from headwater.client.groups import Group, PartitionLag
from headwater.client.log import Log

DELETE, DELETE_OF_SHARE = 47, 92


def would_go(group: Group, topics: Sequence[str]) -> list[PartitionLag]:
    """What it has committed there; NotThere where there is nothing. Pure."""
    found = [
        each for each in group.partitions if each.topic in topics and each.committed is not None
    ]
    if not found:
        raise NotThere(
            f"the group {group.name!r} has committed nothing for {', '.join(topics) or 'no topic'}",
            hint="choose topics for which it has a position",
        )
    return found


def delete(log: Log, group: Group, topics: Sequence[str]) -> None:
    """The group must not be reading them."""
    places = would_go(group, topics)
    what = f"deleting offsets of group {group.name}"
    is_share = group.kind == "share"
    named = [{"topic_name": each} for each in topics] if is_share else _partitions(places)
    with asking(log, what) as asked:
        (node,) = by_coordinator(asked, [group.name])
        api = DELETE_OF_SHARE if is_share else DELETE
        answer = asked.node(node).ask(api, {"group_id": group.name, "topics": named})
    check(answer.error_code, what, getattr(answer, "error_message", None))
    if is_share:
        for each in answer.responses:
            check(each.error_code, f"{what} on {each.topic_name}", each.error_message)
        return
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{what} on {topic.name}-{each.partition_index}")


def _partitions(places: Sequence[PartitionLag]) -> list[dict[str, object]]:
    topics: dict[str, list[dict[str, int]]] = {}
    for each in places:
        topics.setdefault(each.topic, []).append({"partition_index": each.partition})
    return [{"name": name, "partitions": each} for name, each in topics.items()]
