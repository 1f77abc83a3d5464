"""/v3/clusters/{id}/topics/{topic}/configs: settings of a topic; changed by `admin`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headwater.client import settings
from headwater.client.errors import told
from headwater.client.log import Log
from headwater.client.settings import Entry, Source
from headwater.edges.context import Context
from headwater.edges.rest.access import acting, check_topic
from headwater.edges.rest.answers import (
    Json,
    RestError,
    Route,
    answered,
    body_of,
    list_of,
    listed,
    object_of,
    resource,
    resource_of,
)
from headwater.edges.rest.cluster import Cluster, path_of

NO_SETTING = 40404
_CONFIG = resource_of(
    cluster_id="string",
    topic_name="string",
    name="string",
    value={"type": ["string", "null"]},
    is_default="boolean",
    source="string",
)
_SOURCES = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.BROKER_RUNNING: "DYNAMIC_BROKER_CONFIG",
    Source.BROKERS_RUNNING: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.BROKER_FILE: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
    Source.OTHER: "UNKNOWN",
}


class _Value(msgspec.Struct):
    value: str


_AT = "/v3/clusters/{cluster_id}/topics/{topic_name}/configs"


def add_routes(router: APIRouter, context: Context) -> None:
    configs, one = _Configs(context), f"{_AT}/{{name}}"
    Route("GET", _AT, "Settings of a topic", list_of(_CONFIG)).add(router, configs.all)
    Route("GET", one, "A setting of a topic", _CONFIG).add(router, configs.one)
    value = object_of(value="string")
    Route("PUT", one, "Change a setting", status=204, body=value).add(router, configs.put)
    Route("DELETE", one, "Give it its default again", status=204).add(router, configs.reset)


class _Configs:
    """The routes, and what they share."""

    def __init__(self, context: Context) -> None:
        self._log, self._cluster = context.log, Cluster(context)

    async def all(self, request: Request, cluster_id: str, topic_name: str) -> Response:
        check_topic(request, topic_name)
        found = await self._entries(cluster_id, topic_name)
        path = f"{path_of(cluster_id, topic_name)}/configs"
        shown = [
            _config(request, cluster_id, topic_name, name, each)
            for name, each in sorted(found.items())
        ]
        return listed(request, "KafkaTopicConfig", path, shown)

    async def one(self, request: Request, cluster_id: str, topic_name: str, name: str) -> Response:
        check_topic(request, topic_name)
        found = await self._entry(cluster_id, topic_name, name)
        return answered(_config(request, cluster_id, topic_name, name, found))

    async def put(self, request: Request, cluster_id: str, topic_name: str, name: str) -> Response:
        check_topic(request, topic_name, "admin")
        value = (await body_of(request, _Value)).value
        await self._entry(cluster_id, topic_name, name)
        await self._cluster.ask(
            lambda: _alter(acting(request, self._log), topic_name, {name: value})
        )
        return Response(status_code=204)

    async def reset(
        self, request: Request, cluster_id: str, topic_name: str, name: str
    ) -> Response:
        check_topic(request, topic_name, "admin")
        await self._entry(cluster_id, topic_name, name)
        await self._cluster.ask(lambda: _alter(acting(request, self._log), topic_name, {}, name))
        return Response(status_code=204)

    async def _entries(self, cluster_id: str, topic_name: str) -> settings.Entries:
        await self._cluster.topic(cluster_id, topic_name)
        return await self._cluster.ask(lambda: _settings(self._log, topic_name))

    async def _entry(self, cluster_id: str, topic_name: str, name: str) -> Entry:
        found = (await self._entries(cluster_id, topic_name)).get(name)
        if found is None:
            raise RestError(NO_SETTING, f"topics have no setting {name[:100]!r}: see …/configs")
        return found


def _settings(log: Log, name: str) -> settings.Entries:
    with told(f"reading settings of {name}", log.bootstrap):
        return settings.of_topic(log.admin, name)


def _alter(log: Log, topic: str, given: Mapping[str, str], *removed: str) -> None:
    with told(f"changing settings of {topic}", log.bootstrap):
        settings.alter_topic(log.admin, topic, given, removed)


def _config(request: Request, cluster_id: str, topic: str, name: str, entry: Entry) -> Json:
    facts: Json = {
        "cluster_id": cluster_id,
        "topic_name": topic,
        "name": name,
        "value": entry.value,
        "is_default": entry.source is not Source.TOPIC,
        "is_read_only": False,
        "is_sensitive": False,
        "source": _SOURCES[entry.source],
        "synonyms": [],
    }
    return resource(
        request, "KafkaTopicConfig", f"{path_of(cluster_id, topic)}/configs/{name}", facts
    )
