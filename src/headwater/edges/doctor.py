"""What `headwater doctor` finds at the edges and the registry: file and secrets, address, issuer."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.edges.config import Section, of_project
from headwater.edges.registry import config as registry
from headwater.errors import HeadwaterError
from headwater.project.doctor import guarded, web_address
from headwater.project.file import Project
from headwater.project.values import Finding


def examine(project: Project) -> Iterator[Finding]:
    """Of the edges, one check after the other."""
    try:
        edges = of_project(project)
    except HeadwaterError as error:
        yield Finding("edges", False, error.sentence, error.hint)
        return
    yield Finding("edges", True, "[edges] is in order")
    yield from guarded(
        "edges: address", lambda: web_address("edges", edges.listen, is_secure=bool(edges.tls))
    )
    if edges.oidc is not None:
        section = edges.oidc
        yield from guarded("edges: issuer", lambda: _issuer(section))


def examine_registry(project: Project) -> Iterator[Finding]:
    """Of the registry."""
    try:
        config = registry.of_project(project)
    except HeadwaterError as error:
        yield Finding("schemas", False, error.sentence, error.hint)
        return
    yield Finding("schemas", True, "[schemas] is in order")
    yield from guarded(
        "schemas: address",
        lambda: web_address("schemas", config.listen, is_secure=bool(config.tls)),
    )


def _issuer(section: Section) -> Finding:
    from headwater.edges import oidc

    why = oidc.unreachable(section)
    if why is None:
        return Finding("edges: issuer", True, "the keys of [edges.oidc] can be had")
    remedy = (
        "look at issuer and jwks in [edges.oidc]; until it answers nobody gets in by its tokens"
    )
    return Finding("edges: issuer", False, why, remedy)
