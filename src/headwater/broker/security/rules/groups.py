"""Rules for groups and their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.once import once
from headwater.broker.registry import Handler, Response
from headwater.broker.security.acls import Operation, ResourceType
from headwater.broker.security.rules import assignments
from headwater.broker.security.rules.permission import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    NOT_ASKED,
    TOPIC_REFUSED,
    TRANSACTION_REFUSED,
    Asker,
    Result,
    Row,
    Rule,
    adding,
    answered,
    only,
    partition_rows,
    showing,
    then,
    whole_group,
)

_O = Operation
_committed = partition_rows()
_unknown_offset = partition_rows(committed_offset=-1, committed_leader_epoch=-1, metadata="")
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2


def offset_commit(asker: Asker, request: Any, inner: Handler) -> Result:
    """Read on the group, and on each topic."""
    if not asker.group(_O.READ, request.group_id):
        return {"topics": [_committed(item, GROUP_REFUSED) for item in request.topics]}
    allowed, refused = asker.split(_O.READ, request.topics)
    if not refused:
        return asker.ask(request, inner)
    rows = [_committed(item, TOPIC_REFUSED) for item in refused]
    if not allowed:
        return {"topics": rows}
    return adding(asker.ask(only(request, topics=tuple(allowed)), inner), "topics", rows)


def offset_fetch(asker: Asker, request: Any, inner: Handler) -> Result:
    """Describe on the group, and on each topic; of "all topics" the others are left out."""
    if asker.version < 8:
        return _offsets_of_one(asker, request, inner)
    allowed, groups = [], []
    refused_rows: dict[str, list[Row]] = {}
    for group in once(request.groups, lambda group: group.group_id):  # as the handler does
        if not asker.group(_O.DESCRIBE, group.group_id):
            groups.append({"group_id": group.group_id, "error_code": GROUP_REFUSED, "topics": ()})
            continue
        if group.topics is not None:
            topics, refused = asker.split(_O.DESCRIBE, group.topics)
            refused_rows[group.group_id] = [_unknown_offset(t, TOPIC_REFUSED) for t in refused]
            if refused:
                group = only(group, topics=tuple(topics))
        allowed.append(group)

    result = asker.ask(only(request, groups=tuple(allowed)), inner)
    return _with_refused(asker, result, refused_rows, groups)


async def _with_refused(
    asker: Asker, result: Result, refused_rows: Mapping[str, list[Row]], groups: list[Row]
) -> Response:
    body = await answered(result)
    for row in body["groups"]:
        topics = row.get("topics", ())
        if row["group_id"] not in refused_rows:  # it was asked for all
            topics = [topic async for topic in asker.each(topics) if _shown(asker, topic)]
        row["topics"] = [*topics, *refused_rows.get(row["group_id"], ())]
    return {**body, "groups": [*body["groups"], *groups]}


def _offsets_of_one(asker: Asker, request: Any, inner: Handler) -> Result:
    if not asker.group(_O.DESCRIBE, request.group_id):
        if asker.version >= 2:
            return {"error_code": GROUP_REFUSED, "topics": ()}
        return {"topics": [_unknown_offset(item, GROUP_REFUSED) for item in request.topics or ()]}
    if request.topics is None:
        return showing(asker, asker.ask(request, inner), "topics", lambda row: _shown(asker, row))
    allowed, refused = asker.split(_O.DESCRIBE, request.topics)
    rows = [_unknown_offset(item, TOPIC_REFUSED) for item in refused]
    return adding(asker.ask(only(request, topics=tuple(allowed)), inner), "topics", rows)


def _shown(asker: Asker, row: Row) -> bool:
    name = row.get("name")
    if not name:
        topic = asker.broker.catalogue.by_id.get(row["topic_id"])
        name = "" if topic is None else topic.name
    return asker.topic(_O.DESCRIBE, name, quiet=True)


def find_coordinator(asker: Asker, request: Any, inner: Handler) -> Result:
    """Describe on the group or the transactional id; share coordinators are the brokers' own."""
    kind = getattr(request, "key_type", GROUP_KEY)
    if asker.version < 4:
        code = _no_coordinator(asker, kind, request.key)
        return asker.ask(request, inner) if code is None else _nowhere(code)
    allowed, rows = [], []
    for key in request.coordinator_keys:
        code = _no_coordinator(asker, kind, key)
        if code is None:
            allowed.append(key)
        else:
            rows.append({"key": key, **_nowhere(code)})
    if not rows:
        return asker.ask(request, inner)
    result = asker.ask(only(request, coordinator_keys=tuple(allowed)), inner)
    return adding(result, "coordinators", rows)


def _no_coordinator(asker: Asker, kind: int, key: str) -> ErrorCode | None:
    if kind == GROUP_KEY:
        return None if asker.group(_O.DESCRIBE, key) else GROUP_REFUSED
    if kind == TRANSACTION_KEY:
        return None if asker.transaction(_O.DESCRIBE, key) else TRANSACTION_REFUSED
    if kind == SHARE_KEY:
        return None if asker.cluster(_O.CLUSTER_ACTION) else CLUSTER_REFUSED
    return None  # the handler refuses what nobody knows


_WHY = {
    GROUP_REFUSED: "Group authorization failed.",
    TRANSACTION_REFUSED: "Transactional Id authorization failed.",
    CLUSTER_REFUSED: "Cluster authorization failed.",
}


def _nowhere(code: ErrorCode) -> Row:
    return {"error_code": code, "error_message": _WHY[code], "node_id": -1, "host": "", "port": -1}


def _join(request: Any, code: ErrorCode) -> Row:
    return {
        "error_code": code,
        "generation_id": -1,
        "protocol_name": "",
        "leader": "",
        "member_id": "",
    }


def describing(asked: str) -> Rule:
    """DescribeGroups and its kin: Describe on each group, and true bit fields."""

    def rule(asker: Asker, request: Any, inner: Handler) -> Result:
        allowed, rows = [], []
        for group in getattr(request, asked):
            if asker.group(_O.DESCRIBE, group):
                allowed.append(group)
            else:
                rows.append(_undescribed(group))

        def merged(body: Row) -> Row:
            shown = [_described(asker, row) for row in body["groups"]]
            return {**body, "groups": [*rows, *shown]}

        return then(asker.ask(only(request, **{asked: tuple(allowed)}), inner), merged)

    return rule


def _undescribed(group: str) -> Row:
    return {
        "group_id": group,
        "error_code": GROUP_REFUSED,
        "error_message": "Group authorization failed.",
    }


def _described(asker: Asker, row: Row) -> Row:
    if row.get("authorized_operations", NOT_ASKED) != NOT_ASKED:
        operations = asker.operations(ResourceType.GROUP, row["group_id"])
        row = {**row, "authorized_operations": operations}
    if all(asker.topic(_O.DESCRIBE, name, quiet=True) for name in _topics_of(row)):
        return row
    return {
        **row,
        "error_code": TOPIC_REFUSED,
        "error_message": "The group has described topic(s) that the client is not authorized "
        "to describe.",
        "members": (),
    }


def _topics_of(row: Row) -> set[str]:
    """What the members of a new-style group read; a classic one's are in bytes that it wrote."""
    names: set[str] = set()
    for member in row.get("members", ()):
        for field in ("assignment", "target_assignment"):
            for topic in (member.get(field) or {}).get("topic_partitions", ()):
                names.add(topic.get("topic_name", ""))
    return names - {""}


def list_groups(asker: Asker, request: Any, inner: Handler) -> Result:
    """Describe on the cluster shows all; otherwise those that one may describe."""
    if asker.cluster(_O.DESCRIBE, quiet=True):
        return asker.ask(request, inner)

    def may_see(row: Row) -> bool:
        return asker.group(_O.DESCRIBE, row["group_id"], quiet=True)

    return showing(asker, asker.ask(request, inner), "groups", may_see)


def delete_groups(asker: Asker, request: Any, inner: Handler) -> Result:
    allowed = [g for g in request.groups_names if asker.group(_O.DELETE, g)]
    refused = [g for g in request.groups_names if g not in allowed]
    rows = [{"group_id": group, "error_code": GROUP_REFUSED} for group in refused]
    return adding(asker.ask(only(request, groups_names=tuple(allowed)), inner), "results", rows)


def offset_delete(asker: Asker, request: Any, inner: Handler) -> Result:
    """Delete on the group, Read on each topic."""
    if not asker.group(_O.DELETE, request.group_id):
        return {"error_code": GROUP_REFUSED, "topics": ()}
    allowed, refused = asker.split(_O.READ, request.topics)
    rows = [_committed(item, TOPIC_REFUSED) for item in refused]
    return adding(asker.ask(only(request, topics=tuple(allowed)), inner), "topics", rows)


RULES: Mapping[int, Rule] = {
    8: offset_commit,
    9: offset_fetch,
    10: find_coordinator,
    11: whole_group(_O.READ, _join),
    12: whole_group(_O.READ),
    13: whole_group(_O.READ),
    14: assignments.sync,
    15: describing("groups"),
    16: list_groups,
    42: delete_groups,
    47: offset_delete,
    68: assignments.heartbeat,
    69: describing("group_ids"),
}
