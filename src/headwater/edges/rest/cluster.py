"""/v3/clusters: the one cluster that the edges are at, as every route below it needs it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.errors import told
from headwater.client.log import TIMEOUT_S, Log
from headwater.edges.context import Context
from headwater.edges.rest.access import no_topic
from headwater.edges.rest.answers import (
    Json,
    RestError,
    Route,
    answered,
    in_thread,
    list_of,
    listed,
    object_of,
    related,
    resource,
)

_CLUSTER = object_of(kind="string", metadata="object", cluster_id="string", topics="object")


class Cluster:
    """The one that the edges are at, as every route below /v3 needs it."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def known(self) -> tuple[str, dict[str, list[int]]]:
        """Its id, and its topics: the replicas and so many partitions. Waits for the log."""
        with told("listing topics", self.log.bootstrap):
            found = self.log.admin.list_topics(timeout=TIMEOUT_S)
        replicas = {
            name: [len(each.replicas) for each in topic.partitions.values()]
            for name, topic in found.topics.items()
        }
        return found.cluster_id or "", replicas

    async def check(self, cluster_id: str) -> dict[str, list[int]]:
        """Its topics; 404 where another cluster is meant."""
        own, found = await in_thread(self.known)
        if cluster_id != own:
            raise RestError(404, f"there is no cluster {cluster_id[:100]!r}; this one is {own}")
        return found

    async def topic(self, cluster_id: str, name: str) -> list[int]:
        found = await self.check(cluster_id)
        if name not in found:
            raise no_topic(name)
        return found[name]


def path_of(cluster_id: str, topic: str) -> str:
    return f"/v3/clusters/{cluster_id}/topics/{topic}"


def add_routes(router: APIRouter, context: Context) -> None:
    cluster = Cluster(context.log)

    async def clusters(request: Request) -> Response:
        own, _ = await in_thread(cluster.known)
        return listed(request, "KafkaCluster", "/v3/clusters", [_cluster(request, own)])

    async def one(request: Request, cluster_id: str) -> Response:
        await cluster.check(cluster_id)
        return answered(_cluster(request, cluster_id))

    Route("GET", "/v3/clusters", "The cluster", list_of(_CLUSTER)).add(router, clusters)
    Route("GET", "/v3/clusters/{cluster_id}", "It by its id", _CLUSTER).add(router, one)


def _cluster(request: Request, cluster_id: str) -> Json:
    path = f"/v3/clusters/{cluster_id}"
    facts = {
        "cluster_id": cluster_id,
        "topics": related(request, f"{path}/topics"),
        "consumer_groups": related(request, f"{path}/consumer-groups"),
    }
    return resource(request, "KafkaCluster", path, facts)
