"""POST /v3/clusters/{id}/topics/{topic}/records: records in, each with its key, headers, partition and time.

One object in the body is answered by one, whose error is the status. Several in a row are stored in their
order, those that are no good left out, and answered by as many objects in the same order, with status 200.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headwater.client.errors import BrokerUnreachable, NotThere, RequestRefused
from headwater.client.publisher import Stored
from headwater.edges import bodies, counts, request_body
from headwater.edges.answer_body import Pieces
from headwater.edges.context import Context
from headwater.edges.errors import Overloaded
from headwater.edges.feeds.bodies import moment
from headwater.edges.request_body import Incoming
from headwater.edges.rest.access import NO_PARTITION, check_topic
from headwater.edges.rest.answers import Json, RestError, Route, answered
from headwater.edges.rest.cluster import Cluster
from headwater.edges.rest.formats import BAD_RECORD, Bad, Produced, read
from headwater.edges.schemas import Schemas
from headwater.errors import HeadwaterError

WAY = "rest"
AT_ONCE_BYTES = 4 * 1024
"""A smaller body is taken apart where it arrives; two bytes are a record here (`{}`)."""
RECORD_BYTES = 640
"""Of memory for one record, beside what was sent: itself, its place in the log, what is said of it."""
_UNKNOWN_PARTITION = -190
"""librdkafka's code of it."""
_DATA: Json = {
    "type": ["object", "null"],
    "required": ["type"],
    "properties": {"type": {"enum": ["BINARY", "JSON", "STRING"]}, "data": {}},
}
_BODY: Json = {
    "type": "object",
    "properties": {
        "partition_id": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31 - 1},
        "headers": {
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "value": {"type": ["string", "null"], "description": "base64"},
                },
            },
        },
        "key": _DATA,
        "value": {**_DATA, "description": "Missing or null: a tombstone"},
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
    },
}
_ANSWER: Json = {
    "type": "object",
    "required": ["error_code"],
    "properties": {
        "error_code": {"type": "integer", "description": "200: stored"},
        "message": {"type": "string"},
        "cluster_id": {"type": "string"},
        "topic_name": {"type": "string"},
        "partition_id": {"type": "integer"},
        "offset": {"type": "integer"},
        "timestamp": {"type": ["string", "integer"]},
        "key": {"type": "object"},
        "value": {"type": "object"},
    },
}


def add_routes(router: APIRouter, context: Context) -> None:
    cluster, producing = Cluster(context), Producing(context)

    async def post(request: Request, cluster_id: str, topic_name: str) -> Response:
        check_topic(request, topic_name, "write")
        await cluster.topic(cluster_id, topic_name)
        body = await bodies.read(request, context.edges.limits.body_bytes)
        return await producing.answer(cluster_id, topic_name, body, request_body.of(request.scope))

    said = "Append a record, or several objects in a row; answered once they are on disk"
    path = "/v3/clusters/{cluster_id}/topics/{topic_name}/records"
    Route("POST", path, said, _ANSWER, body=_BODY, more=(415,)).add(router, post)


class Producing:
    """From a body to what became of each record."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._schemas = Schemas.of(context)

    async def answer(
        self, cluster_id: str, topic: str, body: bytes, incoming: Incoming
    ) -> Response:
        found = await self.taken_apart(topic, body, lambda: read(body, _now_ms()))
        if not found:
            raise RestError(400, "the body is empty: send a JSON object for each record")
        # Before anything is stored: then it can be refused.
        incoming.take(RECORD_BYTES * len(found))
        if (await self._context.appender.topics.find(topic)).is_compacted:
            found = [_keyed(topic, each) for each in found]
        good = [each for each in found if isinstance(each, Produced)]
        stored = await self._context.appender.append_each(topic, [each.draft for each in good])
        if len(found) == 1:
            return _of_one(next(_told(cluster_id, topic, found, stored)))
        said = await self._context.parsers.run(lambda: together(cluster_id, topic, found, stored))
        return Pieces(said, "application/json", self._context.edges.limits.slow_seconds)

    async def taken_apart(
        self, topic: str, body: bytes, records: Callable[[], Iterable[Produced | Bad]]
    ) -> list[Produced | Bad]:
        """As the topic's schema has them, if it has one."""

        def checked() -> list[Produced | Bad]:
            return [self._checked(topic, each) for each in records()]

        schema = self._schemas.get(topic)
        if schema is not None and schema.is_stored_otherwise:  # a registry may have to be asked
            return await self._context.asking.run(checked)
        if len(body) < AT_ONCE_BYTES:
            return checked()
        return await self._context.parsers.run(checked)

    def _checked(self, topic: str, each: Produced | Bad) -> Produced | Bad:
        if isinstance(each, Bad):
            return each
        wrong = self._schemas.complaint(topic, each.draft.value)
        if wrong is not None:
            return Bad(BAD_RECORD, f"{wrong}: see the topic's schema")
        value = self._schemas.stored(topic, each.draft.value)
        if value is each.draft.value:
            return each
        return each._replace(draft=replace(each.draft, value=value))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def together(
    cluster_id: str,
    topic: str,
    found: Sequence[Produced | Bad],
    stored: Sequence[Stored | HeadwaterError],
) -> bytes:
    """Piece by piece: a kilobyte and more is kept for each text until it goes."""
    text = bytearray()
    for each in _told(cluster_id, topic, found, stored):
        text += orjson.dumps(each) + b"\r\n"
    del text[-2:]
    return bytes(text)


def _told(
    cluster_id: str,
    topic: str,
    found: Sequence[Produced | Bad],
    stored: Sequence[Stored | HeadwaterError],
) -> Iterator[Json]:
    """What became of each record; in a thread, where they are many."""
    left = iter(stored)
    size = sum(len(each.draft.value or b"") for each in found if isinstance(each, Produced))
    counts.arrived(WAY, topic, sum(isinstance(each, Stored) for each in stored), size)
    for each in found:
        if isinstance(each, Bad):
            yield _error(each.code, each.reason)
        else:
            yield _outcome(cluster_id, topic, each, next(left))


def _keyed(topic: str, each: Produced | Bad) -> Produced | Bad:
    if isinstance(each, Bad) or each.draft.key is not None:
        return each
    return Bad(BAD_RECORD, f"{topic} is compacted, and the record has no key: give it one")


def _outcome(cluster_id: str, topic: str, sent: Produced, stored: Stored | HeadwaterError) -> Json:
    if not isinstance(stored, Stored):
        hint = "" if stored.hint is None else f"; {stored.hint}"
        return _error(_code(stored), f"{stored}{hint}")
    at_ms = sent.draft.timestamp_ms
    assert at_ms is not None
    said: Json = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": stored.partition,
        "offset": stored.offset,
        "timestamp": moment(at_ms),
    }
    for name, kind, data in (
        ("key", sent.key_type, sent.draft.key),
        ("value", sent.value_type, sent.draft.value),
    ):
        if data is not None:
            said[name] = {"type": kind, "size": len(data)}
    return said


def _code(error: HeadwaterError) -> int:
    if isinstance(error, RequestRefused) and error.code == _UNKNOWN_PARTITION:
        return NO_PARTITION
    if isinstance(error, NotThere):
        return 40401
    if isinstance(error, Overloaded):
        return 429
    return 503 if isinstance(error, BrokerUnreachable) else 400


def _error(code: int, message: str) -> Json:
    counts.refused(WAY, "record")
    return {"error_code": code, "message": message}


def _of_one(said: Json) -> Response:
    code = said["error_code"]
    assert isinstance(code, int)
    return answered(said, code if code < 1000 else code // 100)
