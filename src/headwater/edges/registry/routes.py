"""Every path with its handlers. Names in braces are one part of a path each, as it was escaped.

`loop`: the handler only looks at one thing in memory, so it runs where requests arrive; `work`: it parses,
compares, waits for the log, or takes as long as there is much, and gets a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote

from headwater.edges.registry import schemas, settings, subjects
from headwater.edges.registry.call import Call

Handler = Callable[[Call], object]
LOOP, WORK = "loop", "work"


class Route(NamedTuple):
    handler: Handler
    where: str


_TABLE: tuple[tuple[str, str, Handler, str], ...] = (
    ("GET", "/", settings.nothing, LOOP),
    ("GET", "/healthz", settings.well, LOOP),
    ("GET", "/v1/metadata/id", settings.cluster, LOOP),
    ("GET", "/v1/metadata/version", settings.about, LOOP),
    ("GET", "/contexts", schemas.contexts, WORK),
    ("GET", "/schemas", schemas.listed, WORK),
    ("GET", "/schemas/types", schemas.types, LOOP),
    ("GET", "/schemas/ids/{id}", schemas.by_id, LOOP),
    ("GET", "/schemas/ids/{id}/schema", schemas.text_by_id, LOOP),
    ("GET", "/schemas/ids/{id}/subjects", schemas.subjects_of_id, WORK),
    ("GET", "/schemas/ids/{id}/versions", schemas.versions_of_id, WORK),
    ("GET", "/schemas/guids/{guid}", schemas.by_guid, LOOP),
    ("GET", "/schemas/guids/{guid}/ids", schemas.ids_of_guid, WORK),
    ("GET", "/subjects", subjects.listed, WORK),
    ("POST", "/subjects/{subject}", subjects.looked_up, WORK),
    ("DELETE", "/subjects/{subject}", subjects.deleted, WORK),
    ("GET", "/subjects/{subject}/metadata", subjects.with_metadata, WORK),
    ("GET", "/subjects/{subject}/versions", subjects.versions, WORK),
    ("POST", "/subjects/{subject}/versions", subjects.registered, WORK),
    ("GET", "/subjects/{subject}/versions/{version}", subjects.version, LOOP),
    ("DELETE", "/subjects/{subject}/versions/{version}", subjects.version_deleted, WORK),
    ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.schema_of_version, LOOP),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.referrers, WORK),
    ("POST", "/compatibility/subjects/{subject}/versions", schemas.compatible, WORK),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", schemas.compatible, WORK),
    ("GET", "/config", settings.config, LOOP),
    ("PUT", "/config", settings.config_set, WORK),
    ("DELETE", "/config", settings.config_deleted, WORK),
    ("GET", "/config/{subject}", settings.config, LOOP),
    ("PUT", "/config/{subject}", settings.config_set, WORK),
    ("DELETE", "/config/{subject}", settings.config_deleted, WORK),
    ("GET", "/mode", settings.mode, LOOP),
    ("PUT", "/mode", settings.mode_set, WORK),
    ("DELETE", "/mode", settings.mode_deleted, WORK),
    ("GET", "/mode/{subject}", settings.mode, LOOP),
    ("PUT", "/mode/{subject}", settings.mode_set, WORK),
    ("DELETE", "/mode/{subject}", settings.mode_deleted, WORK),
)


class Node:
    """One part of the paths."""

    def __init__(self) -> None:
        self.parts: dict[str, Node] = {}
        self.named: tuple[str, Node] | None = None
        self.routes: dict[str, Route] = {}


def _tree() -> Node:
    root = Node()
    for method, path, handler, where in _TABLE:
        node = root
        for part in path.strip("/").split("/"):
            if part.startswith("{"):
                node.named = node.named or (part[1:-1], Node())
                node = node.named[1]
            elif part:
                node = node.parts.setdefault(part, Node())
        node.routes[method] = Route(handler, where)
    return root


_ROOT = _tree()


class Found(NamedTuple):
    context: str
    names: dict[str, str]
    methods: dict[str, Route]
    """None of them: there is no such path."""


def find(raw_path: bytes) -> Found:
    """By the path as it was sent: a subject may have slashes in it, escaped. The rest is decoded."""
    parts = [each for each in raw_path.decode("latin-1").split("/") if each]
    context = "."
    if parts[:1] == ["contexts"] and len(parts) > 1:
        context = unquote(parts[1]).strip(":") or "."
        context = context if context.startswith(".") else f".{context}"
        parts = parts[2:]
    node, names = _ROOT, {}
    for part in parts:
        if part in node.parts:
            node = node.parts[part]
        elif node.named is not None:
            name, node = node.named
            names[name] = unquote(part, errors="replace")
        else:
            return Found(context, {}, {})
    return Found(context, names, node.routes)
