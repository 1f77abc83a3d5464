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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client.log import Log
from headwater.console import addresses
from headwater.console.addresses import DEFAULT
from headwater.console.broker_users import BrokerUsers
from headwater.console.context import Context
from headwater.console.history import History
from headwater.console.jobs import Jobs
from headwater.console.sessions import SESSION_S, Sessions, Token
from headwater.console.watching import Watch
from headwater.errors import HeadwaterError
from headwater.project.file import FILE, Project, load
from headwater.project.roles import ROLES, Grants, Role, grants_of
from headwater.project.tls import Certificates, settings_of
from headwater.secrets import Secrets

if TYPE_CHECKING:
    import uvicorn

    from headwater.console.login import Login


STOP_S = 3
SLOW_S = 30.0
"""For the head of a request."""


class CannotServe(HeadwaterError):
    """The console cannot listen there, or may not."""


def serve(
    context: Context,
    listen: str,
    entry: Entry,
    say: Callable[[str], None],
    tls_settings: Mapping[str, str] | None = None,
) -> None:
    """Until SIGTERM or SIGINT."""
    host, port = _checked(listen, entry)
    certificates = None if tls_settings is None else Certificates(tls_settings, "console")
    with _bound(host, port) as listener:
        loopback_only = addresses.is_loopback(host)
        server = _server(context, entry, certificates, loopback_only=loopback_only)
        at = addresses.url_of(host, listener.getsockname()[1], is_secure=certificates is not None)
        say(f"the console is at {at}")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: setattr(server, "should_exit", True))
        server.run(sockets=[listener])


def _checked(listen: str, entry: Entry) -> tuple[str, int]:
    try:
        host, port = addresses.split(listen)
    except ValueError as error:
        raise CannotServe(str(error)) from None
    if not entry.asks and not addresses.is_loopback(host):
        raise CannotServe(
            f"without a token the console listens on this machine only, and {host} is more than that",
            hint="set HEADWATER_CONSOLE_TOKEN, write [console.users], or listen at 127.0.0.1",
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
    entry: Entry,
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
    app = make_app(context, _login(context, entry), loopback_only=loopback_only)
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


def _login(context: Context, entry: Entry) -> Login | None:
    from headwater.console.login import Login

    if not entry.asks:
        return None
    users = None
    if entry.grants is not None:
        users = BrokerUsers(context.bootstrap, context.client, entry.grants)
    return Login(Sessions(entry.tokens, entry.lifetime_s), users)


@dataclass(frozen=True)
class Entry:
    """Who is let in, and for how long."""

    tokens: tuple[Token, ...] = ()
    grants: Grants | None = None
    """Of the broker's users; None: they cannot sign in."""
    lifetime_s: int = SESSION_S

    @property
    def asks(self) -> bool:
        return bool(self.tokens) or self.grants is not None

    def also(self, token: str | None) -> Entry:
        """With the one of the command line, which may do everything."""
        own = () if token is None else (Token(Role.ADMINISTRATOR, token),)
        return replace(self, tokens=(*own, *self.tokens))


@dataclass(frozen=True)
class Given:
    """All that is known before it starts."""

    bootstrap: str
    client: Mapping[str, str]
    project: Project | None
    listen: str
    entry: Entry
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
        return Given(bootstrap or default_bootstrap, client, None, DEFAULT, Entry(), False)
    os.chdir(found.folder)
    said = found.console or {}
    return Given(
        bootstrap=bootstrap or found.address,
        client=client,
        project=found,
        listen=said.get("listen", DEFAULT),
        entry=_entry(found),
        read_only=said.get("read_only", False),
        tls=settings_of(said.get("tls"), found.settings),
    )


def _entry(project: Project) -> Entry:
    """Raises MissingSecret for a token that is named and not there."""
    said = project.console or {}
    named = [(ROLES[word], secret) for word, secret in said.get("tokens", {}).items()]
    if "token" in said:
        named.append((Role.ADMINISTRATOR, said["token"]))
    return Entry(
        tuple(Token(role, Secrets([secret])) for role, secret in named),
        grants_of(said["users"]) if "users" in said else None,
        said.get("session_minutes", SESSION_S // 60) * 60,
    )


def _project(path: Path | None, *, alone: bool) -> Project | None:
    """The one that is named; else the one in this folder, unless only an address was given."""
    if path is not None:
        return load((path / FILE if path.is_dir() else path).absolute())
    here = Path(FILE).absolute()
    return load(here) if here.exists() and not alone else None
