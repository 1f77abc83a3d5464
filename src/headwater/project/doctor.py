"""`headwater doctor`: look at all that a project needs, and say for each failure what mends it.

Nothing is started and nothing is changed. Each check stands alone: one that fails, or that cannot be
made, does not keep the others from being told.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.log.meta import cluster_id
from headwater.project import packages, page_check, record, secret_check
from headwater.project import values as settings_check
from headwater.project.file import Project
from headwater.project.hello import Answer, cluster_at, hello, page_answers
from headwater.project.parts import Part, parts_of
from headwater.project.ports import cannot_listen
from headwater.project.values import Finding
from headwater.record import forms

DISK_BYTES = 1024**3


def examine(project: Project) -> Iterator[Finding]:
    """All checks, one after the other."""
    yield Finding("file", True, f"{project.path} is in order")
    with chdir(project.folder):  # where the parts will run, and from where all paths are meant
        yield from guarded("log", lambda: _log(project))
        yield from guarded("disk", lambda: _disk(project))
        yield Finding("record checks", True, f"they run {forms.name()}")
        wrong = list(settings_check.examine(project))
        yield from wrong
        if project.bootstrap is None and all(each.name != "log settings" for each in wrong):
            yield from guarded("log: listeners", lambda: page_check.broker_listeners(project))
        if project.console is not None:
            yield from _console(project)
        yield from page_check.tls_files(project)
        for section, said in secret_check.missing(project):
            yield Finding(f"secrets of [{section}]", False, said)
        if project.pipelines:
            yield from guarded("java", _java)
            yield from guarded("pipelines", lambda: _pipelines(project))
        for part in parts_of(project):
            yield from guarded(f"packages of {part.name}", partial(_packages, part))
        for name in project.captures:
            yield from _captured(project, name)


def guarded(name: str, check: Callable[[], Finding]) -> Iterator[Finding]:
    """What the check found, or that it could not be made."""
    try:
        yield check()
    except HeadwaterError as error:
        yield Finding(name, False, error.sentence, error.hint)
    except Exception as error:
        yield Finding(name, False, f"{type(error).__name__}: {error}")


def _log(project: Project) -> Finding:
    address = project.address.split(",")[0].strip()
    answer = hello(address, timeout_s=3.0)
    is_up, _ = record.read(record.FOLDER)
    if project.bootstrap is not None or is_up:
        if answer is Answer.BROKER and project.bootstrap is None and not _is_own(project):
            remedy = "stop what is there, or give another `listen` in [log]"
            return Finding("log", False, f"the broker at {address} is another project's", remedy)
        if answer is Answer.BROKER:
            return Finding("log", True, f"a broker answers at {address}")
        remedy = (
            "start it, or correct bootstrap in [log]" if project.bootstrap else "headwater status"
        )
        return Finding("log", False, f"{answer.value} at {address}", remedy)
    taken: str | None = f"{address} is taken by {answer.value}"
    if answer is Answer.NOBODY:
        taken = cannot_listen(address)
    if taken is None:
        return Finding("log", True, f"{address} is free")
    return Finding("log", False, taken, "stop what is there, or give another `listen` in [log]")


def web_address(section: str, listen: str, *, is_secure: bool) -> Finding:
    """Whether the edges, or whoever has this section, are there or could be."""
    name = f"{section}: address"
    if page_answers(listen, timeout_s=3.0, is_secure=is_secure):
        return Finding(name, True, f"somebody answers at {listen}")
    taken = cannot_listen(listen)
    if taken is None:
        return Finding(name, True, f"{listen} is free")
    remedy = f"stop what is there, or give another `listen` in [{section}]"
    return Finding(name, False, taken, remedy)


def _console(project: Project) -> Iterator[Finding]:
    listen = page_check.console_listen(project)
    is_secure = bool((project.console or {}).get("tls"))
    yield from guarded("console", lambda: web_address("console", listen, is_secure=is_secure))
    yield from guarded("console", lambda: page_check.open_console(project))


def _is_own(project: Project) -> bool:
    return cluster_at(project.listen, timeout_s=3.0) == cluster_id(Path(project.data))


def _disk(project: Project) -> Finding:
    place = Path(project.data).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    sentence = f"{free / 1024**3:.1f} GB free for {project.data}"
    if free < DISK_BYTES:
        return Finding("disk", False, sentence, "make room, or set log.retention.bytes")
    return Finding("disk", True, sentence)


def _packages(part: Part) -> Finding:
    lack = packages.lacking(part.needs)
    if lack is not None:
        return Finding(f"packages of {part.name}", False, f"it {lack[0]}", lack[1])
    return Finding(f"packages of {part.name}", True, "all that it imports is installed")


def _java() -> Finding:
    from headwater.pipelines.java import java_home

    return Finding("java", True, f"Spark will use {java_home()}")


def _pipelines(project: Project) -> Finding:
    missing = [path for path in project.pipelines if not Path(path).exists()]
    if missing:
        names = ", ".join(missing)
        return Finding("pipelines", False, f"there is no {names}", "correct [pipelines] paths")
    from headwater.pipelines.loader import load, read

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
        yield Finding(f"capture {name}", False, error.sentence, error.hint)
        return
    except Exception as error:
        yield Finding(f"capture {name}", False, f"{type(error).__name__}: {error}")
        return
    for each in found:
        yield Finding(f"capture {name}: {each.name}", each.ok, each.sentence, each.remedy)
