"""Rules for streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.broker.registry import Handler, Response
from headwater.broker.security.acls import Operation
from headwater.broker.security.rules.assignments import may_describe
from headwater.broker.security.rules.groups import describing
from headwater.broker.security.rules.permission import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    Asker,
    Row,
    Rule,
    answered,
)

if TYPE_CHECKING:
    from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
    from kio.schema.streams_group_heartbeat.v0.request import (
        StreamsGroupHeartbeatRequest,
        Topology,
    )

_O = Operation


async def heartbeat(
    asker: Asker, request: StreamsGroupHeartbeatRequest, inner: Handler
) -> Response:
    """Read on the group, Describe on every topic of the topology; Create, on the cluster or on the topic,
    for internal topics that are to be made."""
    if not asker.group(_O.READ, request.group_id):
        return {"error_code": GROUP_REFUSED, "error_message": "Group authorization failed."}
    names = set() if request.topology is None else set(_topics(request.topology))
    if not await may_describe(asker, names):
        return {"error_code": TOPIC_REFUSED, "error_message": "Topic authorization failed."}
    context = replace(asker.context, may_create=asker.new_topic)
    return await answered(inner(asker.broker, request, context))


async def describe(asker: Asker, request: StreamsGroupDescribeRequest, inner: Handler) -> Response:
    """Describe on the group, and on every topic of its topology."""
    body = await answered(describing("group_ids")(asker, request, inner))
    return {**body, "groups": [await _described(asker, row) for row in body["groups"]]}


async def _described(asker: Asker, row: Row) -> Row:
    for each in (row.get("topology") or {}).get("subtopologies", ()):
        names = {*each["source_topics"], *each["repartition_sink_topics"]}
        for field in ("repartition_source_topics", "state_changelog_topics"):
            names.update(topic["name"] for topic in each[field])
        async for name in asker.each(names):
            if not asker.topic(_O.DESCRIBE, name, quiet=True):
                return {
                    "group_id": row["group_id"],
                    "error_code": TOPIC_REFUSED,
                    "error_message": "The described group uses topics that the client is not "
                    "authorized to describe.",
                }
    return row


def _topics(topology: Topology) -> Iterator[str]:
    for each in topology.subtopologies:
        yield from each.source_topics
        yield from (topic.name for topic in each.repartition_source_topics)
        yield from (topic.name for topic in each.state_changelog_topics)


RULES: Mapping[int, Rule] = {88: heartbeat, 89: describe}
