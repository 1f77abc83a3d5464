"""One record from where it began to the views that follow it, as OpenTelemetry traces.

    traceparent  the header that travels with a record          settings   [edges.tracing]
    requests     HTTP in as spans                               spans      what is told, as data
    follower     the service that looks at records and readers  in_flight  what waits for its readers
    exporter     spans to a collector

Nothing of it runs without a section [edges.tracing]. Captures mark records (`capture.traceparent`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.edges.tracing.settings import check as check
from headwater.edges.tracing.settings import read

if TYPE_CHECKING:
    from headwater.edges.context import Context
    from headwater.edges.services import Service
    from headwater.edges.tracing.requests import Application

__all__ = ["check", "middleware", "services"]


def services(context: Context) -> list[Service]:
    """The follower, where the file asks for one."""
    if context.edges.tracing is None:
        return []
    from headwater.edges.tracing.exporter import Exporter
    from headwater.edges.tracing.follower import Follower

    tracing = read(context.edges.tracing)
    return [Follower(context.log, tracing, Exporter(tracing))]


def middleware(application: Application, context: Context) -> Application:
    """The whole interface, with requests as spans where the file asks for them."""
    if context.edges.tracing is None:
        return application
    from headwater.edges.tracing.exporter import Exporter
    from headwater.edges.tracing.requests import TracedRequests

    tracing = read(context.edges.tracing)
    return TracedRequests(application, Exporter(tracing), tracing.ratio)
