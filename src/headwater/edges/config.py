"""[edges] of headwater.toml, read and checked as a whole.

Called by `headwater edges`, `up` and `doctor`. The named sections stay as they are written; what they may
hold is known to the package that serves them, whose `check(name, section)` gives a sentence per mistake.

    [edges]                                [edges.limits]      see `Limits`
    listen = "127.0.0.1:8086"              [edges.tracing]     see `tracing`
                                           [edges.oidc]        see `oidc`
                                           [edges.subscriptions] see `subscriptions`
    origins = ["https://shop.example"]     [edges.KIND.NAME]   KIND: one of `KINDS`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from headwater.errors import missing_package, nearest
from headwater.project import tls
from headwater.project.file import Project
from headwater.project.mistakes import mistaken
from headwater.project.parts import EDGES_LISTEN
from headwater.project.ports import CONNECTIONS_PER_ADDRESS, is_address
from headwater.value_forms import is_number, is_positive, is_whole, port_complaint, text_complaint

KINDS = {
    "tokens": "headwater.edges.guard",
    "topics": "headwater.edges.schemas",
    "hooks": "headwater.edges.hooks",
    "bridges": "headwater.edges.bridges",
    "webhooks": "headwater.edges.webhooks",
    "alerts": "headwater.edges.alerts",
}
"""Named sections, and the module whose `check` knows them."""
_SINGLE = ("tracing", "oidc", "subscriptions")
"""Sections without a name; `check` is that of the module that is called so."""
_UNLIMITED = (
    "requests_per_second",
    "bytes_per_second",
    "requests_at_once",
    "connections_per_address",
)
"""Limits that 0 takes away."""
BYTES_MOST = 2**40
Section = Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """[edges.limits]: what one sender or reader may use up."""

    body_bytes: int = 16 * 1024**2
    """Of one request. A larger one is answered with 413."""
    waiting_bytes: int = 64 * 1024**2
    """Of all that is on its way to the log, at least twice `body_bytes`. Beyond it, requests are
    answered 429; one that would take more than three quarters, at 64 bytes a record beside its own, 413."""
    requests_per_second: float = 20_000
    """Of one token, or of one address where there are none; beyond it 429. 0: as many as it likes."""
    bytes_per_second: float = 512 * 1024**2
    """Of its bodies and answers together; what is under way is never cut off. 0: as many as it likes."""
    requests_at_once: int = 10_000
    """Of it, changefeeds included. 0: as many as it likes."""
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    """One more is closed at once. 0: as many as it likes."""
    clients: int = 5000
    """Changefeeds open at once; of one token or address, no more than three quarters."""
    client_buffer_bytes: int = 1024**2
    """What one changefeed may lag behind in memory before it is dropped."""
    consumers: int = 64
    """Members of groups by HTTP (/consumers/…) at once, a megabyte or two each; beyond it 429, but for a
    token's or an address' first, of which as many again find a place."""
    consumers_per_token: int = 16
    """Of one token, or of one address where there are none."""
    consumer_idle_seconds: float = 300
    """One that nobody has asked for so long is closed."""
    slow_seconds: float = 30
    """A request whose body takes longer, or a feed or answer that is not taken for so long, is ended."""


@dataclass(frozen=True)
class Edges:
    """A checked section [edges]."""

    name: str = "edges"
    """Of this process: two with the same name at one log fence each other where it matters."""
    listen: str = EDGES_LISTEN
    origins: tuple[str, ...] = ()
    """Pages that a browser may call us from, beside our own address."""
    tls: bool | Section = False
    """True: as [log.settings] has it for the broker; or settings `ssl.…` beside or instead of those."""
    limits: Limits = field(default_factory=Limits)
    tracing: Section | None = None
    oidc: Section | None = None
    subscriptions: Section | None = None
    tokens: Mapping[str, Section] = field(default_factory=dict)
    topics: Mapping[str, Section] = field(default_factory=dict)
    hooks: Mapping[str, Section] = field(default_factory=dict)
    bridges: Mapping[str, Section] = field(default_factory=dict)
    webhooks: Mapping[str, Section] = field(default_factory=dict)
    alerts: Mapping[str, Section] = field(default_factory=dict)


def of_project(project: Project) -> Edges:
    """What the project's file says. Raises BadProject with every mistake, each with its line."""
    edges, mistakes = read(project.edges or {})
    for name, section in edges.topics.items():
        if isinstance(section.get("schema"), str):
            from headwater.edges.schemas import file_complaint

            wrong = file_complaint(project.folder / section["schema"])
            if wrong is not None:
                mistakes.append((f"edges.topics.{name}", f"[edges.topics.{name}] schema: {wrong}"))
    if mistakes:
        raise mistaken(project.path, mistakes)
    return edges


def read(document: Mapping[str, Any]) -> tuple[Edges, list[tuple[str, str]]]:
    """The edges, and what is wrong with them: (section, sentence) pairs."""
    mistakes: list[tuple[str, str]] = []
    plain = ("name", "listen", "origins", "tls")
    known = (*plain, "limits", *_SINGLE, *KINDS)
    for key in document:
        if key not in known:
            near = nearest(key, known)
            mistakes.append(("edges", f"[edges] has no {key!r}{near}"))
    words = _plain(document, mistakes)
    limits = _limits(document.get("limits", {}), mistakes)
    single: dict[str, Section | None] = {kind: document.get(kind) for kind in _SINGLE}
    for kind, section in single.items():
        if section is not None:
            mistakes += [(f"edges.{kind}", said) for said in _checked(kind, section)]
    named: dict[str, Any] = {kind: _named(kind, document.get(kind, {}), mistakes) for kind in KINDS}
    return Edges(
        **words,
        limits=limits,
        tracing=single["tracing"],
        oidc=single["oidc"],
        subscriptions=single["subscriptions"],
        **named,
    ), mistakes


def _plain(document: Mapping[str, Any], mistakes: list[tuple[str, str]]) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for key in ("name", "listen"):
        if key in document:
            if (wrong := text_complaint(document[key])) is None:
                words[key] = document[key]
            else:
                mistakes.append(("edges", f"{key} = {document[key]!r} {wrong}"))
    if "listen" in words and not is_address(words["listen"]):
        mistakes.append(("edges", f"listen = {words.pop('listen')!r} is no HOST:PORT"))
    words["tls"] = document.get("tls", False)
    if (wrong := tls.complaint(words["tls"])) is not None:
        mistakes.append(("edges", f"tls {wrong}"))
    origins = document.get("origins", [])
    if isinstance(origins, list) and all(_is_origin(each) for each in origins):
        words["origins"] = tuple(each.rstrip("/").lower() for each in origins)
    else:
        mistakes.append(
            ("edges", f'origins = {origins!r} is no list as in ["https://shop.example"]')
        )
    return words


def _is_origin(value: object) -> bool:
    if not isinstance(value, str) or port_complaint(value) is not None:
        return False
    parts = urlsplit(value)
    return parts.scheme in ("http", "https") and bool(parts.netloc) and parts.path in ("", "/")


def _limits(section: object, mistakes: list[tuple[str, str]]) -> Limits:
    if not isinstance(section, Mapping):
        mistakes.append(("edges.limits", "[edges.limits] is a section with lines of its own"))
        return Limits()
    known = {each.name: each.type for each in dataclasses.fields(Limits)}
    good: dict[str, Any] = {}
    for key, value in section.items():
        if key not in known:
            said = f"[edges.limits] has no setting {key!r}{nearest(key, known)}"
            mistakes.append(("edges.limits", said))
        elif (wrong := _limit_complaint(key, value, known[key])) is not None:
            mistakes.append(("edges.limits", f"{key} = {value!r} {wrong}"))
        else:
            good[key] = value
    return dataclasses.replace(Limits(), **good)


def _limit_complaint(key: str, value: object, kind: object) -> str | None:
    low = 0 if key in _UNLIMITED else 1
    if kind == "int":
        return None if is_whole(value, low, BYTES_MOST) else f"is no whole number from {low} on"
    if low == 0:
        return None if is_number(value, 0) else "is no number from 0 on"
    return None if is_positive(value) else "is no number above 0"


def _named(
    kind: str, sections: object, mistakes: list[tuple[str, str]]
) -> dict[str, Mapping[str, Any]]:
    if not isinstance(sections, Mapping):
        mistakes.append(("edges", f"write [edges.{kind}.NAME], with a name of your own"))
        return {}
    good: dict[str, Mapping[str, Any]] = {}
    for name, section in sections.items():
        where = f"edges.{kind}.{name}"
        if not isinstance(section, Mapping):
            mistakes.append((f"edges.{kind}", f"write [{where}] with lines of its own"))
            continue
        complaints = _checked(kind, section, name)
        mistakes += [(where, f"[{where}] {said}") for said in complaints]
        good[name] = section
    return good


def _checked(kind: str, section: object, name: str = "") -> list[str]:
    module = KINDS.get(kind, f"headwater.edges.{kind}")
    try:
        check: Callable[[str, Any], list[str]] = import_module(module).check
    except ModuleNotFoundError as error:
        return [f"needs the package {missing_package(error)}: pip install 'headwater[edges]'"]
    return check(name, section)
