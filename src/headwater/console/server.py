"""From words to a listening console: checks what may be listened to, binds, serves until told to stop.

Called by `headwater console`.

What a console is told, by words and by the project's file; words go before the file.

The process moves into the project's folder, as paths in its file mean that.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client.log import Log
from headwater.console import addresses
from headwater.console.addresses import DEFAULT
from headwater.console.context import Context
from headwater.console.history import History
from headwater.console.jobs import Jobs
from headwater.console.sessions import Sessions
from headwater.console.watching import Watch
from headwater.errors import HeadwaterError
from headwater.project.file import FILE, Project, load
from headwater.project.tls import Certificates, settings_of
from headwater.secrets import Secrets

if TYPE_CHECKING:
    import uvicorn


STOP_S = 3
SLOW_S = 30.0
"""For the head of a request."""


class CannotServe(HeadwaterError):
    """The console cannot listen there, or may not."""


def serve(
    context: Context,
    listen: str,
    token: str | Secrets | None,
    say: Callable[[str], None],
    tls_settings: Mapping[str, str] | None = None,
) -> None:
    """Until SIGTERM or SIGINT."""
    host, port = _checked(listen, token)
    certificates = None if tls_settings is None else Certificates(tls_settings, "console")
    with _bound(host, port) as listener:
        loopback_only = addresses.is_loopback(host)
        server = _server(context, token, certificates, loopback_only=loopback_only)
        at = addresses.url_of(host, listener.getsockname()[1], is_secure=certificates is not None)
        say(f"the console is at {at}")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: setattr(server, "should_exit", True))
        server.run(sockets=[listener])


def _checked(listen: str, token: str | Secrets | None) -> tuple[str, int]:
    try:
        host, port = addresses.split(listen)
    except ValueError as error:
        raise CannotServe(str(error)) from None
    if token is None and not addresses.is_loopback(host):
        raise CannotServe(
            f"without a token the console listens on this machine only, and {host} is more than that",
            hint="set HEADWATER_CONSOLE_TOKEN, or listen at 127.0.0.1",
        )
    return host, port


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise CannotServe(
            f"the console cannot listen at {host}:{port}: {error.strerror or error}",
            hint="give another address with --listen, or listen = … under [console]",
        ) from None
    with listener:
        yield listener


def _server(
    context: Context,
    token: str | Secrets | None,
    certificates: Certificates | None,
    *,
    loopback_only: bool,
) -> uvicorn.Server:
    try:
        import uvicorn

        from headwater.console.app import make_app
        from headwater.project import http_protocol
        from headwater.project.http_server import Server
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("headwater"):
            raise
        raise CannotServe(
            f"the console needs the package {error.name}, which is not installed",
            hint="pip install 'headwater[console]'",
        ) from None

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    app = make_app(context, Sessions(token) if token else None, loopback_only=loopback_only)
    config = uvicorn.Config(
        app,
        http=http_protocol.protocol(SLOW_S),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_S,
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # anybody could say who he is
    )
    return Server(config, certificates)


@dataclass(frozen=True)
class Given:
    """All that is known before it starts."""

    bootstrap: str
    client: Mapping[str, str]
    project: Project | None
    listen: str
    token: str | Secrets | None
    read_only: bool
    tls: Mapping[str, str] | None = None
    """The broker's settings for TLS; None: there is none."""

    def context(self, *, read_only: bool) -> Context:
        log = Log(self.bootstrap, self.client)
        return Context(
            bootstrap=self.bootstrap,
            client=self.client,
            project=self.project,
            read_only=read_only or self.read_only,
            log=log,
            history=History(self.bootstrap, self.client),
            watch=Watch(log, self.client, self.project),
            jobs=Jobs(),
        )


def settled(
    project: Path | None,
    bootstrap: str | None,
    client: Mapping[str, str],
    *,
    default_bootstrap: str,
) -> Given:
    """Read the project, where there is one, and go into its folder."""
    found = _project(project, alone=bootstrap is not None)
    if found is None:
        return Given(bootstrap or default_bootstrap, client, None, DEFAULT, None, False)
    os.chdir(found.folder)
    said = found.console or {}
    token = said.get("token")
    return Given(
        bootstrap=bootstrap or found.address,
        client=client,
        project=found,
        listen=said.get("listen", DEFAULT),
        token=Secrets([token]) if token else None,
        read_only=said.get("read_only", False),
        tls=settings_of(said.get("tls"), found.settings),
    )


def _project(path: Path | None, *, alone: bool) -> Project | None:
    """The one that is named; else the one in this folder, unless only an address was given."""
    if path is not None:
        return load((path / FILE if path.is_dir() else path).absolute())
    here = Path(FILE).absolute()
    return load(here) if here.exists() and not alone else None
