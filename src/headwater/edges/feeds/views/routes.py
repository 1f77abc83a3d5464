"""GET /views/{view}: the rows of a view now, and then every change, by Server-Sent Events or a WebSocket.

A view in a store is followed through the topic of its changes (`views.changes`), one that goes to a topic
through that. Asked without either, it says what the view is and how far.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from headwater.client.errors import BadRequest
from headwater.edges.answers import responses
from headwater.edges.feeds import bodies
from headwater.edges.feeds.hub import Hub
from headwater.edges.feeds.request import Ask, read
from headwater.edges.feeds.session import Session
from headwater.edges.feeds.topic_routes import (
    After,
    Grep,
    Key,
    LastEventId,
    Where,
    ask_of,
    wants_events,
)
from headwater.edges.feeds.transport import Opened, event_stream, web_socket
from headwater.edges.feeds.views.feeds import ViewFeeds
from headwater.edges.feeds.wires import SSE, WS, Wire
from headwater.edges.parameters import LAST_EVENT, STRICT
from headwater.edges.rows.catalogue import Catalogue
from headwater.edges.rows.positions import Positions
from headwater.views.targets.registry import is_store, scheme_of

if TYPE_CHECKING:
    from headwater.pipelines.declarations import View

VIEW_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["view", "key", "in", "position"],
    "properties": {
        "view": {"type": "string"},
        "key": {"type": "array", "items": {"type": "string"}},
        "in": {"type": "string", "description": "The kind of store"},
        "position": {"type": ["string", "null"]},
    },
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, or what the view is",
        "content": {
            "text/event-stream": {"schema": {"type": "string"}},
            "application/json": {"schema": VIEW_SCHEMA},
        },
    },
    **responses(400, 404, 422, 429, 503),
}


class Views:
    """What the routes of views share."""

    def __init__(self, hub: Hub, catalogue: Catalogue, of: object) -> None:
        self._hub, self._catalogue = hub, catalogue
        self._of = of  # lives as long as the routes do
        self.feeds = ViewFeeds(hub.log)
        self._positions = Positions()

    def add_routes(self, router: APIRouter) -> None:
        @router.get(
            "/views/{view}",
            summary="Follow a view, or see what it is",
            response_class=Response,
            dependencies=[STRICT],
            responses=ANSWERS,
        )
        async def follow(
            request: Request,
            view: str,
            key: Key = None,
            where: Where = [],  # noqa: B006 - FastAPI copies it
            grep: Grep = None,
            after: After = None,
            snapshot: Annotated[bool, Query(description="The rows as they are now first")] = True,
            last_event_id: LastEventId = None,
        ) -> Response:
            after = last_event_id or request.query_params.get(LAST_EVENT) or after
            ask = read(key=key, where=where, grep=grep, after=after, snapshot=snapshot)
            if wants_events(request):
                return await event_stream(self._session(view, ask, SSE))
            return await self._described(view)

        @router.websocket("/views/{view}")
        async def follow_by_socket(socket: WebSocket, view: str) -> None:
            def opening() -> Opened:
                ask = ask_of(socket)
                if ask.place is not None:
                    raise BadRequest("a view has no `from`", hint="give snapshot or after")
                return self._session(view, ask, WS)

            await web_socket(socket, opening)

    @asynccontextmanager
    async def _session(self, name: str, ask: Ask, wire: Wire) -> AsyncIterator[Session]:
        view = await self._hub.workers.run(lambda: self._catalogue.view(name))
        async with (
            self._topic(view) as topic,
            self._hub.session(topic, bodies.of_row, ask, wire, is_state=True) as session,
        ):
            yield session

    @asynccontextmanager
    async def _topic(self, view: View) -> AsyncIterator[str]:
        scheme, _, rest = view.to.partition(":")
        if scheme == "topic":
            yield rest
            return
        async with self.feeds.fed(view) as topic:
            yield topic

    async def _described(self, name: str) -> Response:
        view = await self._hub.workers.run(lambda: self._catalogue.view(name))
        position = await self._positions.now(view) if is_store(view.to) else None
        said = {"view": view.name, "key": list(view.key), "in": scheme_of(view.to)}
        return JSONResponse({**said, "position": None if position is None else str(position)})
