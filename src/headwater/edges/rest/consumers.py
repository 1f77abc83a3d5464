"""/consumers/{group}…: records out by a consumer group, with position and commits on this side.

POST   /consumers/web                                   an instance: {"format": "json"}
POST   /consumers/web/instances/{id}/subscription       {"topics": ["orders"]}
GET    /consumers/web/instances/{id}/records            what is new, in its format
POST   /consumers/web/instances/{id}/offsets            commit all of it, or {"offsets": […]}
DELETE /consumers/web/instances/{id}
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from headwater.edges import counts
from headwater.edges.answer_body import Outgoing
from headwater.edges.caller import address_of, who
from headwater.edges.context import Context
from headwater.edges.rest.access import check_group, check_member, check_readable, check_topics
from headwater.edges.rest.answers import (
    V2,
    Json,
    RestError,
    Route,
    answered,
    body_of,
    link,
    object_of,
    responses,
)
from headwater.edges.rest.batch import ANSWER_BYTES, ANSWER_BYTES_MAX
from headwater.edges.rest.instance import Instance, Options, Place
from headwater.edges.rest.instances import Instances
from headwater.edges.rest.records_out import FORMATS, RECORDS, accepts, media_type
from headwater.edges.topics import Topics

WAY = "consumers"
TIMEOUT_MS, TIMEOUT_MAX_MS = 1000, 30_000
NAME_MAX = 249
TOPICS_MAX = 100
_GROUP = "/consumers/{group}"
_AT = f"{_GROUP}/instances/{{instance}}"
_READS, _COMMIT = f"{_AT}/subscription", f"{_AT}/offsets"
_TRUTH = {"true": True, "false": False}
_PLACE: Json = object_of(topic="string", partition="integer")
_OFFSET: Json = object_of(topic="string", partition="integer", offset="integer")
_OFFSETS: Json = object_of(offsets={"type": "array", "items": _OFFSET})
_NEW: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
        "format": {"enum": list(FORMATS), "default": "binary"},
        "auto.offset.reset": {"enum": ["earliest", "latest"], "default": "latest"},
        "auto.commit.enable": {"enum": ["true", "false"], "default": "false"},
        "fetch.min.bytes": {"type": "string", "pattern": "^[0-9]{1,6}$"},
    },
}


class _New(msgspec.Struct):
    name: str | None = None
    format: str = "binary"
    reset: str = msgspec.field(name="auto.offset.reset", default="latest")
    commits: str | bool = msgspec.field(name="auto.commit.enable", default="false")
    min_bytes: str | int = msgspec.field(name="fetch.min.bytes", default="1")
    wait_ms: str | int | None = msgspec.field(name="consumer.request.timeout.ms", default=None)


class _Topics(msgspec.Struct):
    topics: list[str] | None = None
    topic_pattern: str | None = None


class _Place(msgspec.Struct):
    topic: str
    partition: int


class _Position(_Place):
    offset: int


class _Positions(msgspec.Struct):
    offsets: list[_Position] | None = None
    partitions: list[_Place] | None = None


def add_routes(router: APIRouter, context: Context, instances: Instances) -> None:
    made = object_of(instance_id="string", base_uri="string")
    topics = object_of(topics={"type": "array", "items": {"type": "string"}, "minItems": 1})
    held = object_of(partitions={"type": "array", "items": _PLACE})
    some: Json = {**_OFFSETS, "required": []}
    its = _Consumers(context.appender.topics, instances)
    busy = (409,)
    for route, handler in (
        (Route("POST", _GROUP, "A consumer of this group", made, 200, _NEW, V2, busy), its.create),
        (Route("DELETE", _AT, "End it", None, 204, None, V2, busy), its.delete),
        (Route("POST", _READS, "Which topics it reads", None, 204, topics, V2), its.subscribe),
        (Route("GET", _READS, "Which topics it reads", topics, 200, None, V2), its.subscription),
        (Route("DELETE", _READS, "Read nothing any more", None, 204, None, V2), its.unsubscribe),
        (Route("GET", f"{_AT}/assignments", "Its partitions", held, 200, None, V2), its.assigned),
        (Route("POST", f"{_AT}/positions", "Go on there", None, 204, _OFFSETS, V2, busy), its.seek),
        (Route("POST", _COMMIT, "Commit all, or these", None, 200, some, V2, busy), its.commit),
        (Route("GET", _COMMIT, "What is committed", _OFFSETS, 200, None, V2, busy), its.committed),
    ):
        route.add(router, handler)
    described = responses(RECORDS, 200, media_type("binary"), 406, *busy)
    described[200]["content"] = {media_type(each): {"schema": RECORDS} for each in FORMATS}
    router.get(f"{_AT}/records", summary="What is new", responses=described)(its.records)


class _Consumers:
    """The routes, and what they share."""

    def __init__(self, topics: Topics, instances: Instances) -> None:
        self._topics, self._instances = topics, instances

    async def create(self, request: Request, group: str) -> Response:
        check_member(request, group)
        options, name = _options(await body_of(request, _New), self._instances, group)
        made = self._instances.add(_owner(request), group, name, options)
        path = f"/consumers/{group}/instances/{made.name}"
        return _said({"instance_id": made.name, "base_uri": link(request, path)})

    async def delete(self, request: Request, group: str, instance: str) -> Response:
        found = self._mine(request, group, instance)
        found.end()
        await self._instances.remove(found, in_order=True)
        return Response(status_code=204)

    async def subscribe(self, request: Request, group: str, instance: str) -> Response:
        found = self._mine(request, group, instance)
        topics = _topics(await body_of(request, _Topics))
        await check_readable(request, self._topics, topics)
        await self._instances.do(found, lambda: found.subscribe(topics))
        return Response(status_code=204)

    async def subscription(self, request: Request, group: str, instance: str) -> Response:
        return _said({"topics": self._mine(request, group, instance).topics})

    async def unsubscribe(self, request: Request, group: str, instance: str) -> Response:
        found = self._mine(request, group, instance)
        await self._instances.do(found, lambda: found.subscribe(()))
        return Response(status_code=204)

    async def assigned(self, request: Request, group: str, instance: str) -> Response:
        found = self._reading(request, group, instance)
        held = sorted(await self._instances.do(found, found.assigned))
        return _said({"partitions": [{"topic": t, "partition": number} for t, number in held]})

    async def records(
        self,
        request: Request,
        group: str,
        instance: str,
        timeout: Annotated[
            int, Query(ge=0, le=TIMEOUT_MAX_MS, description="Milliseconds to wait for some")
        ] = TIMEOUT_MS,
        max_bytes: Annotated[int, Query(ge=1, le=ANSWER_BYTES_MAX)] = ANSWER_BYTES,
    ) -> Response:
        found = self._reading(request, group, instance)
        format = found.options.format
        if not accepts(request.headers.get("accept", ""), format):
            raise RestError(40601, f"the instance is of {format}: Accept {media_type(format)}")
        if not found.topics:
            raise RestError(409, "the instance reads no topics: POST …/subscription comes first")
        its = self._instances
        read = await its.read(found, timeout / 1000, max_bytes)
        for topic, count in read.topics.items():
            counts.went(WAY, topic, count)
        return Outgoing(read.body, media_type(format), its.answers, its.limits.slow_seconds)

    async def seek(self, request: Request, group: str, instance: str) -> Response:
        found, given = self._reading(request, group, instance), await body_of(request, _Positions)
        position = _position(given.offsets or [])
        await self._instances.do(found, lambda: found.seek(position))
        return Response(status_code=204)

    async def commit(self, request: Request, group: str, instance: str) -> Response:
        found = self._reading(request, group, instance)
        given = (await body_of(request, _Positions)).offsets
        position = None if given is None else _position(given)
        await check_readable(request, self._topics, {topic for topic, _ in position or ()})
        await self._instances.do(found, lambda: found.commit(position))
        return Response(status_code=200)

    async def committed(self, request: Request, group: str, instance: str) -> Response:
        found, given = self._reading(request, group, instance), await body_of(request, _Positions)
        position = await self._instances.do(found, found.committed)
        asked = {(each.topic, each.partition) for each in given.partitions or ()}
        said = [
            {"topic": topic, "partition": number, "offset": offset, "metadata": ""}
            for (topic, number), offset in sorted(position.items())
            if offset >= 0 and (given.partitions is None or (topic, number) in asked)
        ]
        return _said({"offsets": said})

    def _reading(self, request: Request, group: str, name: str) -> Instance:
        found = self._mine(request, group, name)
        check_topics(request, found.topics)  # it has no right that its token has lost
        return found

    def _mine(self, request: Request, group: str, name: str) -> Instance:
        check_group(request, group)
        return self._instances.get(_owner(request), group, name)


def _said(what: Json) -> Response:
    return answered(what, 200, V2)


def _owner(request: Request) -> str:
    """The token's name; where there are none, the address."""
    return who(request) or f"at {address_of(request.scope)}"


def _options(new: _New, instances: Instances, group: str) -> tuple[Options, str | None]:
    if not 0 < len(group) <= NAME_MAX:
        raise RestError(422, f"a group's name has 1 to {NAME_MAX} characters")
    if new.name is not None and not (_is_name(new.name) and len(new.name) <= NAME_MAX):
        raise RestError(422, "name is letters, digits, dots, dashes and underscores")
    if new.format not in FORMATS:
        raise RestError(42204, f"format is one of {', '.join(FORMATS)}, not {new.format[:50]!r}")
    if new.reset not in ("earliest", "latest"):
        raise RestError(42204, "auto.offset.reset is earliest or latest")
    commits = _TRUTH.get(str(new.commits).lower())
    if commits is None:
        raise RestError(42204, "auto.commit.enable is true or false")
    least = str(new.min_bytes)
    if not (least.isascii() and least.isdigit()) or not 1 <= int(least[:10]) <= ANSWER_BYTES:
        raise RestError(42204, f"fetch.min.bytes is 1 to {ANSWER_BYTES}")
    idle_s = instances.limits.consumer_idle_seconds
    return Options(new.format, new.reset, commits, int(least), idle_s), new.name


def _is_name(text: str) -> bool:
    return text.isascii() and bool(text) and all(c.isalnum() or c in "._-" for c in text)


def _topics(given: _Topics) -> list[str]:
    if given.topic_pattern is not None:
        raise RestError(422, "topic_pattern is not taken: name the topics in topics = […]")
    if not given.topics or len(given.topics) > TOPICS_MAX:
        raise RestError(422, f"topics names 1 to {TOPICS_MAX} topics")
    return given.topics


def _position(given: list[_Position]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for each in given:
        if not 0 <= each.partition < 2**31 or not 0 <= each.offset < 2**63:
            raise RestError(422, f"{each.topic[:249]}: partition and offset are 0 or more")
        found[each.topic, each.partition] = each.offset
    return found
