"""What `headwater doctor` finds at the web pages of a project: the console's address and who may come in, and
the certificates of all that speaks TLS.

Called by `doctor`. The rest of the edges and the registry is checked by their own package.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping

from headwater.errors import HeadwaterError
from headwater.project.file import Project
from headwater.project.parts import CONSOLE_LISTEN
from headwater.project.ports import is_loopback, split
from headwater.project.tls import certificates
from headwater.project.values import Finding
from headwater.secrets import expand

TOKEN = "HEADWATER_CONSOLE_TOKEN"
WAYS_IN = ("token", "tokens", "users", "oidc")


def console_listen(project: Project) -> str:
    """Where the console is, or would be."""
    return str((project.console or {}).get("listen", CONSOLE_LISTEN))


def open_console(project: Project) -> Finding:
    """Whether anybody of the network could come in: such a console does not start."""
    listen, found = console_listen(project), project.console or {}
    if is_loopback(split(listen)[0]) or os.environ.get(TOKEN) or any(map(found.get, WAYS_IN)):
        return Finding(
            "console: login", True, f"{listen} is open to this machine or to who signs in"
        )
    said = (
        f"without a token the console listens on this machine only, and {listen} is more than that"
    )
    remedy = f"set {TOKEN}, write [console.users], or listen at 127.0.0.1"
    return Finding("console: login", False, said, remedy)


def tls_files(project: Project) -> Iterator[Finding]:
    """The certificates of each section that wants TLS, read as its server reads them."""
    sections = {"console": project.console, "edges": project.edges, "schemas": project.schemas}
    for name, section in sections.items():
        if (section or {}).get("tls"):
            yield _certificates(name, section or {}, project.settings)


def broker_listeners(project: Project) -> Finding:
    """The broker's own: certificates, logins and rules, as it reads them at its start."""
    from headwater.broker.clock import SystemClock
    from headwater.broker.health import Health
    from headwater.broker.security.listeners import from_settings, single
    from headwater.broker.security.socket_server import SocketServer
    from headwater.broker.settings import Settings
    from headwater.broker.supervisor import Supervisor

    settings = Settings({name: expand(value) for name, value in project.settings.items()})
    if "listeners" in project.settings:
        listeners = from_settings(settings)
    else:
        listeners = single(project.listen, None)
    clock = SystemClock()
    SocketServer(listeners, settings, Supervisor(Health(clock.now_ms), clock))
    name = "log: listeners"
    for each in listeners:
        if (
            not each.authenticated
            and not settings.get("headwater.insecure")
            and _is_open(each.host)
        ):
            said = (
                f"anybody who reaches {each.host or 'this machine'} could read and write everything"
            )
            remedy = 'listen at 127.0.0.1, or write listeners = "SASL_SSL://…" (docs/security.md)'
            return Finding(name, False, said, remedy)
    encrypted = any(each.encrypted for each in listeners)
    return Finding(
        name, True, "key and certificate can be read" if encrypted else "nobody else reaches them"
    )


def _is_open(host: str) -> bool:
    """Whether other machines reach it."""
    try:
        found = socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return False  # nothing can listen there: that is told
    return not all(is_loopback(str(each[4][0])) for each in found)


def _certificates(name: str, section: Mapping[str, object], log: Mapping[str, str]) -> Finding:
    what = f"{name}: TLS"
    try:
        certificates(section["tls"], log, name)
    except HeadwaterError as error:
        return Finding(what, False, error.sentence, error.hint)
    except ValueError as error:
        remedy = f"correct [{name}.tls], or the ssl.… of [log.settings]"
        return Finding(what, False, str(error), remedy)
    return Finding(what, True, "key and certificate can be read")
