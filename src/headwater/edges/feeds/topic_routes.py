"""GET /topics/{topic}: records as Server-Sent Events, over a WebSocket, or a page of them as JSON.

Which one, the request says: `Accept: text/event-stream`, an upgrade to WebSocket, or neither.
"""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from headwater.browse.pages import Bounds, Page, page
from headwater.client.errors import BadRequest
from headwater.client.places import BEGINNING, Place
from headwater.client.records import Cursor
from headwater.edges import counts
from headwater.edges.answer_body import Outgoing
from headwater.edges.answers import responses
from headwater.edges.feeds import bodies
from headwater.edges.feeds.event_ids import placed, text_of
from headwater.edges.feeds.hub import Hub
from headwater.edges.feeds.request import Ask, read
from headwater.edges.feeds.transport import Opened, event_stream, web_socket
from headwater.edges.feeds.wires import SSE, WS
from headwater.edges.parameters import LAST_EVENT, STRICT, check_names

LIMIT, LIMIT_MAX = 100, 1000
BOUNDS = Bounds(scanned_max=100_000, seconds=5.0, bytes_max=8 * 1024**2)
"""A page of large records, or one that a filter leaves empty, ends here, and says where to go on."""

Key = Annotated[str | None, Query(description="Only this key")]
Where = Annotated[list[str], Query(description="FIELD=VALUE or FIELD!=VALUE; may be given again")]
Grep = Annotated[str | None, Query(description="Words, or /a regular expression/")]
After = Annotated[str | None, Query(description="An event id: what comes after it")]
From = Annotated[
    str | None, Query(alias="from", description="beginning, end, 17, 2:17, a time, -10m")
]
Snapshot = Annotated[bool | None, Query(description="The latest record of each key first")]
LastEventId = Annotated[str | None, Header(description="As browsers send it when they come back")]
PAGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["topic", "records", "next", "more"],
    "properties": {
        "topic": {"type": "string"},
        "records": {"type": "array", "items": {"type": "object"}},
        "next": {"type": "string", "description": "Give it as `after`: for a page, or for a feed"},
        "more": {"type": "boolean", "description": "Whether there is something there already"},
    },
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, or a page",
        "content": {
            "text/event-stream": {"schema": {"type": "string"}},
            "application/json": {"schema": PAGE_SCHEMA},
        },
    },
    **responses(400, 404, 422, 429, 503),
}


def add_routes(router: APIRouter, hub: Hub) -> None:
    @router.get(
        "/topics/{topic}",
        summary="Follow a topic, or read a page of it",
        response_class=Response,
        dependencies=[STRICT],
        responses=ANSWERS,
    )
    async def follow(
        request: Request,
        topic: str,
        key: Key = None,
        where: Where = [],  # noqa: B006 - FastAPI copies it
        grep: Grep = None,
        after: After = None,
        start: From = None,
        snapshot: Snapshot = None,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Of a page")] = LIMIT,
        last_event_id: LastEventId = None,
    ) -> Response:
        ask = read(
            key=key,
            where=where,
            grep=grep,
            after=last_event_id or request.query_params.get(LAST_EVENT) or after,
            start=start,
            snapshot=snapshot,
        )
        if wants_events(request):
            return await event_stream(hub.session(topic, bodies.of_record, ask, SSE))
        body = await hub.workers.run(lambda: _page(hub, topic, ask, limit))
        hub.pages.take(len(body))
        return Outgoing(body, "application/json", hub.pages, hub.slow_seconds)

    @router.websocket("/topics/{topic}")
    async def follow_by_socket(socket: WebSocket, topic: str) -> None:
        def opening() -> Opened:
            return hub.session(topic, bodies.of_record, ask_of(socket), WS)

        await web_socket(socket, opening)


_WORDS = ("key", "where", "grep", "after", "from", "snapshot")


def ask_of(socket: WebSocket) -> Ask:
    """The same words as of the other way; a socket of a browser sends no header."""
    words = socket.query_params
    check_names(words, _WORDS)
    snapshot = words.get("snapshot")
    if snapshot not in (None, "true", "false"):
        raise BadRequest(f"snapshot={snapshot[:20]}", hint="it is true or false")
    return read(
        key=words.get("key"),
        where=words.getlist("where"),
        grep=words.get("grep"),
        after=words.get(LAST_EVENT) or words.get("after") or socket.headers.get("last-event-id"),
        start=words.get("from"),
        snapshot=None if snapshot is None else snapshot == "true",
    )


def wants_events(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def _page(hub: Hub, topic: str, ask: Ask, limit: int) -> bytes:
    tests = ask.tests(hub.decoder)
    place = ask.place or BEGINNING
    if ask.after is not None:
        after = placed(topic, ask.after, hub.log.ranges(topic))
        place = Place(cursor=Cursor(after))
    keep = None if tests.is_empty else tests.fits
    found = page(hub.log, topic, place, limit=limit, keep=keep, bounds=BOUNDS)
    counts.went("page", topic, len(found.records))
    shown = [orjson.Fragment(bodies.of_record(each, hub.decoder)) for each in found.records]
    said = {"topic": topic, "records": shown, "next": _next(found), "more": found.next is not None}
    return orjson.dumps(said)


def _next(found: Page) -> str:
    return text_of((found.next or found.ends).offsets)
