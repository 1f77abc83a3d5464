"""What `headwater doctor` finds at the web pages of a project: the console's address and who may come in, and
the certificates of all that speaks TLS.

Called by `doctor`. The rest of the edges and the registry is checked by their own package.
"""

from __future__ import annotations

import os
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
        return Finding("console: login", True, f"{listen} is for who may come in")
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


def broker_tls(project: Project) -> Finding:
    """The broker's own, listener by listener."""
    from headwater.broker.security import tls
    from headwater.broker.security.listeners import from_settings
    from headwater.broker.settings import Settings

    settings = Settings({name: expand(value) for name, value in project.settings.items()})
    encrypted = [each for each in from_settings(settings) if each.encrypted]
    for listener in encrypted:
        tls.context(settings, listener)
    said = "key and certificate can be read" if encrypted else "no listener wants it"
    return Finding("log: TLS", True, said)


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
