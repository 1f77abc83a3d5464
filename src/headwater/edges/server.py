"""From words to listening edges: checks what may be listened to, binds, serves until told to stop.

Called by `headwater edges`.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.edges.config import Edges, of_project
from headwater.edges.errors import CannotServe
from headwater.project import ports, tls
from headwater.project.file import FILE, Project, load

if TYPE_CHECKING:
    from headwater.edges.context import Context

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
    project = _project(path)
    edges = of_project(project) if project is not None else Edges()
    if listen is not None:
        edges = replace(edges, listen=listen)
    host, port = _checked(edges)
    if project is not None:
        os.chdir(project.folder)  # paths in its file mean that
    address = bootstrap or (project.address if project is not None else default_bootstrap)
    with _bound(host, port, edges.limits.slow_seconds) as listener:
        _run(edges, project, address, client, listener, say)


def _run(
    edges: Edges,
    project: Project | None,
    bootstrap: str,
    client: Mapping[str, str],
    listener: socket.socket,
    say: Callable[[str], None],
) -> None:
    try:
        import uvicorn

        from headwater.edges import feeds
        from headwater.edges.app import make_app
        from headwater.project import http_protocol, http_server
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("headwater"):
            raise
        raise CannotServe(
            f"the edges need the package {error.name}, which is not installed",
            hint="pip install 'headwater[edges]'",
        ) from None

    class Server(http_server.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # What was imported stays: looking through it again would hold up all clients for 90 ms.
            gc.collect()
            gc.freeze()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            feeds.end(context)  # they would be waited for
            await super().shutdown(sockets)

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    host, port = listener.getsockname()[:2]
    context = made_context(edges, project, bootstrap, client)
    app = make_app(context, loopback_only=ports.is_loopback(host))
    config = uvicorn.Config(
        app,
        http=http_protocol.protocol(edges.limits.slow_seconds),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_S,
        timeout_keep_alive=75,
        ws_max_size=1024**2,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # anybody could say who he is
    )
    certificates = _certificates(edges, project)
    server = Server(config, certificates)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: setattr(server, "should_exit", True))
    say(f"the edges are at {ports.url_of(host, port, is_secure=certificates is not None)}")
    with context.log:
        server.run(sockets=[listener])


def _certificates(edges: Edges, project: Project | None) -> tls.Certificates | None:
    given = tls.settings_of(edges.tls, project.settings if project is not None else {})
    return None if given is None else tls.Certificates(given, "edges")


def made_context(
    edges: Edges, project: Project | None, bootstrap: str, client: Mapping[str, str]
) -> Context:
    """With clients that are made, and not yet connected."""
    from headwater.client.log import Log
    from headwater.edges.appender import Appender
    from headwater.edges.context import Context
    from headwater.edges.once import Once

    log = Log(bootstrap, client)
    appender = Appender(log, edges.limits.waiting_bytes)
    return Context(edges, log, appender, Once(log, edges.name), project)


def _project(path: Path | None) -> Project | None:
    """The one that is named; else the one in this folder, if there is one."""
    if path is not None:
        return load((path / FILE if path.is_dir() else path).absolute())
    here = Path(FILE).absolute()
    return load(here) if here.exists() else None


def _checked(edges: Edges) -> tuple[str, int]:
    try:
        host, port = ports.split(edges.listen)
    except ValueError as error:
        raise CannotServe(str(error)) from None
    if not edges.tokens and not ports.is_loopback(host):
        raise CannotServe(
            f"without tokens the edges listen on this machine only, and {host} is more than that",
            hint="write [edges.tokens.NAME] with secret, read and write, or listen at 127.0.0.1",
        )
    return host, port


@contextmanager
def _bound(host: str, port: int, slow_seconds: float) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CannotServe(
            f"the edges cannot listen at {host}:{port}: {error.strerror or error}",
            hint="give another address with --listen, or listen = … under [edges]",
        ) from None
    with listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # those accepted have it too
        if patience := getattr(socket, "TCP_USER_TIMEOUT", None):
            # The kernel ends connections of clients that take nothing: asyncio would wait for ever.
            listener.setsockopt(socket.IPPROTO_TCP, patience, int(slow_seconds * 1000))
        yield listener
