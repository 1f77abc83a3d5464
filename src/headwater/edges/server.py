"""From words to listening edges: checks what may be listened to, binds, serves until told to stop.

Called by `headwater edges`.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.edges.config import Edges, of_project
from headwater.project import ports, tls
from headwater.project.file import Project
from headwater.project.web_service import CannotServe, WebService, place, project_at

if TYPE_CHECKING:
    from headwater.edges.context import Context

SERVICE = WebService("the edges", "edges")
STOP_S = 5
"""For requests that are under way; changefeeds are ended at once."""


def serve(
    path: Path | None,
    bootstrap: str | None,
    listen: str | None,
    client: Mapping[str, str],
    say: Callable[[str], None],
    *,
    default_bootstrap: str,
) -> None:
    """Until SIGTERM or SIGINT."""
    project = project_at(path)
    edges = of_project(project) if project is not None else Edges()
    if listen is not None:
        edges = replace(edges, listen=listen)
    host, port = place(edges.listen, _refusal(edges))
    if project is not None:
        os.chdir(project.folder)  # paths in its file mean that
    address = bootstrap or (project.address if project is not None else default_bootstrap)
    with SERVICE.bound(host, port, edges.limits.slow_seconds) as listener:
        _run(edges, project, address, client, listener, say)


def _run(
    edges: Edges,
    project: Project | None,
    bootstrap: str,
    client: Mapping[str, str],
    listener: socket.socket,
    say: Callable[[str], None],
) -> None:
    with SERVICE.imports():
        from headwater.edges import feeds
        from headwater.edges.app import make_app
        from headwater.project import http_server

    class Server(http_server.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # What was imported stays: looking through it again would hold up all clients for 90 ms.
            gc.collect()
            gc.freeze()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            feeds.end(context)  # they would be waited for
            await super().shutdown(sockets)

    context = made_context(edges, project, bootstrap, client)
    app = make_app(context, loopback_only=ports.is_loopback(listener.getsockname()[0]))
    config = http_server.config(
        app,
        slow_s=edges.limits.slow_seconds,
        stop_s=STOP_S,
        keep_alive_s=75,
    )
    log_settings = project.settings if project is not None else {}
    certificates = tls.certificates(edges.tls, log_settings, "edges")
    server = Server(config, certificates, edges.limits.connections_per_address)
    with context.log:
        server.run_at(listener, lambda url: say(f"the edges are at {url}"))


def made_context(
    edges: Edges, project: Project | None, bootstrap: str, client: Mapping[str, str]
) -> Context:
    """With clients that are made, and not yet connected."""
    from headwater.client.log import Log
    from headwater.edges.appender import Appender
    from headwater.edges.context import Context
    from headwater.edges.idempotency.appender import Once

    log = Log(bootstrap, client)
    limits = edges.limits
    # One record as large as a body may be has room, beside others.
    appender = Appender(log, max(limits.waiting_bytes, 2 * limits.body_bytes))
    return Context(edges, log, appender, Once(log, edges.name, appender.topics), project)


def _refusal(edges: Edges) -> CannotServe | None:
    """Why they are not for other machines; None where they may be."""
    if edges.tokens or edges.oidc is not None:
        return None
    return CannotServe(
        f"without tokens the edges listen on this machine only, and {edges.listen} is more than that",
        hint="write [edges.tokens.NAME] or [edges.oidc], or listen at 127.0.0.1",
    )
