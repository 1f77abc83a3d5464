"""Lines of the hardening list that are about the edges, the registry and the console."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from headwater.project.file import Project
from headwater.project.hardening.findings import failed, fine
from headwater.project.page_check import WAYS_IN
from headwater.project.parts import CONSOLE_LISTEN, EDGES_LISTEN
from headwater.project.ports import is_loopback, split
from headwater.project.values import Finding
from headwater.schemas.address import LISTEN as SCHEMAS_LISTEN
from headwater.schemas.address import is_served

_LIMITS = ("requests_per_second", "bytes_per_second", "requests_at_once", "body_bytes")
_Section = Mapping[str, object]


def _page_tls(name: str, section: _Section | None, default: str) -> Finding:
    if section is None:
        return fine(name, "there is none")
    listen = str(section.get("listen", default))
    if is_loopback(split(listen)[0]) or section.get("tls"):
        return fine(name, f"{listen} is {'encrypted' if section.get('tls') else 'this machine'}")
    where = name.partition(":")[0]
    remedy = f"in [{where}]: tls = true, with the ssl.… of [log.settings]; or listen at 127.0.0.1"
    return failed(name, f"{listen} sends tokens and records open over the network", remedy)


def edges_tls(project: Project) -> Finding:
    return _page_tls("edges: TLS", project.edges, EDGES_LISTEN)


def edges_tokens(project: Project) -> Finding:
    name = "edges: tokens"
    if project.edges is None:
        return fine(name, "there are no edges")
    tokens = {f"tokens.{name}": each for name, each in _section(project.edges, "tokens").items()}
    oidc = _section(project.edges, "oidc")
    for kind in ("groups", "principals"):
        named = _section(oidc, kind).items()
        tokens |= {f"oidc.{kind}.{name}": each for name, each in named}
    if not tokens:
        remedy = 'write [edges.tokens.NAME] with secret = "${NAME}", read = […] and write = […]'
        return failed(name, "any program of this machine may read and write", remedy)
    for token, section in tokens.items():
        ways = section if isinstance(section, Mapping) else {}
        for way in ("read", "write", "admin"):
            if "*" in (ways.get(way) or ()):
                remedy = f'in [edges.{token}]: {way} = ["orders", "shop.*"], what it needs'
                return failed(name, f"{token} may {way} everything", remedy)
    return fine(name, "each names what it may read and write")


def edges_limits(project: Project) -> Finding:
    name = "edges: limits"
    limits = _section(project.edges or {}, "limits")
    off = [each for each in _LIMITS if limits.get(each) == 0]
    if off:
        remedy = f"in [edges.limits]: take {', '.join(off)} = 0 out"
        return failed(name, f"one sender may use up everything: {', '.join(off)}", remedy)
    return fine(name, "rates, bytes and connections of a sender are bounded")


def webhooks(project: Project) -> Finding:
    name = "edges: webhooks"
    for hook, section in _section(project.edges or {}, "webhooks").items():
        to = section.get("to") if isinstance(section, Mapping) else None
        parts = urlsplit(to if isinstance(to, str) else "")
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            remedy = f'in [edges.webhooks.{hook}]: to = "https://…"'
            return failed(name, f"{hook} sends records open over the network", remedy)
    return fine(name, "none sends records in clear")


def _registry(project: Project) -> _Section | None:
    """Where the project serves one."""
    found = project.schemas
    return found if found is not None and is_served(found) else None


def schemas_tls(project: Project) -> Finding:
    return _page_tls("schemas: TLS", _registry(project), SCHEMAS_LISTEN)


def schemas_tokens(project: Project) -> Finding:
    name, section = "schemas: tokens", _registry(project)
    if section is None:
        return fine(name, "no registry is served here")
    tokens = _section(section, "tokens")
    if not tokens:
        remedy = 'write [schemas.tokens.NAME] with secret = "${NAME}", read = ["*"] and write = […]'
        return failed(name, "any program of this machine may change schemas", remedy)
    for token, ways in tokens.items():
        for way in ("write", "admin"):
            if isinstance(ways, Mapping) and "*" in (ways.get(way) or ()):
                remedy = f'in [schemas.tokens.{token}]: {way} = ["shop.*"], what it needs'
                return failed(name, f"tokens.{token} may {way} every subject", remedy)
    return fine(name, "each names the subjects that it may change")


def console_tls(project: Project) -> Finding:
    return _page_tls("console: TLS", project.console, CONSOLE_LISTEN)


def console_login(project: Project) -> Finding:
    name = "console: login"
    if project.console is None:
        return fine(name, "there is no console")
    if not any(project.console.get(each) for each in WAYS_IN):
        remedy = 'write [console.users] with ann = "administrator", or [console.tokens] with a role'
        return failed(name, "whoever opens the page may change everything", remedy)
    roles = ("tokens", "users", "oidc", "read_only")
    if not any(project.console.get(each) for each in roles):
        remedy = 'in place of token: [console.tokens] with reader = "${…}" and operator = "${…}"'
        return failed(name, "one token for all: everybody is administrator", remedy)
    return fine(name, "everybody signs in, and has a role")


def _section(of: _Section, name: str) -> _Section:
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}
