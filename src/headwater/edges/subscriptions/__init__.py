"""Webhook subscriptions by API: made, changed, paused, tried out and deleted over HTTP, while the edges run.

    settings    [edges.subscriptions]                   routes     /webhooks…
    entry       one subscription as it is kept; pure    runner     delivers for those that are there
    directory   all of them, a view of their topic      history    what was delivered, and how it went
    topic_view  a topic followed from its beginning

What is delivered, and how, is `webhooks`: here it is only said to whom.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from headwater.edges.subscriptions.settings import check as check

if TYPE_CHECKING:
    from fastapi import APIRouter

    from headwater.edges.context import Context
    from headwater.edges.services import Service
    from headwater.edges.subscriptions.runner import Runner

_RUNNERS: weakref.WeakKeyDictionary[object, Runner] = weakref.WeakKeyDictionary()
"""By the context's log."""


def runner_of(context: Context) -> Runner | None:
    """That of these edges, made when first asked for; None where the file has no [edges.subscriptions]."""
    from headwater.edges.subscriptions.runner import Runner
    from headwater.edges.subscriptions.settings import Settings

    if context.edges.subscriptions is None:
        return None
    found = _RUNNERS.get(context.log)
    if found is None:
        found = _RUNNERS[context.log] = Runner(context, Settings(context.edges.subscriptions))
    return found


def router(context: Context) -> APIRouter:
    from fastapi import APIRouter

    from headwater.edges.subscriptions import routes

    made, runner = APIRouter(tags=["webhook subscriptions"]), runner_of(context)
    if runner is not None:
        routes.add_routes(made, context, runner)
    return made


def services(context: Context) -> list[Service]:
    runner = runner_of(context)
    return [] if runner is None else [runner.history, runner.directory, runner]
