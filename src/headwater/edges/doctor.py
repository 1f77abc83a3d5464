"""What `headwater doctor` finds at the edges: the file with its secrets, the packages, the address."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.edges.config import Edges, of_project
from headwater.edges.errors import CannotServe
from headwater.errors import HeadwaterError
from headwater.project.doctor import Finding, guarded
from headwater.project.file import Project
from headwater.project.hello import page_answers
from headwater.project.ports import cannot_listen


def examine(project: Project) -> Iterator[Finding]:
    """All checks, one after the other."""
    try:
        edges = of_project(project)
    except HeadwaterError as error:
        yield Finding("edges", False, error.sentence, error.hint)
        return
    yield from guarded("edges", _packages)
    yield from guarded("edges: address", lambda: _address(edges))


def _packages() -> Finding:
    try:
        import headwater.edges.app  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("headwater"):
            raise
        raise CannotServe(
            f"the package {error.name} is missing", hint="pip install 'headwater[edges]'"
        ) from None
    return Finding("edges", True, "[edges] is in order, and what it needs is installed")


def _address(edges: Edges) -> Finding:
    if page_answers(edges.listen, timeout_s=3.0, is_secure=bool(edges.tls)):
        return Finding("edges: address", True, f"somebody answers at {edges.listen}")
    taken = cannot_listen(edges.listen)
    if taken is None:
        return Finding("edges: address", True, f"{edges.listen} is free")
    remedy = "stop what is there, or give another `listen` in [edges]"
    return Finding("edges: address", False, taken, remedy)
