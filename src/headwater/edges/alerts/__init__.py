"""Alerts: rules on topics, views and groups, and word to people when they begin and cease to hold.

    rules    `when = …`; pure        record_rules  rules that look at each record
    runner   what there is to run    watcher       rules that measure, over the last minutes
    judge    what is news; pure      measurement   lag and silence, one look
    notices  what was said: a topic  senders       by mail, as a command, into a topic

A rule appends notices to the topic `headwater.alerts`; whoever is to be told follows it as a webhook does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.edges.alerts.config import check as check

if TYPE_CHECKING:
    from headwater.edges.context import Context
    from headwater.edges.services import Service


def services(context: Context) -> list[Service]:
    """Two for each [edges.alerts.NAME]: one that looks, one that tells."""
    from headwater.edges.alerts.runner import started

    return [
        service
        for name, section in context.edges.alerts.items()
        for service in started(context, name, section)
    ]
