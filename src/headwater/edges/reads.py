"""GET /views/{view}/rows and /search: rows of views as JSON, by key, page by page and by words.

A request that names a position (header `Headwater-Position`, as the answer to an append had it) waits until
the view has it: what was written is then read. Every answer says in the same header how far the view was.

    GET /views                      which views there are
    GET /views/orders/rows/17       one row; of a key of several columns, eu:17
    GET /views/orders/rows          a page of rows in the order of their keys
    GET /views/orders/search?q=ada  those that fit best, of views in full-text indexes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response

from headwater.client.errors import NotThere
from headwater.client.position import Position
from headwater.edges.answer_body import Outgoing
from headwater.edges.answers import of_error, responses
from headwater.edges.context import Context
from headwater.edges.feeds import hub_of
from headwater.edges.feeds.hub import Hub
from headwater.edges.parameters import STRICT
from headwater.edges.rows.catalogue import Catalogue
from headwater.edges.rows.positions import Positions
from headwater.edges.workers import Workers
from headwater.pipelines.view_rows import Rows, rows_of
from headwater.views.operate.wait import HEADER, NotYet
from headwater.views.targets.contract import Misfit, Unavailable
from headwater.views.targets.registry import scheme_of

READERS, AT_ONCE = 16, 8
"""Threads that ask stores, and those of one sender; whoever comes later waits."""
LIMIT, LIMIT_MAX = 100, 1000
WAIT_S, WAIT_MAX_S = 5.0, 60.0
OFFSET_MAX = 10_000

Wanted = Annotated[
    str | None, Header(alias=HEADER, description="Wait until the view has this: orders:0=17")
]
InQuery = Annotated[str | None, Query(description="The same, where no header can be sent")]
Timeout = Annotated[float, Query(ge=0, le=WAIT_MAX_S, description="Seconds to wait for it")]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
_ROW: dict[str, Any] = {"type": "object", "additionalProperties": True}
_ROWS: dict[str, Any] = {
    "type": "object",
    "required": ["view", "rows"],
    "properties": {
        "view": {"type": "string"},
        "rows": {"type": "array", "items": _ROW},
        "next": {
            "type": ["string", "null"],
            "description": "Give it as `after`; null: that was all",
        },
    },
}
_POSITION = {HEADER: {"description": "How far the view was", "schema": {"type": "string"}}}


def router(context: Context) -> APIRouter:
    made = APIRouter(tags=["views"])
    _Reads(Catalogue(context.project), hub_of(context)).add_routes(made)
    return made


class _Reads:
    """The routes, and what they share."""

    def __init__(self, catalogue: Catalogue, hub: Hub) -> None:
        self._catalogue, self._positions, self._hub = catalogue, Positions(), hub
        self._workers = Workers(READERS, AT_ONCE, "view reader")

    def add_routes(self, router: APIRouter) -> None:
        answers = _answers("The rows", _ROWS)
        get = partial(router.get, response_class=Response, dependencies=[STRICT])

        @router.get("/views", summary="Which views there are", responses=responses(503))
        async def views() -> dict[str, list[dict[str, Any]]]:
            found = await self._workers.run(self._catalogue.all)
            return {
                "views": [
                    {"view": each.name, "key": list(each.key), "in": scheme_of(each.to)}
                    for each in found
                ]
            }

        @get(
            "/views/{view}/rows/{key:path}",
            summary="One row of a view",
            responses=_answers("The row", _ROW),
        )
        async def row(
            view: str,
            key: Annotated[str, Path(description="Of several columns: eu:17")],
            wanted: Wanted = None,
            position: InQuery = None,
            timeout: Timeout = WAIT_S,
        ) -> Response:
            def read(rows: Rows) -> tuple[Position | None, Any]:
                at, found = rows.get(key)
                if found is None:
                    raise NotThere(f"{view} has no row {key[:100]!r}", hint=_how_far(at))
                return at, found.fields

            return await self._answer(view, wanted or position, timeout, read)

        @get(
            "/views/{view}/rows",
            summary="Rows of a view in the order of their keys",
            responses=answers,
        )
        async def rows(
            view: str,
            limit: Limit = LIMIT,
            after: Annotated[
                str | None, Query(description="The key of the last row before")
            ] = None,
            wanted: Wanted = None,
            position: InQuery = None,
            timeout: Timeout = WAIT_S,
        ) -> Response:
            def read(rows: Rows) -> tuple[Position | None, Any]:
                at, found = rows.page(after, limit + 1)
                shown = found[:limit]
                more = shown[-1].key if len(found) > limit else None
                return at, {"view": view, "rows": [each.fields for each in shown], "next": more}

            return await self._answer(view, wanted or position, timeout, read)

        @get(
            "/views/{view}/search",
            summary="Rows of a view that fit some words best",
            responses=answers,
        )
        async def search(
            view: str,
            q: Annotated[str, Query(min_length=1, max_length=1000, description="Words")],
            limit: Limit = 10,
            offset: Annotated[int, Query(ge=0, le=OFFSET_MAX)] = 0,
            wanted: Wanted = None,
            position: InQuery = None,
            timeout: Timeout = WAIT_S,
        ) -> Response:
            def read(rows: Rows) -> tuple[Position | None, Any]:
                at, found = rows.search(q, limit, offset)
                return at, {"view": view, "rows": found}

            return await self._answer(view, wanted or position, timeout, read)

    async def _answer(
        self,
        name: str,
        wanted: str | None,
        timeout: float,
        read: Callable[[Rows], tuple[Position | None, Any]],
    ) -> Response:
        view = await self._workers.run(lambda: self._catalogue.view(name))
        rows = await self._workers.run(lambda: rows_of(view))
        try:
            if wanted:
                await self._positions.wait(view, Position.parse(wanted), timeout)
            at, body = await self._workers.run(lambda: _as_json(*read(rows)))
        except NotYet as error:
            return _with_position(of_error(error), error.reached)
        except Misfit as error:
            raise Unavailable(str(error), hint=error.hint) from error
        pages = self._hub.pages
        pages.take(len(body))
        answer = Outgoing(body, "application/json", pages, self._hub.slow_seconds)
        return _with_position(answer, at)


def _as_json(at: Position | None, said: object) -> tuple[Position | None, bytes]:
    return at, orjson.dumps(said)


def _with_position(answer: Response, position: Position | None) -> Response:
    if position is not None:
        answer.headers[HEADER] = str(position)
    return answer


def _how_far(position: Position | None) -> str:
    return f"the view is at {position}" if position is not None else "the view has not begun"


def _answers(what: str, schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"schema": schema}}
    said = {"description": what, "content": content, "headers": _POSITION}
    return {200: said, **responses(400, 404, 422, 429, 503)}
