"""Rules for share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.broker.registry import Handler
from headwater.broker.security.acls import Operation
from headwater.broker.security.rules.assignments import heartbeat
from headwater.broker.security.rules.groups import describing
from headwater.broker.security.rules.permission import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    Asker,
    Result,
    Row,
    Rule,
    only,
    partition_rows,
    then,
)

_O = Operation
_rows = partition_rows(error_message="Topic authorization failed.")
_unknown = partition_rows(
    start_offset=-1, leader_epoch=-1, error_message="Topic authorization failed."
)
_NO_GROUP: Row = {"error_code": GROUP_REFUSED, "error_message": "Group authorization failed."}


def by_group_and_topic(on_group: Operation, on_topic: Operation, rows: Any = _rows) -> Rule:
    """ShareFetch, ShareAcknowledge and the offset APIs: the group first, then each topic."""

    def rule(asker: Asker, request: Any, inner: Handler) -> Result:
        if not asker.group(on_group, request.group_id):
            return {**_NO_GROUP, "responses": ()}
        allowed, refused = asker.split(on_topic, request.topics)
        if not refused:
            return asker.ask(request, inner)
        more = [{**rows(item, TOPIC_REFUSED), "topic_id": _id(asker, item)} for item in refused]

        def merged(body: Row) -> Row:
            if body.get("error_code"):
                return body
            return {**body, "responses": [*body.get("responses", ()), *more]}

        return then(asker.ask(only(request, topics=tuple(allowed)), inner), merged)

    return rule


def _id(asker: Asker, item: Any) -> Any:
    topic = asker.broker.catalogue.topics.get(getattr(item, "topic_name", ""))
    return topic.id if topic is not None else getattr(item, "topic_id", None)


def _deleted(item: Any, code: Any) -> Row:
    return {
        "topic_name": item.topic_name,
        "error_code": code,
        "error_message": "Topic authorization failed.",
    }


def share_fetch(asker: Asker, request: Any, inner: Handler) -> Result:
    """Read on the group and on each topic, those of the share session included: its partitions are
    not named again, so what the answer carries is looked at, too."""

    def readable(body: Row) -> Row:
        shown = []
        for row in body.get("responses", ()):
            topic = asker.broker.catalogue.by_id.get(row["topic_id"])
            if topic is None or asker.topic(_O.READ, topic.name):
                shown.append(row)
            else:
                shown.append({**row, "partitions": [_hidden(p) for p in row["partitions"]]})
        return {**body, "responses": shown}

    result = _fetch(asker, request, inner)
    return then(result, readable)


_fetch = by_group_and_topic(_O.READ, _O.READ)


def _hidden(row: Row) -> Row:
    return {
        "partition_index": row["partition_index"],
        "error_code": TOPIC_REFUSED,
        "error_message": "Topic authorization failed.",
    }


def describe_offsets(asker: Asker, request: Any, inner: Handler) -> Result:
    """Describe on each group, and on each topic."""
    allowed, groups = [], []
    refused_rows: dict[str, list[Row]] = {}
    for group in request.groups:
        if not asker.group(_O.DESCRIBE, group.group_id):
            groups.append({"group_id": group.group_id, "topics": (), **_NO_GROUP})
            continue
        if group.topics is not None:
            topics, refused = asker.split(_O.DESCRIBE, group.topics)
            refused_rows[group.group_id] = [_unknown(item, TOPIC_REFUSED) for item in refused]
            group = only(group, topics=tuple(topics))
        allowed.append(group)

    def merged(body: Row) -> Row:
        shown = []
        for row in body["groups"]:
            topics = [
                topic
                for topic in row.get("topics", ())
                if asker.topic(_O.DESCRIBE, topic["topic_name"], quiet=True)
            ]
            more = refused_rows.get(row["group_id"], [])
            shown.append({**row, "topics": [*topics, *more]})
        return {**body, "groups": [*groups, *shown]}

    return then(asker.ask(only(request, groups=tuple(allowed)), inner), merged)


RULES: Mapping[int, Rule] = {
    76: heartbeat,
    77: describing("group_ids"),
    78: share_fetch,
    79: by_group_and_topic(_O.READ, _O.READ),
    90: describe_offsets,
    91: by_group_and_topic(_O.READ, _O.READ),
    92: by_group_and_topic(_O.DELETE, _O.READ, _deleted),
}
