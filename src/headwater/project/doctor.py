"""`headwater doctor`: look at all that a project needs, and say for each failure what mends it.

Nothing is started and nothing is changed. Each check stands alone: one that fails, or that cannot be
made, does not keep the others from being told.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.project import record
from headwater.project.file import Project
from headwater.project.hello import Answer, hello

DISK_BYTES = 1024**3


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    name: str
    ok: bool
    sentence: str
    mend: str | None = None


def examine(project: Project) -> Iterator[Finding]:
    """All checks, one after the other."""
    yield Finding("file", True, f"{project.path} is in order")
    with chdir(project.folder):  # where the parts will run, and from where all paths are meant
        yield from guarded("log", lambda: _log(project))
        yield from guarded("disk", lambda: _disk(project))
        if project.pipelines:
            yield from guarded("java", _java)
            yield from guarded("pipelines", lambda: _pipelines(project))
        for name in project.captures:
            yield from _captured(project, name)


def guarded(name: str, check: Callable[[], Finding]) -> Iterator[Finding]:
    """What the check found, or that it could not be made."""
    try:
        yield check()
    except HeadwaterError as error:
        yield Finding(name, False, str(error), error.hint)
    except Exception as error:
        yield Finding(name, False, f"{type(error).__name__}: {error}")


def _log(project: Project) -> Finding:
    address = project.address.split(",")[0].strip()
    answer = hello(address, timeout_s=3.0)
    is_up, _ = record.read(record.FOLDER)
    if project.bootstrap is not None or is_up:
        if answer is Answer.BROKER:
            return Finding("log", True, f"a broker answers at {address}")
        mend = (
            "start it, or correct bootstrap in [log]" if project.bootstrap else "headwater status"
        )
        return Finding("log", False, f"{answer.value} at {address}", mend)
    taken: str | None = f"{address} is taken by {answer.value}"
    if answer is Answer.NOBODY:
        taken = cannot_listen(address)
    if taken is None:
        return Finding("log", True, f"{address} is free")
    return Finding("log", False, taken, "stop what is there, or give another `listen` in [log]")


def cannot_listen(address: str) -> str | None:
    """Why nothing can listen there; None where something can."""
    host, _, port = address.rpartition(":")
    try:
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), int(port)))
    except OSError as error:
        return f"nothing can listen at {address}: {error.strerror or error}"
    return None


def _disk(project: Project) -> Finding:
    place = Path(project.data).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    sentence = f"{free / 1024**3:.1f} GB free for {project.data}"
    if free < DISK_BYTES:
        return Finding("disk", False, sentence, "make room, or set log.retention.bytes")
    return Finding("disk", True, sentence)


def _java() -> Finding:
    from headwater.pipelines.java import java_home

    return Finding("java", True, f"Spark will use {java_home()}")


def _pipelines(project: Project) -> Finding:
    missing = [path for path in project.pipelines if not Path(path).exists()]
    if missing:
        names = ", ".join(missing)
        return Finding("pipelines", False, f"there is no {names}", "correct [pipelines] paths")
    from headwater.pipelines.loading import load, read

    views = load(read(map(Path, project.pipelines)))
    unknown = sorted(set(project.views) - {view.name for view in views})
    if unknown:
        return Finding(
            "pipelines",
            False,
            f"no query is named {', '.join(unknown)}, which [views.…] names",
            f"declared are {', '.join(view.name for view in views) or 'none'}",
        )
    count = f"{len(views)} views" if len(views) != 1 else "1 view"
    return Finding("pipelines", True, f"{count} declared")


def _captured(project: Project, name: str) -> Iterator[Finding]:
    from headwater.capture.config import from_mapping
    from headwater.capture.source import open_source

    try:
        source = open_source(from_mapping(name, project.captures[name], project.address))
        try:
            found = source.check()
        finally:
            source.close()
    except HeadwaterError as error:
        yield Finding(f"capture {name}", False, str(error), error.hint)
        return
    except Exception as error:
        yield Finding(f"capture {name}", False, f"{type(error).__name__}: {error}")
        return
    for each in found:
        yield Finding(f"capture {name}: {each.name}", each.ok, each.sentence, each.mend)
