"""/v3/clusters: the one cluster that the edges are at, as every route below it needs it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headwater.client import lookup
from headwater.client import topics as client
from headwater.client.errors import NotThere
from headwater.client.log import TIMEOUT_S
from headwater.edges.context import Context
from headwater.edges.rest.access import no_topic
from headwater.edges.rest.answers import (
    Json,
    RestError,
    Route,
    answered,
    list_of,
    listed,
    related,
    resource,
    resource_of,
)

_CLUSTER = resource_of(cluster_id="string", topics="object")


class Cluster:
    """The one that the edges are at, as every route below /v3 needs it."""

    def __init__(self, context: Context) -> None:
        self.log, self.ask = context.log, context.asking.run
        self._id: str | None = None

    async def id(self) -> str:
        """Asked of the log."""
        self._id = await self.ask(lambda: client.cluster_id(self.log))
        return self._id

    async def check(self, cluster_id: str) -> None:
        """404 where another cluster is meant; the log is asked only where it is not the one that was."""
        if cluster_id != self._id and cluster_id != await self.id():
            raise RestError(
                404, f"there is no cluster {cluster_id[:100]!r}; this one is {self._id}"
            )

    async def all(self, cluster_id: str) -> dict[str, list[int]]:
        """Its topics: the replicas of each partition."""
        await self.check(cluster_id)
        return await self.ask(lambda: client.replicas(self.log))

    async def topic(self, cluster_id: str, name: str) -> list[int]:
        """The replicas of each of its partitions; 404 where there is no such topic."""
        await self.check(cluster_id)
        try:
            found = await self.ask(lambda: self._replicas(name))
        except NotThere:
            raise no_topic(name) from None
        return list(found.values())

    def _replicas(self, name: str) -> dict[int, int]:
        return lookup.replicas(self.log.admin, name, self.log.bootstrap, TIMEOUT_S)


def path_of(cluster_id: str, topic: str) -> str:
    return f"/v3/clusters/{cluster_id}/topics/{topic}"


def add_routes(router: APIRouter, context: Context) -> None:
    cluster = Cluster(context)

    async def clusters(request: Request) -> Response:
        own = await cluster.id()
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
