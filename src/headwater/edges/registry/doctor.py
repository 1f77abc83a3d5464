"""What `headwater doctor` finds at the registry: the file with its secrets, the address."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.edges.registry.config import of_project
from headwater.errors import HeadwaterError
from headwater.project.doctor import guarded, web_address
from headwater.project.file import Project
from headwater.project.values import Finding


def examine(project: Project) -> Iterator[Finding]:
    try:
        config = of_project(project)
    except HeadwaterError as error:
        yield Finding("schemas", False, error.sentence, error.hint)
        return
    yield Finding("schemas", True, "[schemas] is in order")
    yield from guarded(
        "schemas: address",
        lambda: web_address("schemas", config.listen, is_secure=bool(config.tls)),
    )
