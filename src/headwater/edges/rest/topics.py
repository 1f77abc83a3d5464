"""/v3/clusters/{id}/topics: those that a token may see, their partitions; made and deleted by `admin`."""

from __future__ import annotations

import msgspec
import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headwater.client import topics as client
from headwater.client.errors import RequestRefused, told
from headwater.client.log import TIMEOUT_S, Log
from headwater.edges.answer_body import counted
from headwater.edges.context import Context
from headwater.edges.rest.access import NO_PARTITION, NO_TOPIC, acting, check_topic, sees
from headwater.edges.rest.answers import (
    V2,
    Json,
    RestError,
    Route,
    answered,
    body_of,
    list_of,
    listed,
    object_of,
    related,
    resource,
    resource_of,
)
from headwater.edges.rest.cluster import Cluster, path_of

THERE_ALREADY = 40002
PARTITIONS_MAX = 200
"""Of a topic that is made by HTTP: each is files on the disk. More are made by `headwater topics`."""
_TOPIC = resource_of(
    cluster_id="string",
    topic_name="string",
    is_internal="boolean",
    replication_factor="integer",
    partitions_count="integer",
    partitions="object",
    configs="object",
)
_PARTITION = resource_of(
    cluster_id="string",
    topic_name="string",
    partition_id="integer",
    leader={"type": ["object", "null"]},
)
_NEW: Json = {
    "type": "object",
    "required": ["topic_name"],
    "properties": {
        "topic_name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
        "partitions_count": {"type": "integer", "minimum": 1, "maximum": PARTITIONS_MAX},
        "replication_factor": {"type": "integer", "minimum": 1, "maximum": 32767},
        "configs": {"type": "array", "items": object_of(name="string", value="string")},
        "validate_only": {"type": "boolean"},
    },
}


class _Setting(msgspec.Struct):
    name: str
    value: str


class _New(msgspec.Struct):
    topic_name: str
    partitions_count: int = -1
    replication_factor: int = 1
    configs: list[_Setting] = []
    validate_only: bool = False


_AT = "/v3/clusters/{cluster_id}/topics"


def add_routes(router: APIRouter, context: Context) -> None:
    topics, one = _Topics(context), f"{_AT}/{{topic_name}}"
    seen = "Topics that the token may read, write or administer"
    Route("GET", _AT, seen, list_of(_TOPIC)).add(router, topics.all)
    Route("GET", one, "A topic", _TOPIC).add(router, topics.one)
    all_names: Json = {"type": "array", "items": {"type": "string"}}
    Route("GET", "/topics", f"{seen}: their names", all_names, media_type=V2).add(
        router, topics.names
    )
    parts, part = f"{one}/partitions", f"{one}/partitions/{{partition_id}}"
    Route("GET", parts, "Its partitions", list_of(_PARTITION)).add(router, topics.partitions)
    Route("GET", part, "A partition", _PARTITION).add(router, topics.partition)
    Route("POST", _AT, "Create a topic", _TOPIC, 201, _NEW).add(router, topics.create)
    Route("DELETE", one, "Delete a topic with its records", status=204).add(router, topics.delete)


class _Topics:
    """The routes, and what they share."""

    def __init__(self, context: Context) -> None:
        self._log, self._cluster = context.log, Cluster(context)
        self._known = context.appender.topics

    async def all(self, request: Request, cluster_id: str) -> Response:
        known = await self._cluster.all(cluster_id)
        shown = [
            _topic(request, cluster_id, name, replicas)
            for name, replicas in sorted(known.items())
            if sees(request, name)
        ]
        return listed(request, "KafkaTopic", f"/v3/clusters/{cluster_id}/topics", shown)

    async def names(self, request: Request) -> Response:
        """As v2 has it, which knows one cluster."""
        known = await self._cluster.all(await self._cluster.id())
        return counted(
            request, orjson.dumps([each for each in sorted(known) if sees(request, each)]), V2
        )

    async def one(self, request: Request, cluster_id: str, topic_name: str) -> Response:
        check_topic(request, topic_name)
        replicas = await self._cluster.topic(cluster_id, topic_name)
        return answered(_topic(request, cluster_id, topic_name, replicas))

    async def partitions(self, request: Request, cluster_id: str, topic_name: str) -> Response:
        check_topic(request, topic_name)
        count = len(await self._cluster.topic(cluster_id, topic_name))
        path = f"{path_of(cluster_id, topic_name)}/partitions"
        shown = [_partition(request, cluster_id, topic_name, number) for number in range(count)]
        return listed(request, "KafkaPartition", path, shown)

    async def partition(
        self, request: Request, cluster_id: str, topic_name: str, partition_id: int
    ) -> Response:
        check_topic(request, topic_name)
        count = len(await self._cluster.topic(cluster_id, topic_name))
        if not 0 <= partition_id < count:
            said = f"{topic_name} has no partition {partition_id}: 0 to {count - 1}"
            raise RestError(NO_PARTITION, said)
        return answered(_partition(request, cluster_id, topic_name, partition_id))

    async def create(self, request: Request, cluster_id: str) -> Response:
        new = await body_of(request, _New)
        check_topic(request, new.topic_name, "admin")
        if await self._is_there(cluster_id, new.topic_name):
            raise RestError(THERE_ALREADY, f"the topic {new.topic_name!r} is there already")
        if new.partitions_count != -1 and not 1 <= new.partitions_count <= PARTITIONS_MAX:
            raise RestError(422, f"partitions_count is 1 to {PARTITIONS_MAX}")
        if not 1 <= new.replication_factor <= 32767:
            raise RestError(422, "replication_factor is 1 to 32767; headwater's broker keeps one")
        replicas = [new.replication_factor] * abs(new.partitions_count)
        if not new.validate_only:
            await self._cluster.ask(lambda: _create(self._log, acting(request, self._log), new))
            self._known.forget(new.topic_name)
            replicas = await self._cluster.topic(cluster_id, new.topic_name)
        return answered(_topic(request, cluster_id, new.topic_name, replicas), 201)

    async def delete(self, request: Request, cluster_id: str, topic_name: str) -> Response:
        check_topic(request, topic_name, "admin")
        await self._cluster.topic(cluster_id, topic_name)
        await self._cluster.ask(lambda: _delete(acting(request, self._log), topic_name))
        self._known.forget(topic_name)
        return Response(status_code=204)

    async def _is_there(self, cluster_id: str, name: str) -> bool:
        try:
            await self._cluster.topic(cluster_id, name)
        except RestError as error:
            if error.code != NO_TOPIC:
                raise
            return False
        return True


def _create(log: Log, by: Log, new: _New) -> None:
    config = {each.name: each.value for each in new.configs}
    try:
        with told(f"creating {new.topic_name}", log.bootstrap):
            client.create(
                by.admin,
                new.topic_name,
                new.partitions_count,
                config,
                replicas=new.replication_factor,
            )
    except (ValueError, TypeError, OverflowError) as error:
        raise RequestRefused(f"creating {new.topic_name[:249]!r}: {error}") from None
    log.partitions(new.topic_name)


def _delete(log: Log, name: str) -> None:
    with told(f"deleting {name}", log.bootstrap):
        log.admin.delete_topics([name], operation_timeout=TIMEOUT_S)[name].result()


def _topic(request: Request, cluster_id: str, name: str, replicas: list[int]) -> Json:
    path = path_of(cluster_id, name)
    facts = {
        "cluster_id": cluster_id,
        "topic_name": name,
        "is_internal": False,
        "replication_factor": max(replicas, default=1),
        "partitions_count": len(replicas),
        "partitions": related(request, f"{path}/partitions"),
        "configs": related(request, f"{path}/configs"),
    }
    return resource(request, "KafkaTopic", path, facts)


def _partition(request: Request, cluster_id: str, topic: str, number: int) -> Json:
    facts = {
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": number,
        "leader": None,
    }
    return resource(
        request, "KafkaPartition", f"{path_of(cluster_id, topic)}/partitions/{number}", facts
    )
