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
import orjson
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from headwater.edges import counts
from headwater.edges.context import Context
from headwater.edges.guard import who
from headwater.edges.rest.access import check_group, check_topic, no_topic
from headwater.edges.rest.answers import (
    V2,
    Json,
    Refused,
    answered,
    body_of,
    described,
    in_thread,
    link,
    object_of,
    responses,
)
from headwater.edges.rest.formats import FORMATS, accepts, media_type, shown
from headwater.edges.rest.instance import Instance, Options, Place
from headwater.edges.rest.instances import ANSWER_BYTES, ANSWER_BYTES_MAX, Instances

WAY = "consumers"
TIMEOUT_MS, TIMEOUT_MAX_MS = 1000, 30_000
NAME_MAX = 249
TOPICS_MAX = 100
_AT = "/consumers/{group}/instances/{instance}"
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
_RECORDS: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["topic", "key", "value", "partition", "offset"],
        "properties": {
            "topic": {"type": "string"},
            "partition": {"type": "integer"},
            "offset": {"type": "integer"},
            "timestamp": {"type": "integer"},
        },
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


class _Position(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class _Positions(msgspec.Struct):
    offsets: list[_Position] | None = None


def add_routes(router: APIRouter, context: Context, instances: Instances) -> None:
    _add_instances(router, instances)
    _add_subscriptions(router, context, instances)
    _add_reading(router, instances)
    _add_offsets(router, instances)


def _add_instances(router: APIRouter, instances: Instances) -> None:
    @router.post(
        "/consumers/{group}",
        summary="A consumer of this group, for the token that makes it",
        responses=responses(object_of(instance_id="string", base_uri="string"), 200, V2, 409),
        openapi_extra=described(_NEW, V2),
    )
    async def create(request: Request, group: str) -> Response:
        check_group(request, group)
        options, name = _options(await body_of(request, _New), instances, group)
        made = instances.add(_owner(request), group, name, options)
        path = f"/consumers/{group}/instances/{made.name}"
        said = {"instance_id": made.name, "base_uri": link(request, path)}
        return answered(said, 200, V2)

    @router.delete(
        _AT,
        summary="End it; its partitions go to the others of the group",
        status_code=204,
        responses=responses(None, 204, V2, 409),
    )
    async def delete(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        found.end()
        await instances.remove(found, in_order=True)
        return Response(status_code=204)


def _add_subscriptions(router: APIRouter, context: Context, instances: Instances) -> None:
    @router.post(
        f"{_AT}/subscription",
        summary="Which topics it reads, instead of those before",
        status_code=204,
        responses=responses(None, 204, V2),
        openapi_extra=described(
            object_of(topics={"type": "array", "items": {"type": "string"}, "minItems": 1}), V2
        ),
    )
    async def subscribe(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        topics = _topics(await body_of(request, _Topics))
        for each in topics:
            check_topic(request, each, "read")
        known = await in_thread(context.log.topics)
        for each in topics:
            if each not in known:
                raise no_topic(each)
        await instances.do(found, lambda: found.subscribe(topics))
        return Response(status_code=204)

    @router.get(
        f"{_AT}/subscription",
        summary="Which topics it reads",
        responses=responses(object_of(topics="array"), 200, V2),
    )
    async def subscription(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        return answered({"topics": found.topics}, 200, V2)

    @router.delete(
        f"{_AT}/subscription",
        summary="Read nothing any more",
        status_code=204,
        responses=responses(None, 204, V2),
    )
    async def unsubscribe(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        await instances.do(found, lambda: found.subscribe(()))
        return Response(status_code=204)

    @router.get(
        f"{_AT}/assignments",
        summary="Which partitions the group has given it",
        responses=responses(object_of(partitions={"type": "array", "items": _PLACE}), 200, V2),
    )
    async def assignments(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        held = await instances.do(found, found.assigned)
        said = [{"topic": topic, "partition": number} for topic, number in sorted(held)]
        return answered({"partitions": said}, 200, V2)


def _add_reading(router: APIRouter, instances: Instances) -> None:
    described_as = responses(_RECORDS, 200, media_type("binary"), 406, 409)
    every = {media_type(each): {"schema": _RECORDS} for each in FORMATS}
    described_as[200]["content"] = every

    @router.get(f"{_AT}/records", summary="What is new", responses=described_as)
    async def records(
        request: Request,
        group: str,
        instance: str,
        timeout: Annotated[
            int, Query(ge=0, le=TIMEOUT_MAX_MS, description="Milliseconds to wait for some")
        ] = TIMEOUT_MS,
        max_bytes: Annotated[int, Query(ge=1, le=ANSWER_BYTES_MAX)] = ANSWER_BYTES,
    ) -> Response:
        found = _mine(request, instances, group, instance)
        format = found.options.format
        if not accepts(request.headers.get("accept", ""), format):
            raise Refused(40601, f"the instance is of format {format}: Accept {media_type(format)}")
        if not found.topics:
            raise Refused(409, "the instance reads no topics: POST …/subscription comes first")
        instances.answers.take(max_bytes)
        try:
            read = await instances.do(found, lambda: found.read(timeout / 1000, max_bytes))
            body = orjson.dumps([shown(each, format) for each in read])
        finally:
            instances.answers.bytes -= max_bytes
        for each in read:
            counts.went(WAY, each.topic, 1)
        return Response(body, media_type=media_type(format))

    @router.post(
        f"{_AT}/positions",
        summary="Go on from these offsets",
        status_code=204,
        responses=responses(None, 204, V2, 409),
        openapi_extra=described(_OFFSETS, V2),
    )
    async def seek(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        position = _position((await body_of(request, _Positions)).offsets or [])
        await instances.do(found, lambda: found.seek(position))
        return Response(status_code=204)


def _add_offsets(router: APIRouter, instances: Instances) -> None:
    @router.post(
        f"{_AT}/offsets",
        summary="Commit what was handed out, or these offsets: each the one to go on from",
        responses=responses(None, 200, V2, 409),
        openapi_extra=described({**_OFFSETS, "required": []}, V2),
    )
    async def commit(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)
        given = (await body_of(request, _Positions)).offsets
        position = None if given is None else _position(given)
        for topic, _ in position or ():
            check_topic(request, topic, "read")
        await instances.do(found, lambda: found.commit(position))
        return Response(status_code=200)

    @router.get(
        f"{_AT}/offsets",
        summary="What the group has committed of its partitions; -1001: nothing",
        responses=responses(_OFFSETS, 200, V2, 409),
    )
    async def committed(request: Request, group: str, instance: str) -> Response:
        found = _mine(request, instances, group, instance)

        def ask() -> dict[Place, int]:
            held = found.assigned()
            return found.committed(held) if held else {}

        position = await instances.do(found, ask)
        said = [
            {"topic": topic, "partition": number, "offset": offset, "metadata": ""}
            for (topic, number), offset in sorted(position.items())
        ]
        return answered({"offsets": said}, 200, V2)


def _owner(request: Request) -> str:
    """The token's name; where there are none, the address."""
    return who(request) or f"at {request.client.host if request.client else ''}"


def _mine(request: Request, instances: Instances, group: str, name: str) -> Instance:
    check_group(request, group)
    return instances.get(_owner(request), group, name)


def _options(new: _New, instances: Instances, group: str) -> tuple[Options, str | None]:
    if not 0 < len(group) <= NAME_MAX:
        raise Refused(422, f"a group's name has 1 to {NAME_MAX} characters")
    if new.name is not None and not (_is_name(new.name) and len(new.name) <= NAME_MAX):
        raise Refused(422, "name is letters, digits, dots, dashes and underscores")
    if new.format not in FORMATS:
        raise Refused(42204, f"format is one of {', '.join(FORMATS)}, not {new.format[:50]!r}")
    if new.reset not in ("earliest", "latest"):
        raise Refused(42204, "auto.offset.reset is earliest or latest")
    commits = _TRUTH.get(str(new.commits).lower())
    if commits is None:
        raise Refused(42204, "auto.commit.enable is true or false")
    least = str(new.min_bytes)
    if not (least.isascii() and least.isdigit()) or not 1 <= int(least[:10]) <= ANSWER_BYTES:
        raise Refused(42204, f"fetch.min.bytes is 1 to {ANSWER_BYTES}")
    idle_s = instances.limits.consumer_idle_seconds
    return Options(new.format, new.reset, commits, int(least), idle_s), new.name


def _is_name(text: str) -> bool:
    return text.isascii() and bool(text) and all(c.isalnum() or c in "._-" for c in text)


def _topics(given: _Topics) -> list[str]:
    if given.topic_pattern is not None:
        raise Refused(422, "topic_pattern is not taken: name the topics in topics = […]")
    if not given.topics or len(given.topics) > TOPICS_MAX:
        raise Refused(422, f"topics names 1 to {TOPICS_MAX} topics")
    return given.topics


def _position(given: list[_Position]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for each in given:
        if not 0 <= each.partition < 2**31 or not 0 <= each.offset < 2**63:
            raise Refused(422, f"{each.topic[:249]}: partition and offset are 0 or more")
        found[each.topic, each.partition] = each.offset
    return found
