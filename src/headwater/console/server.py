"""From words to a listening console: checks what may be listened to, binds, serves until told to stop.

Called by `headwater console`.

Also here: what a console is told, by words and by the project's file; words go before the file.

The process moves into the project's folder, as paths in its file mean that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client.log import Log
from headwater.console import addresses
from headwater.console.addresses import DEFAULT
from headwater.console.broker_users import BrokerUsers
from headwater.console.context import Context
from headwater.console.guesses import Network, networks_of
from headwater.console.history import History
from headwater.console.jobs import Jobs
from headwater.console.sessions import SESSION_S, Sessions, Token
from headwater.console.watching import Watch
from headwater.project.file import Project
from headwater.project.ports import CONNECTIONS_PER_ADDRESS
from headwater.project.roles import ROLES, Grants, Role, grants_of
from headwater.project.tls import Certificates, settings_of
from headwater.project.web_service import CannotServe, WebService, place, project_at
from headwater.secrets import Secrets

if TYPE_CHECKING:
    from headwater.console.login import Login
    from headwater.console.single_sign_on import SingleSignOn


SERVICE = WebService("the console", "console")
STOP_S = 3
SLOW_S = 30.0
"""For the head of a request, and for bytes that a browser does not take."""


def serve(
    context: Context,
    listen: str,
    entry: Entry,
    say: Callable[[str], None],
    tls_settings: Mapping[str, str] | None = None,
    connections_per_address: int = CONNECTIONS_PER_ADDRESS,
) -> None:
    """Until SIGTERM or SIGINT."""
    host, port = place(listen, None if entry.asks else _refusal(listen))
    certificates = None if tls_settings is None else Certificates(tls_settings, "console")
    with SERVICE.imports():
        from headwater.console.app import make_app
        from headwater.project import http_server, websocket_protocol
    with SERVICE.bound(host, port, SLOW_S) as listener:
        loopback_only = addresses.is_loopback(host)
        app = make_app(context, _login(context, entry), loopback_only=loopback_only)
        config = http_server.config(
            app, slow_s=SLOW_S, stop_s=STOP_S, sockets=websocket_protocol.PAGES
        )
        server = http_server.Server(config, certificates, connections_per_address)
        server.run_at(listener, lambda url: say(f"the console is at {url}"))


def _refusal(listen: str) -> CannotServe:
    return CannotServe(
        f"without a token the console listens on this machine only, and {listen} is more than that",
        hint="set HEADWATER_CONSOLE_TOKEN, write [console.users], or listen at 127.0.0.1",
    )


def _login(context: Context, entry: Entry) -> Login | None:
    from headwater.console.login import Login

    if not entry.asks:
        return None
    users = None
    if entry.grants is not None:
        users = BrokerUsers(context.bootstrap, context.client, entry.grants)
    sessions = Sessions(entry.tokens, entry.lifetime_s)
    return Login(sessions, users, _single_sign_on(entry), entry.proxies)


def _single_sign_on(entry: Entry) -> SingleSignOn | None:
    if entry.issuer is None:
        return None
    from headwater.console.single_sign_on import SingleSignOn

    with WebService("[console.oidc]", "oidc").imports():
        return SingleSignOn(entry.issuer)


@dataclass(frozen=True)
class Entry:
    """Who is let in, and for how long."""

    tokens: tuple[Token, ...] = ()
    grants: Grants | None = None
    """Of the broker's users; None: they cannot sign in."""
    lifetime_s: int = SESSION_S
    issuer: Mapping[str, object] | None = None
    """[console.oidc]."""
    proxies: tuple[Network, ...] = ()
    """Whose word on who asks counts."""

    @property
    def asks(self) -> bool:
        return bool(self.tokens) or self.grants is not None or self.issuer is not None

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
    connections_per_address: int = CONNECTIONS_PER_ADDRESS

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
    found = None if project is None and bootstrap is not None else project_at(project)
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
        connections_per_address=said.get("connections_per_address", CONNECTIONS_PER_ADDRESS),
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
        said.get("oidc"),
        networks_of(said.get("proxies", ())),
    )
