"""The HTTP interface: one router per file of this package, behind one guard.

GET  /healthz /status /metrics /metrics/kafka /openapi.json
POST /topics/{topic}      http_in        POST /hooks/{hook}    hooks
GET  /topics/{topic}      feeds          GET  /views/{view}…   feeds, reads
     /v3/clusters/…       rest                /consumers/…     rest (and POST /topics of v2)
     /webhooks…           subscriptions

Also here: topics that the file names as destinations: made where they are missing, before any service starts.

As captures do. What somebody sends to by HTTP, or reads from, is never made: it would mostly be misspelt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headwater import __version__
from headwater.client.topics import ensure
from headwater.edges import (
    alerts,
    bridges,
    feeds,
    hooks,
    http_in,
    metrics,
    openapi,
    reads,
    rest,
    subscriptions,
    tracing,
    webhooks,
)
from headwater.edges.answers import PROBLEM_SCHEMA, handle, problem
from headwater.edges.config import Edges
from headwater.edges.context import Context
from headwater.edges.fast_path import FastPath
from headwater.edges.guard import Guard
from headwater.edges.rest.answers import RestError, refusal
from headwater.edges.services import Reporter, Service, run_all
from headwater.errors import HeadwaterError
from headwater.project.control import Watched, folder_of

ROUTERS = (
    http_in.router,
    hooks.router,
    feeds.router,
    reads.router,
    rest.router,
    subscriptions.router,
    metrics.router,
)
SERVICES = (
    bridges.services,
    webhooks.services,
    subscriptions.services,
    alerts.services,
    feeds.services,
    rest.services,
    tracing.services,
)


def make_app(context: Context, *, loopback_only: bool) -> ASGIApp:
    """All of it; the services run while the application does."""
    app = FastAPI(
        title="headwater edges",
        version=__version__,
        description="Events into the log, changes out of it.",
        lifespan=_lifespan(context),
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
    )
    app.add_exception_handler(HeadwaterError, handle)
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(RestError, refusal)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.include_router(_own(context))
    for router in ROUTERS:
        app.include_router(router(context))
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    fast_path = FastPath(app, rest.in_front(context, http_in.handler(context)))
    guard = Guard(tracing.middleware(fast_path, context), context, loopback_only=loopback_only)
    return rest.ErrorForm(guard)


def services_of(context: Context) -> list[Service]:
    return [service for some in SERVICES for service in some(context)]


async def _running(context: Context) -> None:
    await made(context)
    control = None if context.project is None else Watched(folder_of(context.project))
    async with asyncio.TaskGroup() as group:
        group.create_task(run_all(services_of(context), context.status, control))
        if context.project is not None:
            group.create_task(Reporter(context.status, context.project).run())


def _lifespan(context: Context) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        context.appender.start()
        await context.once.start()
        running = asyncio.create_task(_running(context))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await context.once.close()
            await context.appender.close()
            context.close()

    return lifespan


def _own(context: Context) -> APIRouter:
    router = APIRouter(tags=["process"])

    @router.get("/healthz", summary="Whether the process is well")
    async def healthz() -> dict[str, bool]:
        return {"ok": True}

    @router.get("/status", summary="What each service is doing, and why it last failed")
    async def status() -> dict[str, Any]:
        found = context.status.services.items()
        return {"services": {name: state.as_json() for name, state in sorted(found)}}

    return router


def _described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI of every route, with the one form that all problems have."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = PROBLEM_SCHEMA
        schemes = found["components"].setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        found["security"] = [{"token": []}, {}]
        openapi.everywhere(found)
        app.openapi_schema = found
    return app.openapi_schema


async def _http_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "GET /openapi.json says what there is" if error.status_code in (404, 405) else None
    return problem(error.status_code, str(error.detail), hint=hint, headers=error.headers)


async def _not_understood(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(each) for each in first["loc"])
    return problem(422, f"{where}: {first['msg']}", hint="GET /openapi.json says what is taken")


AGAIN_S = 1.0
_TOPIC = "topic:"
_log = logging.getLogger("headwater.edges")


def named(edges: Edges) -> list[str]:
    """Of hooks, of bridges into the log, and of alerts that are told to a topic."""
    found = {section["topic"] for section in edges.hooks.values() if "topic" in section}
    for section in (*edges.bridges.values(), *edges.alerts.values()):
        for to in _texts(section.get("to")):
            if to.startswith(_TOPIC):
                found.add(to.removeprefix(_TOPIC))
    return sorted(found)


def _texts(value: object) -> list[str]:
    return [
        each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
    ]


async def made(context: Context) -> None:
    """Until all are there, however long the log is away."""
    wanted = named(context.edges)
    told = False
    while wanted:
        try:
            for topic in wanted:
                await asyncio.to_thread(ensure, context.log, topic)
            return
        except HeadwaterError as error:
            if not told:
                _log.warning("waiting for the log, to make topics: %s", error)
            told = True
        except Exception:  # without these topics no service would ever start
            _log.exception("making topics failed; it is tried again")
        await asyncio.sleep(AGAIN_S)
