"""How far consumer groups are: read here, committed there, with the notes that they keep with it."""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import transaction
from headwater.client.cluster import Cluster
from headwater.client.transaction import GROUP
from headwater.project.promote.errors import CannotPromote

LIST_GROUPS = 16
_LIST, _FETCH, _COMMIT = 5, 7, 8


class Committed(NamedTuple):
    """One position of a group."""

    topic: str
    partition: int
    offset: int
    note: str


def groups(cluster: Cluster) -> tuple[list[str], list[str]]:
    """The consumer groups, and the share groups, whose state cannot be moved."""
    metadata = cluster.metadata([])
    consumers, shares = set[str](), set[str]()
    for node in metadata.brokers:

        def attempt(node: int = node) -> Any:
            body: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
            answer = cluster.node(node).ask(LIST_GROUPS, body, _LIST)
            connect.check(answer.error_code, "listing groups")
            return answer.groups

        for each in cluster.retrying(attempt):
            is_share = str(getattr(each, "group_type", "")).lower() == "share"
            (shares if is_share else consumers).add(each.group_id)
    return sorted(consumers), sorted(shares)


def positions(cluster: Cluster, group: str) -> list[Committed]:
    """All that the group has committed."""
    body = {"group_id": group, "topics": None, "require_stable": True}

    def attempt() -> list[Committed]:
        connection = transaction.coordinator(cluster, group, GROUP)
        answer = connection.ask(api.OFFSET_FETCH, body, _FETCH)
        if answer.error_code is ErrorCode.group_id_not_found:
            return []
        connect.check(answer.error_code, f"looking at group {group}")
        found = []
        for topic in answer.topics:
            for each in topic.partitions:
                connect.check(each.error_code, f"looking at group {group}")
                place = (topic.name, each.partition_index)
                if each.committed_offset >= 0:
                    found.append(Committed(*place, each.committed_offset, each.metadata or ""))
        return sorted(found)

    return transaction.asking(cluster, attempt)


def commit(cluster: Cluster, group: str, wanted: list[Committed]) -> None:
    """Let the group be there, nobody in it being. CannotPromote if somebody is."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for each in wanted:
        topics.setdefault(each.topic, []).append(
            {
                "partition_index": each.partition,
                "committed_offset": each.offset,
                "committed_leader_epoch": -1,
                "committed_metadata": each.note,
            }
        )
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
    }

    def attempt() -> None:
        connection = transaction.coordinator(cluster, group, GROUP)
        for topic in connection.ask(api.OFFSET_COMMIT, body, _COMMIT).topics:
            for each in topic.partitions:
                if each.error_code is ErrorCode.unknown_member_id:
                    raise CannotPromote(
                        f"the group {group} has members in Kafka already",
                        hint="stop them, and try again",
                    )
                connect.check(each.error_code, f"committing the position of group {group}")

    transaction.asking(cluster, attempt)
