"""/v3/clusters/{id}/consumer-groups: who reads, how far they are and what is left."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headwater.client import groups as client
from headwater.client.groups import Group, PartitionLag
from headwater.edges.context import Context
from headwater.edges.rest.access import check_group, sees, sees_group
from headwater.edges.rest.answers import (
    Json,
    Route,
    answered,
    list_of,
    listed,
    related,
    resource,
    resource_of,
)
from headwater.edges.rest.cluster import Cluster

_GROUP = resource_of(
    cluster_id="string",
    consumer_group_id="string",
    state="string",
    partition_assignor="string",
    consumers="object",
    lag_summary="object",
)
_MEMBER = resource_of(consumer_group_id="string", consumer_id="string")
_LAG = resource_of(
    consumer_group_id="string",
    topic_name="string",
    partition_id="integer",
    current_offset="integer",
    log_end_offset="integer",
    lag="integer",
)
_SUMMARY = resource_of(
    consumer_group_id="string",
    max_lag="integer",
    total_lag="integer",
)


_AT = "/v3/clusters/{cluster_id}/consumer-groups"


def add_routes(router: APIRouter, context: Context) -> None:
    groups, one = _Groups(context), f"{_AT}/{{group}}"
    seen = "Consumer groups that the token may read"
    Route("GET", _AT, seen, list_of(_GROUP)).add(router, groups.all)
    Route("GET", one, "A consumer group", _GROUP).add(router, groups.one)
    Route("GET", f"{one}/consumers", "Its members", list_of(_MEMBER)).add(router, groups.members)
    left = "What it has not read yet, by partition"
    Route("GET", f"{one}/lags", left, list_of(_LAG)).add(router, groups.lags)
    left = "What it has not read yet, in all and at most"
    Route("GET", f"{one}/lag-summary", left, _SUMMARY).add(router, groups.summary)


class _Groups:
    """The routes, and what they share."""

    def __init__(self, context: Context) -> None:
        self._log, self._cluster = context.log, Cluster(context)

    async def all(self, request: Request, cluster_id: str) -> Response:
        await self._cluster.check(cluster_id)
        found = await self._cluster.ask(lambda: client.listed(self._log))
        shown = [_group(request, cluster_id, g) for g in found if sees_group(request, g.name)]
        path = f"/v3/clusters/{cluster_id}/consumer-groups"
        return listed(request, "KafkaConsumerGroup", path, shown)

    async def one(self, request: Request, cluster_id: str, group: str) -> Response:
        return answered(_group(request, cluster_id, await self._get(request, cluster_id, group)))

    async def members(self, request: Request, cluster_id: str, group: str) -> Response:
        found = await self._get(request, cluster_id, group)
        path = f"{_path(cluster_id, group)}/consumers"
        return listed(request, "KafkaConsumer", path, _members(request, cluster_id, found))

    async def lags(self, request: Request, cluster_id: str, group: str) -> Response:
        found = await self._get(request, cluster_id, group)
        shown = [_lag(request, cluster_id, found, each) for each in _known(request, found)]
        return listed(request, "KafkaConsumerLag", f"{_path(cluster_id, group)}/lags", shown)

    async def summary(self, request: Request, cluster_id: str, group: str) -> Response:
        found = await self._get(request, cluster_id, group)
        return answered(_summary(request, cluster_id, found))

    async def _get(self, request: Request, cluster_id: str, group: str) -> Group:
        check_group(request, group)
        await self._cluster.check(cluster_id)
        return await self._cluster.ask(lambda: client.named(self._log, group))


def _path(cluster_id: str, group: str) -> str:
    return f"/v3/clusters/{cluster_id}/consumer-groups/{group}"


def _known(request: Request, group: Group) -> list[PartitionLag]:
    """Partitions of which the group has committed something, and that are there for this token."""
    found = [each for each in group.partitions if each.lag is not None]
    return [each for each in found if sees(request, each.topic)]


def _group(request: Request, cluster_id: str, group: Group) -> Json:
    path = _path(cluster_id, group.name)
    facts = {
        "cluster_id": cluster_id,
        "consumer_group_id": group.name,
        "is_simple": not group.members and not group.assignor,
        "partition_assignor": group.assignor,
        "state": group.state,
        "type": group.kind,
        "consumers": related(request, f"{path}/consumers"),
        "lag_summary": related(request, f"{path}/lag-summary"),
    }
    return resource(request, "KafkaConsumerGroup", path, facts)


def _members(request: Request, cluster_id: str, group: Group) -> list[Json]:
    path = f"{_path(cluster_id, group.name)}/consumers"
    return [
        resource(
            request,
            "KafkaConsumer",
            f"{path}/{each.id}",
            {
                "cluster_id": cluster_id,
                "consumer_group_id": group.name,
                "consumer_id": each.id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
            },
        )
        for each in group.members
    ]


def _lag(request: Request, cluster_id: str, group: Group, lag: PartitionLag) -> Json:
    facts = {
        "cluster_id": cluster_id,
        "consumer_group_id": group.name,
        "topic_name": lag.topic,
        "partition_id": lag.partition,
        "current_offset": lag.committed if lag.committed is not None else -1,
        "log_end_offset": lag.end if lag.end is not None else -1,
        "lag": lag.lag,
        "client_id": lag.member,
    }
    path = f"{_path(cluster_id, group.name)}/lags/{lag.topic}/partitions/{lag.partition}"
    return resource(request, "KafkaConsumerLag", path, facts)


def _summary(request: Request, cluster_id: str, group: Group) -> Json:
    known = _known(request, group)
    most = max(known, key=lambda each: each.lag or 0, default=None)
    facts = {
        "cluster_id": cluster_id,
        "consumer_group_id": group.name,
        "max_lag_client_id": most.member if most else None,
        "max_lag_topic_name": most.topic if most else None,
        "max_lag_partition_id": most.partition if most else None,
        "max_lag": (most.lag or 0) if most else 0,
        "total_lag": sum(each.lag or 0 for each in known),
    }
    path = f"{_path(cluster_id, group.name)}/lag-summary"
    return resource(request, "KafkaConsumerGroupLagSummary", path, facts)
