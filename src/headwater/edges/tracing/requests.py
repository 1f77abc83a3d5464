"""Requests that make records, as spans: ASGI middleware around the whole interface.

A request that brings a sampled `traceparent` goes on in its trace; of the others, a share begins one. Either
way the handlers, which know nothing of this, find a `traceparent` in the request that names our span, and
keep it on the records that they make.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from headwater.edges.tracing.spans import SERVER, Span
from headwater.edges.tracing.traceparent import (
    TRACEPARENT,
    TRACESTATE,
    Context,
    begun,
    child,
    parse,
    without_ours,
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_POSITION = b"headwater-position"
_PATH_MAX = 200


class SpanExporter(Protocol):
    """Who takes the spans: `exporter.Exporter`."""

    def tell(self, spans: Iterable[Span]) -> None: ...

    def close(self) -> None: ...


class TracedRequests:
    """Each request that is traced is told as it ends; the last ones when the application does."""

    def __init__(
        self,
        application: Application,
        exporter: SpanExporter,
        ratio: float,
        chance: random.Random | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._application, self._exporter, self._ratio = application, exporter, ratio
        self._chance = chance or random.Random(random.SystemRandom().getrandbits(128))
        self._clock_ns = clock_ns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lived(scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            await self._application(scope, receive, send)
            return
        given = {name: value for name, value in scope["headers"] if name in _NAMES}
        parent = parse(given.get(_TRACEPARENT))
        own = self._own(parent)
        if own is None:
            await self._application(scope, receive, send)
            return
        scope = {**scope, "headers": _replaced(scope["headers"], own, given.get(_TRACESTATE))}
        await self._told(scope, receive, send, own, parent)

    async def _lived(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._application(scope, receive, send)
        finally:
            await asyncio.to_thread(self._exporter.close)

    def _own(self, parent: Context | None) -> Context | None:
        if parent is None:
            return begun(self._ratio, self._chance)
        return child(parent, self._chance) if parent.sampled else None

    async def _told(
        self, scope: Scope, receive: Receive, send: Send, own: Context, parent: Context | None
    ) -> None:
        answered: dict[str, Any] = {"status": 500}

        async def heard(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answered.update(message)
            await send(message)

        start_ns = self._clock_ns()
        try:
            await self._application(scope, receive, heard)
        finally:
            path, status = scope["path"][:_PATH_MAX], int(answered["status"])
            attributes: dict[str, str | int | float] = {
                "http.request.method": scope["method"],
                "url.path": path,
                "http.response.status_code": status,
            }
            for name, value in answered.get("headers", ()):
                if bytes(name).lower() == _POSITION:
                    attributes["headwater.position"] = bytes(value).decode("latin-1")
            self._exporter.tell(
                [
                    Span(
                        name=f"{scope['method']} {path}",
                        context=own,
                        parent_id=None if parent is None else parent.span_id,
                        start_ns=start_ns,
                        end_ns=max(start_ns, self._clock_ns()),
                        kind=SERVER,
                        attributes=attributes,
                        failed=f"answered with {status}" if status >= 500 else None,
                    )
                ]
            )


_TRACEPARENT, _TRACESTATE = TRACEPARENT.encode(), TRACESTATE.encode()
_NAMES = (_TRACEPARENT, _TRACESTATE)


def _replaced(
    headers: list[tuple[bytes, bytes]], own: Context, state: bytes | None
) -> list[tuple[bytes, bytes]]:
    kept = [each for each in headers if each[0] not in _NAMES]
    kept.append((_TRACEPARENT, str(own).encode()))
    # An entry in our name would make others take it for a captured record.
    if others := without_ours(state):
        kept.append((_TRACESTATE, others.encode("latin-1")))
    return kept
