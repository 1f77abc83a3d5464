"""Rules for topics: seeing, making and removing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Handler, Response
from headwater.broker.security.acls import Operation, ResourceType
from headwater.broker.security.rules.cluster import cluster_operations
from headwater.broker.security.rules.permission import (
    NOT_ASKED,
    TOPIC_REFUSED,
    Asker,
    Result,
    Row,
    Rule,
    adding,
    answered,
    by_topic,
    only,
    then,
)

_O = Operation
SENTENCE = "Topic authorization failed."


def metadata(asker: Asker, request: Any, inner: Handler) -> Result:
    """Describe shows a topic; one that would be made needs Create. Ids are no secret, names are."""
    asked = request.topics
    rows: list[Row] = []
    everything = asked is None or (asker.version == 0 and not asked)
    if not everything:
        allowed = []
        for item in asked:
            row = _refused(asker, request, item)
            if row is None:
                allowed.append(item)
            else:
                rows.append(row)
        if rows:
            request = only(request, topics=tuple(allowed))
            if asker.version == 0 and not allowed:  # an empty list means all, in this version
                request = only(request, topics=(_nothing(asked[0]),))

    return _shown(asker, asker.ask(request, inner), rows)


async def _shown(asker: Asker, result: Result, refused: list[Row]) -> Response:
    body = dict(await answered(result))
    if body.get("cluster_authorized_operations", NOT_ASKED) != NOT_ASKED:
        body["cluster_authorized_operations"] = cluster_operations(asker)
    topics = [
        _with_operations(asker, row)
        async for row in asker.each(body["topics"])
        if row.get("name") is None or asker.topic(_O.DESCRIBE, row["name"], quiet=True)
    ]
    return {**body, "topics": [*topics, *refused]}


def _nothing(item: Any) -> Any:
    return only(item, name="")


def _refused(asker: Asker, request: Any, item: Any) -> Row | None:
    if item.name is None:
        name = asker.topic_name(item)
        if name is None or asker.topic(_O.DESCRIBE, name):
            return None
        return {"error_code": TOPIC_REFUSED, "name": None, "topic_id": item.topic_id}
    if not asker.topic(_O.DESCRIBE, item.name):
        return {"error_code": TOPIC_REFUSED, "name": item.name}
    makes = (
        item.name not in asker.broker.catalogue.topics
        and getattr(request, "allow_auto_topic_creation", True)
        and asker.broker.settings.get("auto.create.topics.enable")
    )
    if makes and not asker.new_topic(item.name):
        return {"error_code": TOPIC_REFUSED, "name": item.name}
    return None


def _with_operations(asker: Asker, row: Row) -> Row:
    if row.get("topic_authorized_operations", NOT_ASKED) == NOT_ASKED:
        return row
    operations = asker.operations(ResourceType.TOPIC, row["name"])
    return {**row, "topic_authorized_operations": operations}


async def describe_topic_partitions(asker: Asker, request: Any, inner: Handler) -> Response:
    """Describe, as in Metadata. "All topics" means those that one may see, page by page."""
    names = [item.name for item in request.topics]
    page = len(names)
    if not names:
        first = "" if request.cursor is None else request.cursor.topic_name
        names = sorted(name for name in asker.broker.catalogue.topics if name >= first)
        page = max(request.response_partition_limit, 1) + 1  # a topic has a partition at least
    seen: list[str] = []
    refused: list[str] = []
    async for name in asker.each(names):
        may = asker.topic(_O.DESCRIBE, name, quiet=not request.topics)
        (seen if may else refused).append(name)
        if len(seen) == page:
            break
    rows = [{"error_code": TOPIC_REFUSED, "name": name} for name in refused if request.topics]
    if not seen:
        return {"topics": rows, "next_cursor": None}
    body = await answered(asker.ask(_naming(request, seen), inner))
    topics = []
    async for row in asker.each(body["topics"]):
        operations = asker.operations(ResourceType.TOPIC, row["name"])
        topics.append({**row, "topic_authorized_operations": operations})
    return {**body, "topics": [*rows, *topics]}


def _naming(request: Any, names: list[str]) -> Any:
    from kio.schema.describe_topic_partitions.v0.request import TopicRequest
    from kio.schema.types import TopicName

    return only(request, topics=tuple(TopicRequest(name=TopicName(name)) for name in names))


def create_topics(asker: Asker, request: Any, inner: Handler) -> Result:
    """Create, on the cluster or on the topic; DescribeConfigs to be told its configs (KIP-525)."""
    allowed, rows = [], []
    for item in request.topics:
        if asker.new_topic(item.name):
            allowed.append(item)
        else:
            rows.append(
                {
                    "name": item.name,
                    "error_code": TOPIC_REFUSED,
                    "error_message": "Authorization failed.",
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "configs": None,
                }
            )

    def shown(body: Row) -> Row:
        return {
            **body,
            "topics": [*rows, *(_without_configs(asker, row) for row in body["topics"])],
        }

    return then(asker.ask(only(request, topics=tuple(allowed)), inner), shown)


def _without_configs(asker: Asker, row: Row) -> Row:
    if row.get("error_code") or asker.topic(_O.DESCRIBE_CONFIGS, row["name"], quiet=True):
        return row
    return {
        **row,
        "topic_config_error_code": TOPIC_REFUSED,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": None,
    }


def delete_topics(asker: Asker, request: Any, inner: Handler) -> Result:
    """Delete; of a topic that one may not even describe nothing is told but its id or name."""
    if asker.version < 6:
        names = [(name, name, None) for name in request.topic_names]
    else:
        names = [(item, asker.topic_name(item), item.topic_id) for item in request.topics]
    allowed, rows = [], []
    for item, name, topic_id in names:
        if name is None or asker.topic(_O.DELETE, name):
            allowed.append(item)
            continue
        by_id = getattr(item, "name", item) is None
        seen = asker.topic(_O.DESCRIBE, name, quiet=True)
        rows.append(
            {
                "name": name if seen or not by_id else None,
                "topic_id": topic_id if by_id else None,
                "error_code": TOPIC_REFUSED,
                "error_message": SENTENCE,
            }
        )
    field = "topic_names" if asker.version < 6 else "topics"
    return adding(asker.ask(only(request, **{field: tuple(allowed)}), inner), "responses", rows)


def _ungrown(item: Any, code: ErrorCode) -> Row:
    return {"name": item.name, "error_code": code, "error_message": None}


RULES: Mapping[int, Rule] = {
    3: metadata,
    19: create_topics,
    20: delete_topics,
    37: by_topic(_O.ALTER, _ungrown, answered="results"),
    75: describe_topic_partitions,
}
