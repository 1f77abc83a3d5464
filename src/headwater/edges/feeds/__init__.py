"""Changefeeds: topics and views as Server-Sent Events and over WebSockets, from a snapshot or a place on.

    topic_routes, view_routes    what is asked for          session     one client, from first event to last
    streaming                    the two ways out           hub, feed   one reader per topic, for all clients
    asking, event_ids            the words of a request     channels, outbox   who gets what, within bounds
    following, reading           the log, now and before    recent, fold       what is kept in memory
    wires, bodies                events as bytes            view_feed   a view's changes as a topic

Nothing is delivered twice and nothing left out: an event's id is the position behind it. A client that is too
slow is dropped and told so, and can come back with its last id; the others never wait for it.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from headwater.edges.context import Context
from headwater.edges.feeds.hub import Hub
from headwater.edges.services import Service

_HUBS: weakref.WeakValueDictionary[int, Hub] = weakref.WeakValueDictionary()
"""By the id of their contexts; each is held by its router."""


def hub_of(context: Context) -> Hub:
    """The one of these edges: made when first asked for."""
    found = _HUBS.get(id(context))
    if found is None or found.log is not context.log:
        found = _HUBS[id(context)] = Hub(context.log, context.edges.limits)
    return found


def router(context: Context) -> APIRouter:
    from headwater.edges.feeds import topic_routes

    made = APIRouter(tags=["changefeeds"])
    topic_routes.add_routes(made, hub_of(context))
    return made


def services(context: Context) -> list[Service]:
    return [Feeds(hub_of(context))]


def end(context: Context) -> None:
    """Tell every client that the process is about to stop. On its event loop."""
    hub_of(context).end()


class Feeds:
    """Closes what the changefeeds have open when the edges stop."""

    name = "feeds"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def facts(self) -> Mapping[str, Any]:
        return {"clients": self._hub.clients, "topics": self._hub.feeds()}

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._hub.close()
