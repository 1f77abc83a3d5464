"""Every secret that headwater.toml names is there, before anything starts.

Called by `headwater up` and `doctor`. The sections of edges, registry and captures are read by their own
packages, which look for most of their secrets themselves; here are the others. A part that only found out by
itself would be started again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import chdir

from headwater.project.file import Project
from headwater.project.mistakes import mistaken
from headwater.secrets import MissingSecret, expand, is_sensitive


def refuse_missing(project: Project) -> None:
    """Raises BadProject with every name that has nothing, or an empty text, behind it."""
    with chdir(project.folder):  # from where files are meant
        found = list(missing(project))
    if found:
        raise mistaken(project.path, found)


def missing(project: Project) -> Iterator[tuple[str, str]]:
    """(section, sentence) of each name without a secret."""
    for section, text in _named(project):
        try:
            expand(text)
        except MissingSecret as error:
            yield section, error.with_hint


def _named(project: Project) -> Iterator[tuple[str, str]]:
    for section, given in (("log.settings", project.settings), ("spark.conf", project.conf)):
        yield from ((section, text) for name, text in given.items() if is_sensitive(name))
    yield from ((f"views.{name}", str(view["to"])) for name, view in project.views.items())
    console = project.console or {}
    yield from (("console", str(console[name])) for name in ("token",) if name in console)
    yield from (("console.tokens", str(text)) for text in console.get("tokens", {}).values())
    issuer = console.get("oidc", {})
    yield from (
        ("console.oidc", str(issuer[name])) for name in ("client_secret",) if name in issuer
    )
    edges = project.edges or {}
    for name in ("bridges", "tracing"):
        yield from ((f"edges.{name}", text) for text in _texts(edges.get(name)))
    tls = console.get("tls")
    if isinstance(tls, Mapping):
        yield from (("console.tls", str(text)) for text in tls.values())


def _texts(given: object) -> Iterator[str]:
    """All that is written in a section and in those within it."""
    if isinstance(given, str):
        yield given
    for each in given.values() if isinstance(given, Mapping) else ():
        yield from _texts(each)
