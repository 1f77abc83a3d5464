"""Changefeeds: topics and views as Server-Sent Events and over WebSockets, from a snapshot or a place on.

    topic_routes, views.routes   what is asked for          session     one client, from first event to last
    transport                    the two ways out           hub, feed   one reader per topic, for all clients
    request, event_ids           the words of a request     channels, outbox   who gets what, within bounds
    follower, history            the log, now and before    recent, state   what is kept in memory
    wires, bodies                events as bytes            views       a view's changes as a topic

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
from headwater.edges.rows.catalogue import Catalogue
from headwater.edges.services import Service


class Feeds:
    """All changefeeds of one process: a service that closes what they have open when the edges stop."""

    name = "feeds"

    def __init__(self, context: Context) -> None:
        from headwater.edges.feeds.views.routes import Views

        self.hub = Hub(context.log, context.edges.limits)
        self.views = Views(self.hub, Catalogue(context.project), of=self)

    def facts(self) -> Mapping[str, Any]:
        shown = {"clients": self.hub.clients, "topics": self.hub.feeds()}
        return {**shown, "views": self.views.feeds.facts()}

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.views.feeds.close()
            self.hub.close()


_FEEDS: weakref.WeakValueDictionary[int, Feeds] = weakref.WeakValueDictionary()
"""By the id of the context's log; each is held by its router."""


def feeds_of(context: Context) -> Feeds:
    """Those of these edges: made when first asked for."""
    found = _FEEDS.get(id(context.log))
    if found is None or found.hub.log is not context.log:
        found = _FEEDS[id(context.log)] = Feeds(context)
    return found


def hub_of(context: Context) -> Hub:
    return feeds_of(context).hub


def router(context: Context) -> APIRouter:
    from headwater.edges.feeds import topic_routes

    made = APIRouter(tags=["changefeeds"])
    feeds = feeds_of(context)
    topic_routes.add_routes(made, feeds.hub)
    feeds.views.add_routes(made)
    return made


def services(context: Context) -> list[Service]:
    return [feeds_of(context)]


def end(context: Context) -> None:
    """Tell every client that the process is about to stop. On its event loop."""
    hub_of(context).end()
